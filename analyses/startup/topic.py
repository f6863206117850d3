"""The topic `startup`: how a Flink job reached RUNNING, and what delayed it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Data
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.flink.settled import Settled
from flowdiag.analyses.flink.topic import (
    FLINK,
    UNDATED,
    FlinkTopic,
    Row,
    has_dated_records,
    named_jobs,
)
from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.startup.facts import JobStarting, JobStarts, StartupFacts
from flowdiag.analyses.startup.failures import keeps_from_running, leadership_signs
from flowdiag.analyses.startup.rules import RULES
from flowdiag.analyses.topic import SelectableJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.engine.sql import Part
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.analyses.model.columns import Rows
    from flowdiag.parsers.source import Source


def _has_starts(facts: StartupFacts) -> bool:
    return any(job.starts for job in facts.jobs)


def _has_rescales(facts: StartupFacts) -> bool:
    return any(job.starts or job.rescales or job.usage for job in facts.jobs)


def _is_dated(facts: StartupFacts) -> bool:
    return facts.last_us is not None or has_dated_records(facts.common)


_REQUIRED: Final = {
    "starts": (_has_starts, "the input does not show a job starting"),
    "rescales": (_has_rescales, "the input does not show a job starting or rescaling"),
    "dated-records": (_is_dated, UNDATED),
}


class Startup(FlinkTopic):
    """Measures `StartupFacts`."""

    name = "startup"
    required_data = "the start of a cluster or of a job"
    engine = FLINK
    rules = RULES
    required = _REQUIRED

    def metrics(self) -> Collection[str]:
        """Return the metrics about garbage collection."""
        from flowdiag.analyses.startup.measure import METRICS

        return METRICS

    def queries(self, settled: Settled, unique: DataFrame) -> Sequence[Part]:
        """Return milestones, task times, troubles, restores and garbage collections."""
        from flowdiag.analyses.startup.measure import queries

        return queries(settled.events, unique, settled.metrics())

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: Any,
        options: Options,
    ) -> StartupFacts:
        """Build the starts of every job."""
        return assemble_startup(rows, common)

    def jobs(self, facts: StartupFacts) -> Iterable[SelectableJob]:
        return named_jobs(job.job for job in facts.jobs)

    def first_us(self, facts: StartupFacts) -> int | None:
        """Return the time of the first record of any job."""
        begins = (job.job.first_us for job in facts.jobs if job.job.first_us is not None)
        return min(begins, default=None)

    def last_us(self, facts: StartupFacts) -> int | None:
        """Return the time of the last record of the cluster."""
        return facts.last_us

    def select_jobs(
        self, facts: StartupFacts, is_selected: Callable[[JobKey], bool]
    ) -> StartupFacts:
        """Return the facts of some jobs, with all workers and cluster steps."""
        return replace(facts, jobs=tuple(job for job in facts.jobs if is_selected(job.job.key)))

    def select_span(self, facts: StartupFacts, span: Span) -> StartupFacts:
        """Keep the starts that overlap the span, and all workers and cluster steps.

        Problems and incidents are selected by the time of their log line.
        """
        common = facts.common
        return replace(
            facts,
            jobs=tuple(_job_within(job, span) for job in facts.jobs),
            troubles=tuple(t for t in facts.troubles if span.overlaps(t.first_us, t.last_us)),
            common=replace(
                common, incidents=tuple(i for i in common.incidents if span.has(i.time_us))
            ),
            last_us=span.last(facts.last_us),
        )

    def subjects(self, facts: StartupFacts) -> Sequence[JobStarting]:
        return tuple(JobStarting.of(job, facts) for job in facts.jobs)

    def review_outcomes(
        self, outcomes: Sequence[RuleOutcome], facts: StartupFacts
    ) -> Sequence[RuleOutcome]:
        """Make the core rule inconclusive if no input shows that a job reached RUNNING."""
        known = {item.job for outcome in outcomes for item in outcome.inconclusive}
        doubts = [
            Inconclusive(
                reason="the input does not show that all tasks of the job reached RUNNING",
                checks=("jobmanager-log-later",),
                job=job.job.key,
            )
            for job in facts.jobs
            if job.starts and not _has_run(job) and job.job.key not in known
        ]
        if not any(job.starts for job in facts.jobs) and not _runs_by_operator(facts):
            doubts.append(
                Inconclusive(
                    reason="no job was started in the input",
                    checks=("jobmanager-log",),
                )
            )
        return [
            replace(outcome, inconclusive=(*outcome.inconclusive, *doubts))
            if outcome.core
            else outcome
            for outcome in outcomes
        ]

    def data(
        self,
        facts: StartupFacts | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """Return `attempts`, `cluster`, `workers` and `scheduling`."""
        from flowdiag.analyses.startup import data

        if facts is None:
            return Data(attempts=[], cluster=[], workers=[], scheduling=[])
        most, excerpts = options.max_rows, options.privacy.excerpts
        return Data(
            attempts=data.start_attempts(facts, most, excerpts=excerpts),
            cluster=data.cluster_steps(facts),
            workers=data.start_workers(facts, most, excerpts=excerpts),
            scheduling=data.job_scheduling(facts, most),
        )

    def tables(self, facts: StartupFacts, options: Options) -> Rows:
        """Return the complete lists of `data`."""
        from flowdiag.analyses.startup.data import start_tables

        return start_tables(facts, excerpts=options.privacy.excerpts)

    def is_assessed(self, facts: StartupFacts) -> bool:
        """Return whether the input shows a start, a step of the cluster, a problem, or a reason not to start."""
        return (
            any(job.starts for job in facts.jobs)
            or bool(facts.cluster_steps or facts.troubles)
            or any(keeps_from_running(i) for job in facts.jobs for i in job.job.incidents)
            or bool(leadership_signs(facts))
            or any(i.kind == "failure" for i in facts.common.incidents)
            or any(i.kind == "failure" for job in facts.jobs for i in job.job.incidents)
        )


STARTUP: Final = Startup()


def _has_run(job: JobStarts) -> bool:
    """Return whether a start reached RUNNING or the job ended on purpose."""
    return (
        job.is_healthy
        or job.cancelled
        or job.ended is not None
        or any(start.running_us is not None for start in job.starts)
    )


def _runs_by_operator(facts: StartupFacts) -> bool:
    """Return whether the Kubernetes Operator reports a running job."""
    return any(
        trouble.kind.startswith("operator-")
        and (
            trouble.values.get("state") == "STABLE"
            or trouble.values.get("said", "").rstrip().endswith("to RUNNING")
        )
        for trouble in facts.troubles
    )


def _job_within(job: JobStarts, span: Span) -> JobStarts:
    """Return the part of a job's starts within a span."""
    ended = span.has(job.ended_us)
    common = job.job
    return replace(
        job,
        job=replace(
            common,
            incidents=tuple(i for i in common.incidents if span.has(i.time_us)),
            checkpoints=tuple(
                c for c in common.checkpoints if span.has(c.triggered_us or c.ended_us)
            ),
            last_us=span.last(common.last_us),
        ),
        starts=tuple(s for s in job.starts if span.overlaps(s.started_us, s.ended_us)),
        ended=job.ended if ended else None,
        ended_cause=job.ended_cause if ended else None,
        cancelled=any(
            i.kind == "cancelled" and (i.time_us is None or i.time_us <= span.high_us)
            for i in common.incidents
        ),
    )
