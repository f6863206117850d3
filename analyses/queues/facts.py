"""The facts of one run of `flowdiag queues`, as immutable values.

Metrics are grouped in windows of one or several minutes, counted from 1970. For a window, a gauge contains the number,
sum, minimum and maximum of its samples, and a counter contains its increase. Times are microseconds UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, SubtaskLoad
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model.derived import DerivedValues, once
from flowdiag.analyses.model.keys import Process, Ref
from flowdiag.analyses.neighbours.facts import Neighbours
from flowdiag.analyses.queues.capacity import Capacity
from flowdiag.parsers.notes import InputNote


class Gauge(NamedTuple):
    """Number, sum, minimum and maximum of the samples of a gauge."""

    n: int
    total: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        return self.total / self.n

    def share_above(self, limit: float) -> float:
        """Estimate the share of samples at or above a limit, as if every sample were the minimum or the maximum.

        >>> Gauge(10, 7.0, 0.0, 1.0).share_above(0.9), Gauge(5, 5.0, 1.0, 1.0).share_above(0.9)
        (0.7, 1.0)
        """
        if self.high < limit:
            return 0.0
        if self.low >= limit:
            return 1.0
        return (self.mean - self.low) / (self.high - self.low)


def merge_gauges(gauges: Iterable[Gauge | None]) -> Gauge | None:
    """Return the samples of several windows as one gauge, or None without samples."""
    known = [gauge for gauge in gauges if gauge is not None and gauge.n > 0]
    if not known:
        return None
    return Gauge(
        sum(gauge.n for gauge in known),
        sum(gauge.total for gauge in known),
        min(gauge.low for gauge in known),
        max(gauge.high for gauge in known),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One subtask in one window.

    Args:
        window: number of the window.
        gauges: gauges by the names of `measure.GAUGES`.
        increases: increases of counters by the names of `measure.COUNTERS`.
        resets: how often a counter decreased, which happens on a restart.
    """

    window: int
    taskmanager: str | None = None
    host: str | None = None
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    increases: Mapping[str, float] = field(default_factory=dict)
    samples: int = 0
    resets: int = 0
    first_us: int | None = None
    last_us: int | None = None
    ref: Ref | None = None


def time_span(samples: Iterable[Sample]) -> tuple[int | None, int | None]:
    """Return the first and the last time of the samples, or None if unknown."""
    times = [(sample.first_us, sample.last_us) for sample in samples]
    firsts = [first for first, _ in times if first is not None]
    lasts = [last for _, last in times if last is not None]
    return min(firsts, default=None), max(lasts, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerSample:
    """The gauges and the garbage collection time of a TaskManager in one window.

    `impossible` names the values that were dropped because no process can have them.
    """

    window: int
    taskmanager: str
    host: str | None = None
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    gc_ms: float | None = None
    span_ms: float | None = None
    samples: int = 0
    first_us: int | None = None
    last_us: int | None = None
    ref: Ref | None = None
    impossible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQueue:
    """The remote channels of an input gate, from `taskmanager.network.detailed-metrics`."""

    key: SubtaskKey
    gate: int
    samples: int
    total: float | None = None
    shortest: float | None = None
    longest: float | None = None
    mean: float | None = None
    ref: Ref | None = None


class MarkPoint(NamedTuple):
    """The samples of an event-time gauge in one time bucket. If `n` is 0, the gauge had no value yet."""

    time_us: int
    until_us: int
    n: int
    low: float | None
    high: float | None
    first: float | None
    last: float | None
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An event-time gauge of one subtask, in time order.

    Args:
        operator: an operator of the chain; None for the watermark of the task's input.
        name: Flink's name for the metric; for a split, `split.NAME.watermark.…`.
    """

    key: SubtaskKey
    operator: str | None
    name: str
    points: tuple[MarkPoint, ...]

    @property
    def latest(self) -> float | None:
        """The last value, or None if the gauge had none."""
        return self.points[-1].last if self.points and self.points[-1].n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMetric:
    """A metric of the state store (RocksDB or ForSt) of one subtask, in time order.

    Args:
        name: RocksDB's name for the metric.
        family: the column family that contributes most; None for statistics of the whole store.
    """

    key: SubtaskKey
    operator: str | None
    name: str
    family: str | None
    points: tuple[MarkPoint, ...]


class FlowPoint(NamedTuple):
    """The increase of a counter in one time bucket, over all subtasks."""

    time_us: int
    until_us: int
    increase: float
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A record counter of one operator, or of a whole task, in time order."""

    task: str
    operator: str | None
    name: str
    points: tuple[FlowPoint, ...]

    @property
    def total(self) -> float:
        """The increase over all samples."""
        return self.increase_since(0)

    @property
    def constant_since_us(self) -> int | None:
        """Since when the counter has been constant, or None without samples."""
        for point in reversed(self.points):
            if point.increase > 0:
                return point.until_us
        return self.points[0].time_us if self.points else None

    def increase_since(self, time_us: int) -> float:
        return sum(point.increase for point in self.points if point.time_us > time_us)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobQueues:
    """All facts about one job.

    Args:
        job: names, TaskManagers, checkpoints and settings; its `loads` are totals from REST and archives, and those of
            `flowdiag checkpoints` if it measured them, too.
        topology: the order of the tasks.
        samples: samples of each subtask, in the order of the windows.
        taskmanagers: reports of each TaskManager that runs the job, in the order of the windows.
        capacity: input capacity of each subtask, if its channels are known.
        gates: input gates, from detailed metrics.
        marks: event-time gauges.
        flows: record counters of each operator.
        stores: metrics of RocksDB and ForSt.
        window_us: length of a window.
        starts_us: when the job was started, restarted, restored or rescaled.
        version_from: `said` if the input prints the version, `metrics` if their names show it, None if unknown.
        gaps: missing and unusable metrics, for the report.
        neighbours: the systems around the job, if it is the only job.
        cores: CPU cores of each TaskManager's host, from REST.
    """

    job: JobFacts
    topology: Topology
    samples: Mapping[SubtaskKey, tuple[Sample, ...]]
    taskmanagers: Mapping[str, tuple[TaskManagerSample, ...]] = field(default_factory=dict)
    capacity: Mapping[SubtaskKey, Capacity] = field(default_factory=dict)
    gates: tuple[GateQueue, ...] = ()
    marks: tuple[Mark, ...] = ()
    flows: tuple[Flow, ...] = ()
    stores: tuple[StoreMetric, ...] = ()
    window_us: int = 60_000_000
    starts_us: tuple[int, ...] = ()
    version: tuple[int, int] | None = None
    version_from: str | None = None
    gaps: tuple[InputNote, ...] = ()
    neighbours: Neighbours = field(default_factory=Neighbours)
    cores: Mapping[str | None, float] = field(default_factory=dict)
    # Cache of `flowdiag.analyses.model.derived.once`.
    derived: DerivedValues = field(default_factory=DerivedValues, init=False, repr=False)

    @property
    def totals(self) -> tuple[SubtaskLoad, ...]:
        """Counts since the start of the job, from REST responses and archives."""
        return tuple(row for row in self.job.loads if row.window is None)

    @property
    def windows(self) -> list[int]:
        """All windows with a sample, in ascending order."""
        return list(_windows(self))


@once
def _windows(job: JobQueues) -> tuple[int, ...]:
    return tuple(sorted({sample.window for each in job.samples.values() for sample in each}))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The input of the rules of `flowdiag queues`."""

    common: ClusterFacts
    jobs: tuple[JobQueues, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        return self.common.processes


def options_of(job: JobFacts) -> dict[str, str]:
    """Return the known options. REST takes precedence over logs, and logs over observed values."""
    order = {"rest": 0, "log": 1, "observed": 2}
    found: dict[str, str] = {}
    for setting in sorted(job.settings, key=lambda s: order.get(s.source, 3)):
        found.setdefault(setting.key, setting.value)
    return found
