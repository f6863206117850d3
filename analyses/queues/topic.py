"""The way of `flowdiag queues` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses import options as shared
from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.reading import ORDINARY, Means, Say
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.flink.settled import rows_of, settled_events
from flowdiag.analyses.queues.assemble import assemble_queues
from flowdiag.analyses.queues.data import queue_taskmanagers, queue_vertices
from flowdiag.analyses.queues.facts import JobQueues, QueueFacts, Sample
from flowdiag.analyses.queues.rules import QUEUE_RULES
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.wire import Data, Report
from flowdiag.analyses.rule import apply
from flowdiag.analyses.span import Moment, Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources.discover import Discovery, Source

MINUTE_US: Final = 60_000_000
# Windows times subtasks that are brought to the driver, and how many windows there may be at most.
MOST_SAMPLES: Final = 200_000
MOST_WINDOWS: Final = 120
FEWEST_WINDOWS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(shared.Wishes):
    """What the user asked for.

    Args:
        what_if: whether to play the usual remedies in the credit model.
    """

    what_if: bool = False


def diagnose(
    discovery: Discovery,
    session: Callable[[], SparkSession],
    wishes: Wishes,
    *,
    means: Means = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """Where the back pressure starts, and what proves it.

    Args:
        discovery: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session.
        wishes: of the user.
        means: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    measured, splits = measure(discovery.sources, session, means=means, tz=wishes.tz, say=say)
    say("judging")
    facts = select(measured, wishes.selection)
    outcomes = apply(QUEUE_RULES, facts, facts.jobs, wishes.thresholds)
    remedies = None
    if wishes.what_if:
        from flowdiag.analyses.queues.remedies import queue_remedies

        say("trying remedies")
        remedies = queue_remedies(facts)
    return report_of(
        "queues",
        Data(
            vertices=queue_vertices(facts, wishes.max_rows),
            taskmanagers=queue_taskmanagers(facts, wishes.max_rows),
            what_if=remedies,
        ),
        wishes,
        sources=discovery.sources,
        splits=splits,
        processes=facts.processes,
        outcomes=outcomes,
        names={job.job.key: job.job.name for job in facts.jobs},
        assessed=any(job.samples or job.totals for job in facts.jobs),
        notes=(*discovery.errors, *discovery.warnings, *gaps(facts)),
        say=say,
    )


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    means: Means = ORDINARY,
    tz: str | None = None,
    say: Say = lambda stage: None,
) -> tuple[QueueFacts, tuple[Mapping[str, object], ...]]:
    """Parse, settle the clocks, measure: everything that happens before judging."""
    from flowdiag.analyses.flink import lifecycle
    from flowdiag.analyses.queues.measure import METRICS, queue_frame

    settled = settled_events(sources, session, means=means, tz=tz, say=say, metrics=METRICS)
    say("measuring the job")
    rows = rows_of(lifecycle.facts_frame(kept(lifecycle.once(settled.events))))
    common = assemble(rows, [], settled.writers)
    width_us = window_us(common)
    say("measuring queues")
    queues = rows_of(queue_frame(settled.events, settled.metrics(), width_us))
    return assemble_queues(queues, common, window_us=width_us), settled.splits


def window_us(common: ClusterFacts) -> int:
    """Length of the windows in which metrics are looked at: minutes, so many that they stay few."""
    firsts = [p.first_us for p in common.processes if p.first_us is not None]
    lasts = [p.last_us for p in common.processes if p.last_us is not None]
    times = [us for job in common.jobs for us in (job.first_us, job.last_us) if us is not None]
    span = max((*lasts, *times), default=0) - min((*firsts, *times), default=0)
    subtasks = sum(
        len({(a.task, a.subtask_index) for a in job.attempts})
        or len({(load.task, load.subtask_index) for load in job.loads})
        for job in common.jobs
    )
    most = min(MOST_WINDOWS, max(FEWEST_WINDOWS, MOST_SAMPLES // max(subtasks, 1)))
    return MINUTE_US * max(1, -(-span // (MINUTE_US * most)))


def gaps(facts: QueueFacts) -> list[str]:
    """What the metrics leave out, for the reader of the report."""
    named = len(facts.jobs) > 1
    return [
        f"{job.job.name or job.job.key.job_id}: {gap}" if named else gap
        for job in facts.jobs
        for gap in job.gaps
    ]


def select(facts: QueueFacts, selection: Selection) -> QueueFacts:
    """Keep the jobs and the time that are judged.

    Raises:
        FlowdiagError: no job matches.
    """
    selection.require((job.job.key.job_id or None, job.job.name) for job in facts.jobs)
    jobs = tuple(
        job for job in facts.jobs if selection.wants(job.job.key.job_id or None, job.job.name)
    )
    if selection.since is None and selection.until is None:
        return replace(facts, jobs=jobs)
    end_us = max(
        (
            sample.last_us
            for job in facts.jobs
            for each in job.samples.values()
            for sample in each
            if sample.last_us is not None
        ),
        default=0,
    )
    zones = [p.zone_offset_ms for p in facts.processes if p.zone_offset_ms is not None]

    def instant(moment: Moment | None, otherwise: int) -> int:
        if moment is None:
            return otherwise
        return moment.at(end_us=end_us, zone_offset_ms=zones[0] if zones else 0)

    low, high = instant(selection.since, -(2**62)), instant(selection.until, 2**62)
    return replace(facts, jobs=tuple(_between(job, low, high) for job in jobs))


def _between(job: JobQueues, low: int, high: int) -> JobQueues:
    """A job's windows that lie in a span of time, at least in part."""

    def inside(sample: Sample) -> bool:
        first = sample.first_us if sample.first_us is not None else low
        last = sample.last_us if sample.last_us is not None else first
        return first <= high and last >= low

    samples = {
        key: found
        for key, each in job.samples.items()
        if (found := tuple(sample for sample in each if inside(sample)))
    }
    windows = {sample.window for each in samples.values() for sample in each}
    return replace(
        job,
        samples=samples,
        machines={
            name: tuple(machine for machine in each if machine.window in windows)
            for name, each in job.machines.items()
        },
    )
