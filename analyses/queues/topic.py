"""The topic `queues`: where back pressure starts, and whose queues are full."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from flowdiag.analyses.model.finding import RuleOutcome
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.neighbours.facts import Neighbours, read_neighbours
from flowdiag.analyses.queues.assemble import assemble_queues
from flowdiag.analyses.queues.assemble.owners import successive_runs
from flowdiag.analyses.queues.facts import (
    Flow,
    JobQueues,
    Mark,
    QueueFacts,
    Sample,
    StoreMetric,
)
from flowdiag.analyses.queues.gaps import can_show_back_pressure
from flowdiag.analyses.queues.neighbours.lags import lags_of_job
from flowdiag.analyses.queues.rules import RULES
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.analyses.topic import SelectableJob, SideInputs
from flowdiag.parsers.notes import InputNote

if TYPE_CHECKING:
    from flowdiag.analyses.engine.reading import ProgressCallback
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.analyses.model.columns import Rows
    from flowdiag.parsers.source import Source

Series = TypeVar("Series", Mark, Flow, StoreMetric)

MINUTE_US: Final = 60_000_000
SECOND_US: Final = 1_000_000
# Maximum number of samples (windows times subtasks) that the driver receives, and of windows.
MOST_SAMPLES: Final = 200_000
MOST_WINDOWS: Final = 120
FEWEST_WINDOWS: Final = 24
FEWEST_BUCKETS: Final = 12


def _has_metrics(facts: QueueFacts) -> bool:
    return any(job.samples or job.job.loads for job in facts.jobs)


def _has_event_times(facts: QueueFacts) -> bool:
    return any(job.marks for job in facts.jobs)


def _has_stacks(facts: QueueFacts) -> bool:
    return bool(facts.common.stacks) or any(job.job.stacks for job in facts.jobs)


def _has_taskmanagers(facts: QueueFacts) -> bool:
    return any(job.taskmanagers or job.job.garbage for job in facts.jobs)


def _has_lags(facts: QueueFacts) -> bool:
    return any(lags_of_job(job) for job in facts.jobs)


def _has_stores(facts: QueueFacts) -> bool:
    return any(job.stores or job.neighbours.stores for job in facts.jobs)


def _has_async_state(facts: QueueFacts) -> bool:
    return any(
        "in_flight" in sample.gauges
        for job in facts.jobs
        for samples in job.samples.values()
        for sample in samples
    )


def _has_records(facts: QueueFacts) -> bool:
    return has_dated_records(facts.common) or any(not job.neighbours.empty for job in facts.jobs)


_REQUIRED: Final = {
    "task-metrics": (_has_metrics, "the input has no task metrics"),
    "event-time": (_has_event_times, "the input has no watermarks"),
    "stacks": (_has_stacks, "the input has neither thread dumps nor profiles"),
    "jvm": (
        _has_taskmanagers,
        "the input has no TaskManager metrics and no garbage collection log",
    ),
    "lags": (_has_lags, "the input does not show the lag of a source"),
    "stores": (
        _has_stores,
        "the input has no RocksDB or ForSt metrics and no RocksDB or ForSt log",
    ),
    "async-state": (_has_async_state, "no task reports asynchronous state"),
    "records": (_has_records, UNDATED),
}


class Queues(FlinkTopic):
    """Measures `QueueFacts`."""

    name = "queues"
    loads = True
    required_data = "metrics of a job's tasks"
    engine = FLINK
    rules = RULES
    required = _REQUIRED

    def metrics(self) -> Collection[str]:
        """Return the metrics of queues, buffers, busy times and records."""
        from flowdiag.analyses.queues.measure import METRICS

        return METRICS

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Read the output of the tools of Kafka and databases."""
        found = read_neighbours(sources)
        return SideInputs(content=found, kinds=found.kinds)

    def more(self, common: ClusterFacts, settled: Settled, progress: ProgressCallback) -> list[Row]:
        """Return the metrics of each window."""
        from flowdiag.analyses.queues.measure import queue_rows, with_job_ids

        progress("measuring queues")
        width_us, bucket_us = window_us(common), bucket_us_of(common)
        runs = successive_runs(common.jobs)
        metrics = settled.metrics()
        if runs:
            metrics = with_job_ids(metrics, runs)
        return queue_rows(settled.events, metrics, width_us, bucket_us)

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: Any,
        options: Options,
    ) -> QueueFacts:
        """Return the queues of every job."""
        return assemble_queues(
            more,
            common,
            window_us=window_us(common),
            neighbours=side_inputs or Neighbours(),
        )

    def jobs(self, facts: QueueFacts) -> Iterable[SelectableJob]:
        return named_jobs(job.job for job in facts.jobs)

    def first_us(self, facts: QueueFacts) -> int | None:
        """Return the time of the first sample of any job."""
        begins = (
            sample.first_us
            for job in facts.jobs
            for each in job.samples.values()
            for sample in each
            if sample.first_us is not None
        )
        return min(begins, default=None)

    def last_us(self, facts: QueueFacts) -> int | None:
        """Return the time of the last sample of any job."""
        ends = (
            sample.last_us
            for job in facts.jobs
            for each in job.samples.values()
            for sample in each
            if sample.last_us is not None
        )
        return max(ends, default=None)

    def select_jobs(self, facts: QueueFacts, is_selected: Callable[[JobKey], bool]) -> QueueFacts:
        return replace(facts, jobs=tuple(job for job in facts.jobs if is_selected(job.job.key)))

    def select_span(self, facts: QueueFacts, span: Span) -> QueueFacts:
        """Return the facts reduced to the windows that overlap the span."""
        return replace(facts, jobs=tuple(_job_within(job, span) for job in facts.jobs))

    def subjects(self, facts: QueueFacts) -> Sequence[JobQueues]:
        return facts.jobs

    def data(
        self,
        facts: QueueFacts | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """Return `vertices`, `taskmanagers` and, on request, `what_if`."""
        from flowdiag.analyses.queues.data import queue_flow, queue_taskmanagers, queue_vertices

        if facts is None:
            return Data(vertices=[], taskmanagers=[], flow=[])
        remedies = None
        if options.queues.what_if:
            from flowdiag.analyses.queues.remedies import queue_remedies

            remedies = queue_remedies(facts)
        return Data(
            vertices=queue_vertices(facts, options.max_rows),
            taskmanagers=queue_taskmanagers(facts, options.max_rows),
            flow=queue_flow(facts),
            what_if=remedies,
        )

    def tables(self, facts: QueueFacts, options: Options) -> Rows:
        """Return the complete lists of `data`."""
        from flowdiag.analyses.queues.data import queue_tables

        return queue_tables(facts)

    def population(self, facts: QueueFacts, job: JobKey | None, kind: str) -> int | None:
        """Count the TaskManagers with metrics, or the subtasks with samples."""
        of = {
            "taskmanager": lambda each: len(each.taskmanagers),
            "subtask": lambda each: len(each.samples),
        }
        return (
            next((of[kind](each) for each in facts.jobs if each.job.key == job), None)
            if kind in of
            else None
        )

    def is_assessed(self, facts: QueueFacts) -> bool:
        """Return whether any job has a sample."""
        return any(
            job.samples or job.totals or job.job.stacks or not job.neighbours.empty
            for job in facts.jobs
        )

    def is_fed(self, facts: QueueFacts) -> bool:
        """Return whether a job has samples over time, or a single sample shows that tasks wait."""
        return any(can_show_back_pressure(job) or not job.neighbours.empty for job in facts.jobs)

    def notes(
        self, measured: QueueFacts, facts: QueueFacts, options: Options
    ) -> Iterable[InputNote]:
        """Yield warnings about missing and unusable metrics."""
        named = len(facts.jobs) > 1
        for job in facts.jobs:
            for gap in job.gaps:
                about = f"{job.job.name or job.job.key.job_id}: " if named else ""
                yield replace(gap, text=f"{about}{gap.text}")


QUEUES: Final = Queues()


def window_us(common: ClusterFacts) -> int:
    """Return the length of the metric windows: full minutes, and long enough to keep their number small."""
    most = min(MOST_WINDOWS, max(FEWEST_WINDOWS, MOST_SAMPLES // max(_subtasks(common), 1)))
    return MINUTE_US * max(1, -(-_span_us(common) // (MINUTE_US * most)))


def bucket_us_of(common: ClusterFacts) -> int:
    """Return the length of the buckets for event-time gauges. In short runs, each sample has its own bucket."""
    most = min(MOST_WINDOWS, max(FEWEST_BUCKETS, MOST_SAMPLES // (8 * max(_subtasks(common), 1))))
    return SECOND_US * max(5, -(-_span_us(common) // (SECOND_US * most)))


def _span_us(common: ClusterFacts) -> int:
    firsts = [p.first_us for p in common.processes if p.first_us is not None]
    lasts = [p.last_us for p in common.processes if p.last_us is not None]
    times = [us for job in common.jobs for us in (job.first_us, job.last_us) if us is not None]
    return max((*lasts, *times), default=0) - min((*firsts, *times), default=0)


def _subtasks(common: ClusterFacts) -> int:
    return sum(
        len({(a.task, a.subtask_index) for a in job.attempts})
        or len({(load.task, load.subtask_index) for load in job.loads})
        for job in common.jobs
    )


def _series_within(every: Iterable[Series], span: Span) -> Iterator[Series]:
    """Yield the series with points in a span, without the points outside it."""
    for each in every:
        points = tuple(p for p in each.points if span.overlaps(p.time_us, p.until_us))
        if points:
            yield replace(each, points=points)


def _job_within(job: JobQueues, span: Span) -> JobQueues:
    """Return a job reduced to the windows that overlap a time span."""

    def inside(sample: Sample) -> bool:
        last_us = sample.last_us if sample.last_us is not None else sample.first_us
        return span.overlaps(sample.first_us, last_us)

    samples = {
        key: found
        for key, each in job.samples.items()
        if (found := tuple(sample for sample in each if inside(sample)))
    }
    windows = {sample.window for each in samples.values() for sample in each}
    return replace(
        job,
        samples=samples,
        marks=tuple(_series_within(job.marks, span)),
        stores=tuple(_series_within(job.stores, span)),
        flows=tuple(_series_within(job.flows, span)),
        taskmanagers={
            name: tuple(sample for sample in each if sample.window in windows)
            for name, each in job.taskmanagers.items()
        },
    )
