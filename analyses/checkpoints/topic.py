"""The topic `checkpoints`: why the checkpoints of a Flink job fail, and the culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.checkpoints.detect.durations import checkpoint_duration_ms
from flowdiag.analyses.checkpoints.pending import LEAST_MS, TIMES
from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_since_start
from flowdiag.analyses.contract.report import Data, iso
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.assemble.collectors import (
    CollectorLogs,
    read_collectors,
    with_collectors,
)
from flowdiag.analyses.flink.failures.episodes import in_order
from flowdiag.analyses.flink.failures.silences import gap_notes, silence_notes
from flowdiag.analyses.flink.job import Checkpoint, ClusterFacts, JobFacts, Status
from flowdiag.analyses.flink.missing import missing_inputs
from flowdiag.analyses.flink.topic import (
    FLINK,
    UNDATED,
    FlinkTopic,
    Row,
    has_dated_records,
    named_jobs,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome, Severity, State
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.analyses.topic import SelectableJob, SideInputs
from flowdiag.parsers.notes import InputNote, Kind

if TYPE_CHECKING:
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.analyses.model.columns import Rows
    from flowdiag.parsers.source import Source


def _has_ended(facts: ClusterFacts) -> bool:
    checkpoints = (checkpoint for job in facts.jobs for checkpoint in job.checkpoints)
    return any(checkpoint.status is not Status.IN_FLIGHT for checkpoint in checkpoints)


def _has_checkpoints(facts: ClusterFacts) -> bool:
    return any(job.checkpoints or job.late or job.declines for job in facts.jobs)


_REQUIRED: Final = {
    "checkpoints": (
        _has_checkpoints,
        "the input contains no checkpoints",
    ),
    "ended-checkpoints": (_has_ended, "the input does not show the end of any checkpoint"),
    "dated-records": (has_dated_records, UNDATED),
}


class Checkpoints(FlinkTopic):
    """Adds the garbage collection logs to the common facts."""

    name = "checkpoints"
    loads = True
    required_data = "a checkpoint event"
    engine = FLINK
    rules = RULES
    required = _REQUIRED

    def metrics(self) -> Collection[str]:
        """Return the metrics that show how busy a subtask is."""
        from flowdiag.analyses.flink import lifecycle

        return lifecycle.METRICS

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Read garbage collection logs."""
        read = read_collectors(sources)
        return SideInputs(
            content=read, kinds=dict.fromkeys((log.source for log in read.logs), "gc-log")
        )

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: CollectorLogs | None,
        options: Options,
    ) -> ClusterFacts:
        """Return the common facts with garbage collection logs added."""
        return with_collectors(common, side_inputs, writers)

    def jobs(self, facts: ClusterFacts) -> Iterable[SelectableJob]:
        return named_jobs(facts.jobs)

    def first_us(self, facts: ClusterFacts) -> int | None:
        return min((job.first_us for job in facts.jobs if job.first_us is not None), default=None)

    def last_us(self, facts: ClusterFacts) -> int | None:
        return max((job.last_us for job in facts.jobs if job.last_us is not None), default=None)

    def select_jobs(
        self, facts: ClusterFacts, is_selected: Callable[[JobKey], bool]
    ) -> ClusterFacts:
        """Return the facts of the selected jobs, with the attempts and settings of the cluster."""
        return replace(facts, jobs=tuple(job for job in facts.jobs if is_selected(job.key)))

    def select_span(self, facts: ClusterFacts, span: Span) -> ClusterFacts:
        """Return the facts reduced to checkpoints that began in the span."""
        return replace(facts, jobs=tuple(_job_within(job, span) for job in facts.jobs))

    def subjects(self, facts: ClusterFacts) -> Sequence[h.Job]:
        return h.jobs_of(facts)

    def review_outcomes(
        self, outcomes: Sequence[RuleOutcome], facts: ClusterFacts
    ) -> Sequence[RuleOutcome]:
        """Make the first core rule inconclusive for jobs without a finding that are not provably healthy."""
        failing_jobs = {
            finding.job
            for outcome in outcomes
            for finding in outcome.findings
            if finding.severity is not Severity.INFO and finding.state is State.ONGOING
        }
        later, metrics = ("jobmanager-log-later",), ("task-metrics",)
        doubts = tuple(
            Inconclusive(reason=why, checks=checks, job=job.key)
            for job in h.jobs_of(facts)
            if job.key not in failing_jobs
            for why, checks in (
                (why_not_healthy(job) or _slow_start(job), later),
                (_stuck_at_end(job), metrics),
            )
            if why
        )
        core = next(outcome for outcome in outcomes if outcome.core)
        return [
            replace(outcome, inconclusive=(*outcome.inconclusive, *doubts))
            if outcome is core
            else outcome
            for outcome in outcomes
        ]

    def data(
        self,
        facts: ClusterFacts | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """Return the `jobs` of the report."""
        from flowdiag.analyses.checkpoints.data import checkpoint_data

        if facts is None:
            return Data(jobs=[])
        excerpts = options.privacy.excerpts
        return Data(
            jobs=checkpoint_data(facts, outcomes, max_rows=options.max_rows, excerpts=excerpts)
        )

    def tables(self, facts: ClusterFacts, options: Options) -> Rows:
        """Return the complete lists of `data`."""
        from flowdiag.analyses.checkpoints.data import checkpoint_tables

        return checkpoint_tables(facts, excerpts=options.privacy.excerpts)

    def is_assessed(self, facts: ClusterFacts) -> bool:
        """Return whether the input shows a checkpoint, or an exception that explains why there is none."""
        return any(
            job.checkpoints
            or job.late
            or job.declines
            or any(incident.kind in ("exception", "failure") for incident in job.incidents)
            for job in facts.jobs
        )

    def notes(
        self, measured: ClusterFacts, facts: ClusterFacts, options: Options
    ) -> Iterable[InputNote]:
        """Warn about gaps, about missing logs, and about a requested time range without checkpoints."""
        yield from silence_notes(facts)
        yield from gap_notes(facts)
        yield from missing_inputs(measured)
        job_keys = {job.key for job in facts.jobs}
        times = [
            checkpoint.triggered_us or checkpoint.ended_us
            for job in measured.jobs
            if job.key in job_keys
            for checkpoint in job.checkpoints
        ]
        known = [time_us for time_us in times if time_us is not None]
        if known and not any(job.checkpoints for job in facts.jobs):
            yield InputNote(
                Kind.OUTSIDE,
                "no checkpoint began in the requested time range; in the inputs, checkpoints began from"
                f" {iso(min(known))} to {iso(max(known))}",
                first_us=min(known),
                last_us=max(known),
            )


CHECKPOINTS: Final = Checkpoints()


FINISHING_US: Final = 5_000_000
"""The time within which the tasks of a bounded job finish. A checkpoint triggered then fails because some tasks have
finished.
"""


def _ended_with_job(job: JobFacts, checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint failed because the job finished."""
    ended_us = checkpoint.ended_us
    return ended_us is not None and any(
        incident.kind == "finished"
        and incident.time_us is not None
        and abs(incident.time_us - ended_us) <= FINISHING_US
        for incident in job.incidents
    )


def why_not_healthy(job: JobFacts) -> str | None:
    """Return why a job is not provably healthy, or None if a checkpoint completed, and the last checkpoint did not
    fail.

    Checkpoints do not count if a cancel, a shutdown or the end of the job aborted them, or if they are in flight at
    the end of the input. A job without records about checkpoints may have checkpointing disabled, so it is left out.
    """
    if not job.checkpoints:
        return _unproven_by_counts(job)
    ended = [c for c in in_order(job.checkpoints) if c.status is not Status.IN_FLIGHT]
    if not any(c.status is Status.COMPLETED for c in ended):
        numbers = Counter(c.status.replace("_", " ") for c in job.checkpoints)
        counted = ", ".join(f"{number} {status}" for status, number in numbers.items())
        stopped = any(i.kind == "cancelled" for i in job.incidents)
        why = "; the job was stopped on purpose" if stopped else ""
        return f"no checkpoint completed in the input: {counted}{why}"
    last = [c for c in ended if c.status is not Status.ABORTED][-1]
    if not last.status.unsuccessful or _ended_with_job(job, last):
        return None
    was = "was " if last.status is Status.DECLINED else ""
    return f"the last checkpoint that ended, {last.id}, {was}{last.status}"


def _slow_start(job: h.Job) -> str | None:
    """Return why a job is not provably healthy if the input ends while its first checkpoints are slow, or None."""
    slow = slow_since_start(job)
    if not slow:
        return None
    longest = fmt.duration(max(map(checkpoint_duration_ms, slow)))
    return (
        f"{len(slow)} checkpoints after the start took up to {longest}, and the input ends before they get"
        " faster: the job may be processing a backlog, or a task is slow"
    )


def _stuck_at_end(job: h.Job) -> str | None:
    """Return why a job is not provably healthy if its end aborted an overdue checkpoint, or None."""
    took = [ms for c in job.completed if (ms := h.elapsed_ms(c)) is not None]
    last = in_order(job.checkpoints)[-1] if job.checkpoints else None
    if not took or last is None or last.status is not Status.ABORTED or _ended_with_job(job, last):
        return None
    age_ms, longest_ms = h.elapsed_ms(last) or 0.0, max(took)
    # Half the time of CP106 is enough to withhold a verdict.
    if age_ms < max(LEAST_MS / 2, TIMES * longest_ms):
        return None
    return (
        f"checkpoint {last.id} was in progress for {fmt.duration(age_ms)} until it was aborted, and the completed"
        f" checkpoints took up to {fmt.duration(longest_ms)}"
    )


def _unproven_by_counts(job: JobFacts) -> str | None:
    """Return why counts and late messages do not prove a job healthy that has no checkpoint in the input, or None."""
    counts = [i.text for i in job.incidents if i.kind == "checkpoint-counts"]
    failed = max((int(count.get("failed") or 0) for count in counts), default=0)
    if failed and not any(int(count.get("completed") or 0) for count in counts):
        return f"no checkpoint completed: {fmt.plural(failed, 'checkpoint')} failed"
    if job.late or job.declines:
        return "no checkpoint completed in the input, and some were late or declined"
    return None


def _job_within(job: JobFacts, span: Span) -> JobFacts:
    """Return a job's facts reduced to a span. A checkpoint belongs to the span in which it was triggered."""
    checkpoints = [c for c in job.checkpoints if span.has(c.triggered_us or c.ended_us)]
    kept = {(checkpoint.run, checkpoint.id) for checkpoint in checkpoints}
    return replace(
        job,
        checkpoints=tuple(checkpoints),
        late=tuple(item for item in job.late if (item.run, item.checkpoint) in kept),
        declines=tuple(item for item in job.declines if (item.run, item.checkpoint) in kept),
        incidents=tuple(incident for incident in job.incidents if span.has(incident.time_us)),
        last_us=span.last(job.last_us),
        first_us=span.first(job.first_us),
    )
