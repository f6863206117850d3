"""The topic `checkpoints`: who makes the checkpoints of a Flink job fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.diagnosis import SelectableJob, SideInputs
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.collectors import CollectorLogs, read_collectors, with_collectors
from flowdiag.analyses.flink.episodes import in_order
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, Status
from flowdiag.analyses.flink.missing import missing_inputs
from flowdiag.analyses.flink.settled import Settled, rows_of
from flowdiag.analyses.flink.silences import silence_notes
from flowdiag.analyses.flink.topic import FLINK, FlinkTopic, Row, named_jobs
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome, Severity
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.model.span import Span
from flowdiag.analyses.report.wire import Data, iso
from flowdiag.parsers.notes import InputNote, Kind

if TYPE_CHECKING:
    from flowdiag.analyses.engine.reading import ProgressCallback
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.analyses.model.columns import Rows
    from flowdiag.analyses.model.rule import Rule
    from flowdiag.parsers.sources.open import Source

# Metrics are judged while checkpoints fail; this much before the trigger belongs to it.
BEFORE_TRIGGER_US: Final = 5_000_000
# Rules that judge checkpoints by how they ended, and nothing else.
_OF_ENDED: Final = frozenset(
    {"CP101", "CP102", "CP103", "CP104", "CP105", "CP202", "CP203", "CP304", "CP307"}
)
# Spans that lie closer together are one.
APART_US: Final = 60_000_000
# Longer lists of spans become one, since each span is a condition in a query plan.
MAX_SPANS: Final = 64
# Windows in which metrics are looked at, and how many of all subtasks are brought to the driver.
MINUTE_US: Final = 60_000_000
MOST_WINDOWS: Final = 120
MOST_LOADS: Final = 100_000


class Checkpoints(FlinkTopic):
    """Facts: `ClusterFacts`, with the loads of subtasks while checkpoints failed."""

    name = "checkpoints"
    required_data = "a checkpoint event"
    engine = FLINK
    rules = RULES

    def metrics(self) -> Collection[str]:
        """What tells how busy a subtask is."""
        from flowdiag.analyses.flink import lifecycle

        return lifecycle.METRICS

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Logs of the garbage collector."""
        read = read_collectors(sources)
        return SideInputs(
            content=read, kinds=dict.fromkeys((log.source for log in read.logs), "gc-log")
        )

    def more(self, common: ClusterFacts, settled: Settled, progress: ProgressCallback) -> list[Row]:
        """What each subtask's metrics say while checkpoints failed."""
        from flowdiag.analyses.flink import lifecycle

        if not any(row["what"] == "stream" and row["scopes"] for row in settled.surveyed):
            return []
        progress("measuring metrics")
        spans = failing_spans(common)
        metrics, width_us = settled.metrics(), window_us(common, spans)
        frame = lifecycle.loads(metrics, spans, width_us)
        collected = lifecycle.garbage(metrics, spans, width_us)
        return rows_of(frame.unionByName(collected, allowMissingColumns=True))

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: CollectorLogs | None,
        options: Options,
    ) -> ClusterFacts:
        """The common facts, with loads, and with what collectors print."""
        facts = assemble(rows, more, writers) if more else common
        return with_collectors(facts, side_inputs, writers)

    def jobs(self, facts: ClusterFacts) -> Iterable[SelectableJob]:
        """The jobs."""
        return named_jobs(facts.jobs)

    def first_us(self, facts: ClusterFacts) -> int | None:
        """The first record of any job."""
        return min((job.first_us for job in facts.jobs if job.first_us is not None), default=None)

    def last_us(self, facts: ClusterFacts) -> int | None:
        """The last record of any job."""
        return max((job.last_us for job in facts.jobs if job.last_us is not None), default=None)

    def select_jobs(
        self, facts: ClusterFacts, is_selected: Callable[[JobKey], bool]
    ) -> ClusterFacts:
        """Some jobs; attempts and settings of the cluster stay."""
        return replace(facts, jobs=tuple(job for job in facts.jobs if is_selected(job.key)))

    def select_span(self, facts: ClusterFacts, span: Span) -> ClusterFacts:
        """The checkpoints that began in the span, and what happened to them."""
        return replace(facts, jobs=tuple(_within(job, span) for job in facts.jobs))

    def subjects(self, facts: ClusterFacts) -> Sequence[h.Job]:
        """The jobs."""
        return h.jobs_of(facts)

    def review_outcomes(
        self, outcomes: Sequence[RuleOutcome], facts: ClusterFacts
    ) -> Sequence[RuleOutcome]:
        """The outcomes, the first core rule in doubt about jobs of which nothing proves that they are well.

        Of a job that is known to be sick nothing needs to be proved.
        """
        sick = {
            finding.job
            for outcome in outcomes
            for finding in outcome.findings
            if finding.severity is not Severity.INFO
        }
        doubts = tuple(
            Inconclusive(
                reason=why, remedy="add the JobManager's log of the time after it", job=job.key
            )
            for job in facts.jobs
            if job.key not in sick and (why := unproven(job)) is not None
        )
        core = next(outcome for outcome in outcomes if outcome.core)
        return [
            replace(outcome, inconclusive=(*outcome.inconclusive, *doubts))
            if outcome is core
            else outcome
            for outcome in outcomes
        ]

    def why_not_assessed(self, rule: Rule, facts: ClusterFacts) -> str | None:
        """Rules about how checkpoints end had nothing to judge where none ended."""
        if rule.code not in _OF_ENDED:
            return None
        if any(c.status is not Status.IN_FLIGHT for job in facts.jobs for c in job.checkpoints):
            return None
        return "no checkpoint ended in the input"

    def data(
        self,
        facts: ClusterFacts | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """`jobs`."""
        from flowdiag.analyses.checkpoints.data import checkpoint_data

        if facts is None:
            return Data(jobs=[])
        excerpts = options.privacy.excerpts
        return Data(
            jobs=checkpoint_data(facts, outcomes, max_rows=options.max_rows, excerpts=excerpts)
        )

    def tables(self, facts: ClusterFacts, options: Options) -> Rows:
        """The lists of `data`, whole."""
        from flowdiag.analyses.checkpoints.data import checkpoint_tables

        return checkpoint_tables(facts, excerpts=options.privacy.excerpts)

    def is_assessed(self, facts: ClusterFacts) -> bool:
        """Whether anything is known of any checkpoint, or an exception says why there is none."""
        return any(
            job.checkpoints
            or job.late
            or job.declines
            or any(incident.kind == "exception" for incident in job.incidents)
            for job in facts.jobs
        )

    def notes(
        self, measured: ClusterFacts, facts: ClusterFacts, options: Options
    ) -> Iterable[InputNote]:
        """A warning where the inputs hold checkpoints, but none in the time that was asked for; holes; logs that lack."""
        yield from silence_notes(facts)
        yield from missing_inputs(measured)
        wanted = {job.key for job in facts.jobs}
        times = [
            checkpoint.triggered_us or checkpoint.ended_us
            for job in measured.jobs
            if job.key in wanted
            for checkpoint in job.checkpoints
        ]
        known = [time_us for time_us in times if time_us is not None]
        if known and not any(job.checkpoints for job in facts.jobs):
            yield InputNote(
                Kind.OUTSIDE,
                "no checkpoint began in the time asked for: those of the inputs began from"
                f" {iso(min(known))} to {iso(max(known))}",
                first_us=min(known),
                last_us=max(known),
            )


CHECKPOINTS: Final = Checkpoints()


def unproven(job: JobFacts) -> str | None:
    """Why a job is not healthy, whatever the rules say of it; None: a checkpoint completed, none failed last.

    What is aborted by a cancel or a shutdown, or on its way when the input ends, speaks neither for a job
    nor against it. A job without any word about checkpoints is left out: it may have none.
    """
    ended = [c for c in in_order(job.checkpoints) if c.status is not Status.IN_FLIGHT]
    counted = [i.text for i in job.incidents if i.kind == "checkpoint-counts"]
    if not job.checkpoints:
        failed = max((int(said.get("failed") or 0) for said in counted), default=0)
        done = max((int(said.get("completed") or 0) for said in counted), default=0)
        if failed and not done:
            return f"no checkpoint completed: {fmt.plural(failed, 'checkpoint')} failed"
        if job.late or job.declines:
            return "no checkpoint completed in the input, which holds complaints about some"
        return None
    if not any(c.status is Status.COMPLETED for c in ended):
        numbers = Counter(c.status.replace("_", " ") for c in job.checkpoints)
        said = ", ".join(f"{number} {status}" for status, number in numbers.items())
        stopped = any(i.kind == "cancelled" for i in job.incidents)
        why = "; the job was stopped on purpose" if stopped else ""
        return f"no checkpoint completed in the input: {said}{why}"
    decided = [c for c in ended if c.status is not Status.ABORTED]
    if decided[-1].status.unsuccessful:
        last = decided[-1]
        was = "was " if last.status is Status.DECLINED else ""
        return f"the last checkpoint that ended, {last.id}, {was}{last.status}"
    return None


def _within(job: JobFacts, span: Span) -> JobFacts:
    """A job's facts of a span; a checkpoint belongs to the time of its trigger."""
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


def failing_spans(facts: ClusterFacts) -> list[tuple[int, int]]:
    """When unsuccessful checkpoints were on their way, in microseconds; empty if none was.

    Overlapping spans are joined, so that the list stays as short as the number of episodes.
    """
    spans = sorted(
        (checkpoint.triggered_us - BEFORE_TRIGGER_US, checkpoint.ended_us)
        for job in facts.jobs
        for checkpoint in job.checkpoints
        if checkpoint.status.unsuccessful and checkpoint.triggered_us and checkpoint.ended_us
    )
    joined: list[tuple[int, int]] = []
    for low, high in spans:
        if joined and low - joined[-1][1] <= APART_US:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    if len(joined) > MAX_SPANS:  # sick through and through: one span says the same
        joined = [(joined[0][0], max(high for _, high in joined))]
    return joined


def window_us(facts: ClusterFacts, spans: Sequence[tuple[int, int]]) -> int | None:
    """Length of the windows in which metrics tell who was busy when; None where nothing failed.

    A minute, as metrics come, or so many of them that the windows of all subtasks stay few.
    """
    if not spans:
        return None
    subtasks = sum(len({(a.task, a.subtask_index) for a in job.attempts}) for job in facts.jobs)
    most = min(MOST_WINDOWS, max(1, MOST_LOADS // max(subtasks, 1)))
    lasted = sum(high - low for low, high in spans)
    return MINUTE_US * max(1, -(-lasted // (MINUTE_US * most)))
