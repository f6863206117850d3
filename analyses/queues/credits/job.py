"""Input and output of the credit model: a job, the settings of its buffers, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Debloating:
    """`taskmanager.network.memory.buffer-debloat.*`; the defaults are those of 1.15 to 2.3."""

    target_ms: float = 1000.0
    period_ms: float = 200.0
    samples: int = 20
    threshold: float = 0.25
    least_bytes: int = 256
    start_bytes: int | None = None  # from 2.0 on 1024, before that a whole segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The simulated options.

    Args:
        per_channel: exclusive buffers of a remote channel.
        floating: buffers that the channels of a gate share.
        most_per_channel: maximum buffers of a subpartition (1.11+); None if only the pool limits them.
        overdraft: buffers beyond the pool's size that one record may take (1.16+).
        segment_bytes: size of a buffer.
        flush_ms: `execution.buffer-timeout`; if negative, only full buffers are sent.
        debloating: None if it is off.
        unaligned: whether barriers overtake data.
        aligned_timeout_ms: time after which an aligned barrier overtakes data; None if it never does.
        interval_ms: time between triggers of checkpoints, which never overlap; 0 for no checkpoints.
        segments: number of buffers of each TaskManager; None if there are always enough.
    """

    per_channel: int = 2
    floating: int = 8
    most_per_channel: int | None = 10
    overdraft: int = 5
    segment_bytes: int = 32768
    flush_ms: float = 100.0
    debloating: Debloating | None = None
    unaligned: bool = False
    aligned_timeout_ms: float | None = None
    interval_ms: float = 0.0
    segments: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A vertex of the job graph.

    Args:
        name: a unique name.
        service_ms: time per record, by subtask. For a source, the time from one record to the next.
        record_bytes: size of a record that it sends, on the wire.
        taskmanagers: TaskManager by subtask; if empty, each subtask has its own.
        legacy_source: whether it is a `SourceFunction`, which blocks inside a record and holds the checkpoint lock.
        snapshot_ms: duration of the synchronous part of a snapshot.
    """

    name: str
    service_ms: tuple[float, ...]
    record_bytes: float = 100.0
    taskmanagers: tuple[str, ...] = ()
    legacy_source: bool = False
    snapshot_ms: float = 0.0

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return len(self.service_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A connection between two tasks.

    Args:
        upstream, downstream: names of the two tasks.
        pattern: Flink's name for the ship strategy.
        selectivity: records sent for each record that the upstream task receives (or creates, if it is a source).
        shares: share of the records by consumer; if empty, all are equal.
    """

    upstream: str
    downstream: str
    pattern: str = "HASH"
    selectivity: float = 1.0
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Tasks in any order, and edges between them that form no cycle."""

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskOutcome:
    """One subtask over the measured time.

    Args:
        records_per_s: rate of received records; for a source, of sent records.
        busy, back_pressured, idle: shares of the time.
        queue: mean number of buffers in its input, counted like `inputQueueLength` from 1.9 on (with events and the
            backlog of local channels).
        queued_records: mean number of records that wait for it, on both sides of its channels.
        out_queue: mean number of buffers in its result partitions.
        capacity: number of buffers of its remote channels and their gate.
    """

    task: str
    subtask_index: int
    records_per_s: float
    busy: float
    back_pressured: float
    idle: float
    queue: float
    queued_records: float
    out_queue: float
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """One checkpoint.

    Args:
        triggered_ms: time of the trigger since the start of the simulation.
        duration_ms: time until the last subtask has all its barriers; None if it exceeds the simulated time.
        passed_ms: time from the trigger until a subtask has all its barriers, by subtask.
        waited_ms: time from the first to the last barrier of a subtask, by subtask.
        overtaken_bytes: size of the data that unaligned barriers overtook, which the checkpoint stores.
    """

    triggered_ms: float
    duration_ms: float | None
    passed_ms: Mapping[tuple[str, int], float]
    waited_ms: Mapping[tuple[str, int], float]
    overtaken_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over the whole run, to verify the model.

    Args:
        buffers_made: buffers that were filled, flushed, or cut off by a barrier.
        buffers_consumed: buffers that their consumer emptied.
        buffers_queued: buffers made but not consumed at the end.
        records_sent, records_taken, records_queued: the same for records.
        least_credit: lowest credit of any channel at any time.
        fullest_pool: highest use of a pool minus its size and overdraft; never above 0.
        fullest_gate: highest number of received buffers of a gate minus its own; never above 0.
    """

    buffers_made: int
    buffers_consumed: int
    buffers_queued: int
    records_sent: int
    records_taken: int
    records_queued: int
    least_credit: int
    fullest_pool: int
    fullest_gate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a simulation. Rates, shares and queues exclude the warm-up."""

    subtasks: tuple[SubtaskOutcome, ...]
    barriers: tuple[Barrier, ...]
    queue_over_time: Mapping[str, tuple[tuple[float, float], ...]]
    totals: Totals
    seconds: float
    records_per_parcel: int

    def of(self, task: str) -> list[SubtaskOutcome]:
        """Return the subtasks of a task, by index."""
        return [item for item in self.subtasks if item.task == task]

    def throughput(self, task: str) -> float:
        """Return how many records per second all subtasks of a task receive. For a source, return how many they send."""
        return sum(item.records_per_s for item in self.of(task))

    @property
    def barrier_ms(self) -> float | None:
        """Median duration of the completed checkpoints, or None if none completed."""
        known = sorted(b.duration_ms for b in self.barriers if b.duration_ms is not None)
        if not known:
            return None
        return known[len(known) // 2]

    @property
    def unfinished_ms(self) -> float | None:
        """How long the unfinished checkpoint has been running at the end, if none completed."""
        last = self.barriers[-1] if self.barriers else None
        if last is None or last.duration_ms is not None:
            return None
        return self.seconds * 1000.0 - last.triggered_ms


class ModelError(ValueError):
    """A job or settings that cannot be simulated."""
