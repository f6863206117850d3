"""What credit-based flow control does to queues, barriers and throughput: a model of one job's network.

Events at the size of a parcel (some records) are played through the job's subtasks, as Flink 1.5 to 2.3
move them (catalogue/flink.md 7):

- A producer's `LocalBufferPool` lends buffers to its subpartitions (`S * E + F` at most, at most
  `max-buffers-per-channel` each). A task takes its next record only while all its pools have a buffer
  left, and is back-pressured otherwise; one record may overdraw the pool (1.16+).
- A remote channel has `E` exclusive buffers and borrows of its gate's floating ones what the sender's
  backlog asks for; what it can take is announced as credit. Without credit a sender keeps its buffers.
- A local channel has no buffers of its own: its consumer reads those of the producer.
- Buffers are sent when they are full, or when the flusher passes (`execution.buffer-timeout`).
- An aligned barrier waits in the queues like data, and its channel then waits for the others; it needs no
  buffer and no credit. An unaligned one overtakes what waits, and leaves with the first that arrives.
- Debloating shrinks new buffers to what the consumer gets through in the target time
  (`BufferDebloater`, `BufferSizeEMA`, 1.14+).
- Too few segments on a TaskManager are shared out over its pools (`NetworkBufferPool.redistributeBuffers`).

Not in the model: the time that the network takes, processor time shared between subtasks, priorities of
operators inside a task, and bursts of the input. The same input gives the same outcome.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from flowdiag.analyses.flink.buffers import POINTWISE, feeders

SAMPLES: Final = 320  # of the queues, over the time of a run; fewer where there are many channels
_FEWEST_SAMPLES: Final = 40
_LOOKS: Final = 200_000  # at channels, all samples together
GOLDEN: Final = 0.6180339887498949
MOST_CHANNELS: Final = 10_000
MOST_PARCELS: Final = 200_000
ENDLESS: Final = 1e12
_FILLING: Final = 20.0  # times the capacity: how fast sources fill the buffers of a job in advance
_SHORTEST_S: Final = 10.0
_LONGEST_S: Final = 3_600.0
_CRUMBS: Final = 8  # parcels that a buffer should hold at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Debloating:
    """`taskmanager.network.memory.buffer-debloat.*`; the defaults are those of 1.15 to 2.3."""

    target_ms: float = 1000.0
    period_ms: float = 200.0
    samples: int = 20
    threshold: float = 0.25
    least_bytes: int = 256
    start_bytes: int | None = None  # 2.0+: 1024; before, a whole segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The options that are tried.

    Args:
        per_channel: exclusive buffers of a remote channel.
        floating: buffers that the channels of a gate share.
        most_per_channel: of a subpartition (1.11+); None: only the pool limits it.
        overdraft: buffers above the pool's size that one record may take (1.16+).
        segment_bytes: size of a buffer.
        flush_ms: `execution.buffer-timeout`; below 0: only full buffers are sent.
        debloating: None is off.
        unaligned: whether barriers overtake data.
        aligned_timeout_ms: after which an aligned barrier overtakes after all; None: never.
        interval_ms: between the triggers of checkpoints; one at a time. 0: no checkpoints.
        segments: of each TaskManager; None: enough.
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
        name: unique.
        service_ms: by subtask, what one record takes it. Of a source: the time from one record to the next.
        record_bytes: of a record that it sends, on the wire.
        taskmanagers: by subtask, where it runs; empty: each on its own.
        legacy_source: a `SourceFunction`, which blocks inside a record and holds the checkpoint lock.
        snapshot_ms: the synchronous part.
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
    """Which task sends to which.

    Args:
        upstream, downstream: names of tasks.
        pattern: Flink's word for how records are shipped.
        selectivity: records sent for each record that the upstream task takes (a source: makes).
        shares: of the records by consumer; empty: even.
    """

    upstream: str
    downstream: str
    pattern: str = "HASH"
    selectivity: float = 1.0
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Tasks in any order, and edges between them without a circle."""

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskOutcome:
    """One subtask over the time that counts.

    Args:
        records_per_s: taken in; of a source: sent.
        busy, back_pressured, idle: shares of the time.
        queue: mean buffers before it, as `inputQueueLength` counts them from 1.9 on (events and the
            backlog of local channels included).
        queue_first, queue_last: means of the first and the last quarter.
        queued_records: mean records before it, on both sides of its channels.
        out_queue: mean buffers that its result partitions hold.
        capacity: buffers that its remote channels and their gate own.
    """

    task: str
    subtask_index: int
    records_per_s: float
    busy: float
    back_pressured: float
    idle: float
    queue: float
    queue_first: float
    queue_last: float
    queued_records: float
    out_queue: float
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """One checkpoint.

    Args:
        triggered_ms: since the beginning.
        duration_ms: until the last subtask had all its barriers; None: not within the time.
        passed_ms: by subtask, when it had all its barriers, since the trigger.
        waited_ms: by subtask, from its first to its last barrier.
        overtaken_bytes: data that unaligned barriers overtook, which the checkpoint has to carry.
    """

    triggered_ms: float
    duration_ms: float | None
    passed_ms: Mapping[tuple[str, int], float]
    waited_ms: Mapping[tuple[str, int], float]
    overtaken_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over the whole run, for whoever doubts the model.

    Args:
        buffers_made: handed to a consumer's queue or to be: full, flushed or cut off by a barrier.
        buffers_consumed: emptied by their consumer.
        buffers_queued: between the two at the end.
        records_sent, records_taken, records_queued: the same of records.
        least_credit: of any channel at any time.
        fullest_pool: highest use of a pool, less its size and overdraft: never above 0.
        fullest_gate: highest number of received buffers of a gate, less those it owns: never above 0.
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
    """What a simulation comes to; rates, shares and queues of the time after the warm-up."""

    subtasks: tuple[SubtaskOutcome, ...]
    barriers: tuple[Barrier, ...]
    queue_over_time: Mapping[str, tuple[tuple[float, float], ...]]
    totals: Totals
    seconds: float
    records_per_parcel: int

    def of(self, task: str) -> list[SubtaskOutcome]:
        """The subtasks of a task, by index."""
        return [item for item in self.subtasks if item.task == task]

    def throughput(self, task: str) -> float:
        """Records per second that a task takes in (a source: sends), all subtasks together."""
        return sum(item.records_per_s for item in self.of(task))

    @property
    def barrier_ms(self) -> float | None:
        """Median time of the checkpoints that completed; None: none did."""
        known = sorted(b.duration_ms for b in self.barriers if b.duration_ms is not None)
        if not known:
            return None
        return known[len(known) // 2]

    @property
    def unfinished_ms(self) -> float | None:
        """How long the last checkpoint had lasted at the end, where it had none yet."""
        last = self.barriers[-1] if self.barriers else None
        if last is None or last.duration_ms is not None:
            return None
        return self.seconds * 1000.0 - last.triggered_ms


class ModelError(ValueError):
    """A job or settings that cannot be simulated."""


# -- the moving parts ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Buffer:
    parcels: int = 0  # that end in it
    filled: float = 0.0
    bytes: float = 0.0  # not read yet
    barrier: int = -1
    floating: bool = False
    owner: bool = False  # its segment returns to the producer's pool when it has been read


@dataclass(slots=True, eq=False)
class _Link:
    """A subpartition and the input channel that reads it."""

    producer: _Subtask
    consumer: _Subtask
    partition: _Partition
    local: bool
    queue: deque[_Buffer] = field(default_factory=deque)  # complete, at the sender
    backlog: int = 0  # buffers in `queue`, without events
    open: _Buffer | None = None
    room: float = 0.0
    flush: bool = False
    used: int = 0  # segments of the producer's pool
    received: deque[_Buffer] = field(default_factory=deque)
    exclusive_free: int = 0
    floating_free: int = 0
    required: int = 0
    waiting: bool = False
    blocked: bool = False  # its barrier is here, those of other channels are not
    listed: bool = False
    size: float = 0.0  # of new buffers, as the consumer announced it


@dataclass(slots=True, eq=False)
class _Partition:
    """A result partition with its pool."""

    owner: _Subtask
    links: list[_Link]
    size: int
    most: int | None
    overdraft: int
    cumulative: list[float]
    selectivity: float
    broadcast: bool
    spread: bool  # round robin
    used: int = 0
    full_links: int = 0
    owed: float = 0.0
    turn: float = 0.0
    dirty: set[int] = field(default_factory=set)
    fullest: int = 0

    def available(self) -> bool:
        return self.used < self.size and self.full_links == 0

    def grants(self) -> bool:
        return self.used < self.size + self.overdraft


@dataclass(slots=True, eq=False)
class _Gate:
    links: list[_Link]
    floating: int
    floating_free: int
    own: int
    waiters: deque[_Link] = field(default_factory=deque)
    fullest: int = 0
    size: float = 0.0
    announced: float = 0.0
    bytes: float = 0.0
    idle_from: float = 0.0


@dataclass(slots=True, eq=False)
class _Subtask:
    task: Task
    index: int
    source: bool
    service: float
    place: str
    gate: _Gate | None = None
    partitions: list[_Partition] = field(default_factory=list)
    ready: deque[_Link] = field(default_factory=deque)
    state: str = "idle"  # idle, busy, blocked
    since: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    current: tuple[_Link, _Buffer] | None = None
    left: int = 0  # parcels of the current buffer
    done_at: float = -1.0
    pending: deque[list[float]] = field(default_factory=deque)  # partition, link, bytes left
    scheduled: bool = False
    records: int = 0
    counted: int = 0
    seen: set[int] = field(default_factory=set)
    checkpoint: int = -1
    first_at: float = 0.0
    wanted: int = -1  # a source's checkpoint, to be started between two records
    forwarded: int = -1
    snapshot_until: float = -1.0
    samples: list[tuple[float, float, float]] = field(default_factory=list)


class _Simulation:
    """One run; all times in milliseconds."""

    def __init__(self, job: Job, flow: Flow, *, seconds: float, seed: int, fill: bool) -> None:
        self.flow = flow
        self.job = job
        self.now = 0.0
        self.end = seconds * 1000.0
        self.random = random.Random(seed)
        # Over hours the flusher need not pass as often: only the order of magnitude counts then.
        self.flush_ms = max(flow.flush_ms, self.end / 6000.0) if flow.flush_ms > 0 else 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.subtasks = _built(job, flow)
        self.partitions = [p for s in self.subtasks for p in s.partitions]
        self.links = [link for p in self.partitions for link in p.links]
        looks = _LOOKS // max(1, len(self.links))
        self.sample_ms = self.end / max(_FEWEST_SAMPLES, min(SAMPLES, looks))
        self.parcel = _parcel(job, flow, self.end)
        self.made = self.consumed = self.sent = self.taken = 0
        self.least_credit = 0
        self.triggered: list[float] = []
        self.passed: list[dict[tuple[str, int], float]] = []
        self.waited: list[dict[tuple[str, int], float]] = []
        self.overtaken: list[float] = []
        self.priority: set[int] = set()
        self.counting_from = 0.0
        self.boost = 1.0
        self.filling = fill
        if fill:
            rate = flow_rates(job)
            bound = limit(job)
            least = min(rate[t.name] for t in job.tasks if _is_source(job, t))
            self.boost = max(1.0, _FILLING * bound / max(least, 1e-12))
        for subtask in self.subtasks:
            self._wake(subtask)
        if self.flush_ms > 0:
            for number, partition in enumerate(self.partitions):
                offset = self.flush_ms * ((number * GOLDEN) % 1.0)
                self._at(offset, partial(self._flush, partition))
        if flow.debloating is not None:
            for number, subtask in enumerate(self.subtasks):
                if subtask.gate is not None:
                    offset = flow.debloating.period_ms * ((number * GOLDEN) % 1.0)
                    self._at(offset, partial(self._debloat, subtask))
        self._at(self.sample_ms, self._sample)

    # Time.

    def _at(self, time: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.order), what))

    def _wake(self, subtask: _Subtask) -> None:
        if not subtask.scheduled:
            subtask.scheduled = True
            self._at(self.now, partial(self._step, subtask))

    def run(self) -> None:
        warm = self.end * 0.4
        fill_until = self.end * 0.25
        counting = False
        while self.heap and self.heap[0][0] <= self.end:
            time, _, what = heapq.heappop(self.heap)
            self.now = time
            if self.filling and (time >= fill_until or self._all_blocked()):
                self.filling = False
                self.boost = 1.0
            if not counting and time >= warm:
                counting = True
                self._begin_counting()
            what()
        self.now = self.end
        for subtask in self.subtasks:
            self._enter(subtask, subtask.state)

    def _all_blocked(self) -> bool:
        return all(s.state == "blocked" for s in self.subtasks if s.source)

    def _begin_counting(self) -> None:
        self.counting_from = self.now
        for subtask in self.subtasks:
            self._enter(subtask, subtask.state)
            subtask.times.clear()
            subtask.counted = subtask.records
        if self.flow.interval_ms > 0:
            self._trigger()

    def _enter(self, subtask: _Subtask, state: str) -> None:
        spent = self.now - subtask.since
        if spent > 0:
            subtask.times[subtask.state] = subtask.times.get(subtask.state, 0.0) + spent
        subtask.state, subtask.since = state, self.now

    # A subtask.

    def _step(self, subtask: _Subtask) -> None:
        subtask.scheduled = False
        if self.now < subtask.snapshot_until:
            return
        while True:
            if subtask.done_at >= 0:
                if self.now < subtask.done_at:
                    return
                self._finish(subtask)
            if subtask.pending and not self._emit(subtask):
                self._enter(subtask, "blocked")
                return
            if subtask.wanted >= 0 and not self._start_checkpoint(subtask):
                return
            if not self._may_go_on(subtask):
                self._enter(subtask, "blocked")
                return
            if subtask.left > 0 or subtask.source:
                self._begin(subtask)
                return
            if subtask.current is not None:
                self._recycle(subtask)
            if not self._take(subtask):
                self._enter(subtask, "idle")
                return
            if self.now < subtask.snapshot_until:
                return

    def _may_go_on(self, subtask: _Subtask) -> bool:
        if subtask.source and subtask.task.legacy_source:
            return True  # it looks for a buffer only when it needs one
        return all(partition.available() for partition in subtask.partitions)

    def _begin(self, subtask: _Subtask) -> None:
        each = subtask.service * self.parcel
        if subtask.source:
            each /= self.boost
        self._enter(subtask, "busy")
        subtask.done_at = self.now + each
        subtask.scheduled = True
        self._at(subtask.done_at, partial(self._step, subtask))

    def _finish(self, subtask: _Subtask) -> None:
        subtask.done_at = -1.0
        subtask.records += 1
        if not subtask.source:
            subtask.left -= 1
            self.taken += 1
        for number, partition in enumerate(subtask.partitions):
            partition.owed += partition.selectivity
            while partition.owed >= 1.0 - 1e-9:
                partition.owed -= 1.0
                size = subtask.task.record_bytes * self.parcel
                if partition.broadcast:
                    for place in range(len(partition.links)):
                        subtask.pending.append([number, place, size])
                else:
                    subtask.pending.append([number, self._choice(partition), size])

    def _choice(self, partition: _Partition) -> int:
        """A link by its share: at random as records are, with the variance that single records have."""
        if len(partition.links) == 1:
            return 0
        partition.turn = (partition.turn + GOLDEN) % 1.0
        at = partition.turn
        if not partition.spread and (self.parcel == 1 or self.random.random() * self.parcel < 1.0):
            at = self.random.random()
        return min(bisect_right(partition.cumulative, at), len(partition.links) - 1)

    def _emit(self, subtask: _Subtask) -> bool:
        while subtask.pending:
            entry = subtask.pending[0]
            partition = subtask.partitions[int(entry[0])]
            link = partition.links[int(entry[1])]
            while True:
                if link.open is None:
                    if not partition.grants():
                        return False
                    self._open(link, entry[2])
                buffer = link.open
                assert buffer is not None
                put = min(link.room, entry[2])
                link.room -= put
                entry[2] -= put
                buffer.filled += put
                buffer.bytes += put
                if entry[2] <= 1e-6:
                    buffer.parcels += 1
                    self.sent += 1
                if link.room <= 1e-6:
                    self._complete(link)
                else:
                    partition.dirty.add(int(entry[1]))
                if entry[2] <= 1e-6:
                    break
            if self.flow.flush_ms == 0 and link.open is not None and link.open.bytes > 0:
                link.flush = True
                self._offer(link)
            subtask.pending.popleft()
        return True

    def _open(self, link: _Link, at_least: float) -> None:
        partition = link.partition
        link.open = _Buffer()
        segment = float(self.flow.segment_bytes)
        link.room = min(segment, max(link.size, min(at_least, segment)))
        link.used += 1
        partition.used += 1
        partition.fullest = max(partition.fullest, partition.used - partition.size)
        if partition.most is not None and link.used == partition.most:
            partition.full_links += 1

    def _complete(self, link: _Link) -> None:
        """Close the open buffer and queue it; one that has been read already just goes back."""
        buffer = link.open
        assert buffer is not None
        link.open, link.flush = None, False
        buffer.owner = True
        if buffer.bytes <= 1e-6 and buffer.parcels == 0:
            self._release(link)
            return
        self.made += 1
        link.queue.append(buffer)
        link.backlog += 1
        self._offer(link)

    def _release(self, link: _Link) -> None:
        """A segment returns to the producer's pool."""
        partition = link.partition
        if partition.most is not None and link.used == partition.most:
            partition.full_links -= 1
        link.used -= 1
        partition.used -= 1
        owner = partition.owner
        if owner.state == "blocked":
            self._wake(owner)

    # From the subpartition to the channel.

    def _slice(self, link: _Link) -> _Buffer | None:
        """What the open buffer holds so far, where the flusher asked for it."""
        buffer = link.open
        if not link.flush or buffer is None or buffer.bytes <= 1e-6:
            return None
        link.flush = False
        part = _Buffer(parcels=buffer.parcels, bytes=buffer.bytes)
        buffer.parcels, buffer.bytes = 0, 0.0
        self.made += 1
        return part

    def _offer(self, link: _Link) -> None:
        """Something can be sent, or read."""
        if link.local:
            if not link.listed and not link.blocked:
                self._list(link)
            return
        consumer = link.consumer
        gate = consumer.gate
        assert gate is not None
        arrived = False
        while True:
            if link.queue and link.queue[0].barrier >= 0:
                link.received.append(link.queue.popleft())
                arrived = True
                continue
            if not link.queue and not (link.flush and link.open is not None):
                break
            if link.exclusive_free + link.floating_free == 0:
                # Only a sender that began without credit tells its backlog by itself.
                if self.flow.per_channel == 0:
                    self._ask(link, gate)
                if link.exclusive_free + link.floating_free == 0:
                    break
            if link.queue:
                buffer = link.queue.popleft()
                link.backlog -= 1
                self._release(link)
                buffer.owner = False
            else:
                part = self._slice(link)
                if part is None:
                    link.flush = False
                    break
                buffer = part
            if link.floating_free > 0:
                link.floating_free -= 1
                buffer.floating = True
            else:
                link.exclusive_free -= 1
            self.least_credit = min(self.least_credit, link.exclusive_free, link.floating_free)
            link.received.append(buffer)
            arrived = True
            self._ask(link, gate)
        if arrived and not link.listed and not link.blocked:
            self._list(link)

    def _ask(self, link: _Link, gate: _Gate) -> None:
        """The channel learns of the backlog and borrows floating buffers (`onSenderBacklog`)."""
        backlog = link.backlog + (1 if link.flush and link.open is not None else 0)
        if backlog == 0 and link.required == self.flow.per_channel:
            return
        link.required = backlog + self.flow.per_channel
        while link.exclusive_free + link.floating_free < link.required:
            if gate.floating_free > 0:
                gate.floating_free -= 1
                link.floating_free += 1
            else:
                if not link.waiting:
                    link.waiting = True
                    gate.waiters.append(link)
                break

    def _list(self, link: _Link) -> None:
        link.listed = True
        consumer = link.consumer
        consumer.ready.append(link)
        gate = consumer.gate
        assert gate is not None
        if consumer.state == "idle":
            self._wake(consumer)

    def _take(self, subtask: _Subtask) -> bool:
        """Take the next buffer of the channel whose turn it is; handles barriers. False: nothing there."""
        while subtask.ready:
            link = subtask.ready.popleft()
            link.listed = False
            buffer = self._next(link)
            if buffer is None:
                continue
            if buffer.barrier >= 0:
                self._aligned(subtask, link, buffer.barrier)
                if self.now < subtask.snapshot_until:
                    return True
                if not all(partition.available() for partition in subtask.partitions):
                    return True  # seen again at the top of the loop
                continue
            if self._more(link):
                link.listed = True
                subtask.ready.append(link)
            subtask.current, subtask.left = (link, buffer), buffer.parcels
            if subtask.gate is not None:
                subtask.gate.bytes += buffer.bytes
            return True
        return False

    def _next(self, link: _Link) -> _Buffer | None:
        if link.blocked:
            return None
        if not link.local:
            return link.received.popleft() if link.received else None
        if link.queue:
            buffer = link.queue.popleft()
            if buffer.barrier < 0:
                link.backlog -= 1
            return buffer
        return self._slice(link)

    @staticmethod
    def _more(link: _Link) -> bool:
        if link.local:
            return bool(link.queue) or (link.flush and link.open is not None)
        return bool(link.received)

    def _recycle(self, subtask: _Subtask) -> None:
        assert subtask.current is not None
        link, buffer = subtask.current
        subtask.current = None
        self.consumed += 1
        if link.local:
            if buffer.owner:
                self._release(link)
            return
        self._give_back(link, buffer)

    def _give_back(self, link: _Link, buffer: _Buffer) -> None:
        """A received buffer is free again: credit for its channel, or for the one that waits longest."""
        gate = link.consumer.gate
        assert gate is not None
        if buffer.floating:
            self._free_floating(gate)
        else:
            link.exclusive_free += 1
            if link.exclusive_free + link.floating_free > link.required and link.floating_free > 0:
                link.floating_free -= 1
                self._free_floating(gate)
        self._offer(link)

    def _free_floating(self, gate: _Gate) -> None:
        while gate.waiters:
            other = gate.waiters.popleft()
            other.waiting = False
            if other.exclusive_free + other.floating_free >= other.required:
                continue
            other.floating_free += 1
            if other.exclusive_free + other.floating_free < other.required:
                other.waiting = True
                gate.waiters.append(other)
            self._offer(other)
            return
        gate.floating_free += 1

    # Clocks.

    def _flush(self, partition: _Partition) -> None:
        for place in sorted(partition.dirty):
            link = partition.links[place]
            if link.open is not None and link.open.bytes > 1e-6:
                link.flush = True
                self._offer(link)
        partition.dirty.clear()
        self._at(self.now + self.flush_ms, partial(self._flush, partition))

    def _debloat(self, subtask: _Subtask) -> None:
        options, gate = self.flow.debloating, subtask.gate
        assert options is not None and gate is not None
        idle = self.now - subtask.since if subtask.state == "idle" else 0.0
        active = max(1.0, options.period_ms - min(idle, options.period_ms))
        if gate.bytes > 0:
            throughput = gate.bytes * 1000.0 / active
            gate.bytes = 0.0
            in_use = sum(_in_use(link) for link in gate.links)
            wanted = throughput * options.target_ms / 1000.0 / max(1, in_use)
            alpha = 2.0 / (options.samples + 1)
            gate.size += alpha * (min(wanted, 2.0 * gate.size) - gate.size)
            most = float(self.flow.segment_bytes)
            gate.size = max(float(options.least_bytes), min(gate.size, most))
            edge = gate.size <= options.least_bytes or gate.size >= most
            if edge or abs(gate.size - gate.announced) >= gate.announced * options.threshold:
                gate.announced = gate.size
                for link in gate.links:
                    link.size = gate.size
        self._at(self.now + options.period_ms, partial(self._debloat, subtask))

    def _sample(self) -> None:
        for subtask in self.subtasks:
            queue = records = 0
            if subtask.gate is not None:
                for link in subtask.gate.links:
                    held = len(link.received)
                    if link.local:
                        queue += link.backlog
                    else:
                        queue += held
                    records += _parcels_of(link)
                records += subtask.left
                received = sum(
                    sum(b.barrier < 0 for b in link.received)
                    for link in subtask.gate.links
                    if not link.local
                )
                if subtask.current is not None:
                    received += not subtask.current[0].local
                gate = subtask.gate
                gate.fullest = max(gate.fullest, received - gate.own)
            out = sum(partition.used for partition in subtask.partitions)
            subtask.samples.append((queue, records * self.parcel, out))
        self._at(self.now + self.sample_ms, self._sample)

    # Checkpoints.

    def _trigger(self) -> None:
        number = len(self.triggered)
        self.triggered.append(self.now)
        self.passed.append({})
        self.waited.append({})
        self.overtaken.append(0.0)
        if self.flow.unaligned:
            self.priority.add(number)
        elif self.flow.aligned_timeout_ms is not None:
            late = self.now + self.flow.aligned_timeout_ms
            self._at(late, partial(self._overtake_all, number))
        for subtask in self.subtasks:
            if subtask.source:
                subtask.wanted = number
                if subtask.done_at < 0:
                    self._wake(subtask)

    def _start_checkpoint(self, subtask: _Subtask) -> bool:
        """A source emits its barriers, between two records. False: it takes its snapshot first."""
        number = subtask.wanted
        subtask.wanted = -1
        self._passed(subtask, number, 0.0)
        self._forward(subtask, number)
        return self._snapshot(subtask)

    def _snapshot(self, subtask: _Subtask) -> bool:
        if subtask.task.snapshot_ms <= 0:
            return True
        subtask.snapshot_until = self.now + subtask.task.snapshot_ms
        self._enter(subtask, "busy")
        subtask.scheduled = True
        self._at(subtask.snapshot_until, partial(self._step, subtask))
        return False

    def _passed(self, subtask: _Subtask, number: int, waited: float) -> None:
        key = (subtask.task.name, subtask.index)
        done = self.passed[number]
        done[key] = self.now + subtask.task.snapshot_ms - self.triggered[number]
        self.waited[number][key] = waited
        if len(done) == len(self.subtasks):
            due = max(self.now, self.triggered[number] + self.flow.interval_ms)
            self._at(due, self._trigger)

    def _forward(self, subtask: _Subtask, number: int) -> None:
        subtask.forwarded = number
        for partition in subtask.partitions:
            for link in partition.links:
                if link.open is not None:
                    self._complete(link)
                if number in self.priority:
                    self.overtaken[number] += sum(b.bytes for b in link.queue)
                    self._overtaking(link, number)
                else:
                    link.queue.append(_Buffer(barrier=number))
                    self._offer(link)

    def _aligned(self, subtask: _Subtask, link: _Link, number: int) -> None:
        """A barrier has come through the queue."""
        if number in self.priority:
            # It waited in line before its checkpoint began to overtake.
            self._arrived(subtask, link, number)
            if self._more(link) and not link.listed:
                self._list(link)
            return
        link.blocked = True
        self._arrived(subtask, link, number)

    def _arrived(self, subtask: _Subtask, link: _Link, number: int) -> None:
        if subtask.checkpoint != number:
            subtask.checkpoint, subtask.first_at = number, self.now
            subtask.seen = set()
        subtask.seen.add(id(link))
        gate = subtask.gate
        assert gate is not None
        early = number in self.priority and subtask.forwarded != number
        complete = len(subtask.seen) == len(gate.links)
        if early or (complete and subtask.forwarded != number):
            self._forward(subtask, number)
            if number in self.priority:
                waiting = (b.bytes for other in gate.links for b in other.received)
                self.overtaken[number] += sum(waiting)
            self._snapshot(subtask)
        if number in self.priority or complete:
            for other in gate.links:
                if other.blocked:
                    other.blocked = False
                    if self._more(other) and not other.listed:
                        self._list(other)
        if complete:
            self._passed(subtask, number, self.now - subtask.first_at)

    def _overtaking(self, link: _Link, number: int) -> None:
        """An unaligned barrier is seen after the record in hand, whatever waits."""
        consumer = link.consumer
        delay = 0.0
        if self.now < consumer.snapshot_until:
            delay = consumer.snapshot_until - self.now
        elif consumer.done_at > self.now and consumer.service > 0:
            delay = math.fmod(consumer.done_at - self.now, consumer.service)
        self._at(self.now + delay, partial(self._arrived, consumer, link, number))

    def _overtake_all(self, number: int) -> None:
        """The time-out of an aligned checkpoint: its barriers leave the queues."""
        if len(self.passed[number]) == len(self.subtasks):
            return
        self.priority.add(number)
        for link in self.links:
            for queue in (link.received, link.queue):
                found = next((b for b in queue if b.barrier == number), None)
                if found is not None:
                    ahead = itertools.takewhile(lambda b, f=found: b is not f, queue)  # type: ignore[misc]
                    self.overtaken[number] += sum(b.bytes for b in ahead)
                    queue.remove(found)
                    self._overtaking(link, number)
        for subtask in self.subtasks:
            # Who holds some barriers already need not wait for the others any more.
            if subtask.checkpoint == number and subtask.forwarded != number and subtask.gate:
                self._forward(subtask, number)
                for link in subtask.gate.links:
                    if link.blocked:
                        link.blocked = False
                        if self._more(link) and not link.listed:
                            self._list(link)

    # The end.

    def outcome(self) -> Outcome:
        span = max(1e-9, self.end - self.counting_from)
        found, series = [], {}
        first = int(self.counting_from / self.sample_ms)
        for subtask in self.subtasks:
            counted = subtask.samples[first:] or [(0.0, 0.0, 0.0)]
            quarter = max(1, len(counted) // 4)
            queues = [item[0] for item in counted]
            found.append(
                SubtaskOutcome(
                    task=subtask.task.name,
                    subtask_index=subtask.index,
                    records_per_s=(subtask.records - subtask.counted) * self.parcel * 1000.0 / span,
                    busy=subtask.times.get("busy", 0.0) / span,
                    back_pressured=subtask.times.get("blocked", 0.0) / span,
                    idle=subtask.times.get("idle", 0.0) / span,
                    queue=sum(queues) / len(queues),
                    queue_first=sum(queues[:quarter]) / quarter,
                    queue_last=sum(queues[-quarter:]) / quarter,
                    queued_records=sum(item[1] for item in counted) / len(counted),
                    out_queue=sum(item[2] for item in counted) / len(counted),
                    capacity=subtask.gate.own if subtask.gate is not None else 0,
                )
            )
        for task in self.job.tasks:
            mine = [s.samples for s in self.subtasks if s.task is task and s.gate is not None]
            if mine:
                count = min(len(samples) for samples in mine)
                series[task.name] = tuple(
                    ((i + 1) * self.sample_ms, float(sum(samples[i][0] for samples in mine)))
                    for i in range(count)
                )
        barriers = []
        for number, begun in enumerate(self.triggered):
            done = self.passed[number]
            complete = len(done) == len(self.subtasks)
            barriers.append(
                Barrier(
                    triggered_ms=begun,
                    duration_ms=max(done.values()) if complete else None,
                    passed_ms=dict(done),
                    waited_ms=dict(self.waited[number]),
                    overtaken_bytes=self.overtaken[number],
                )
            )
        return Outcome(
            subtasks=tuple(found),
            barriers=tuple(barriers),
            queue_over_time=series,
            totals=self._totals(),
            seconds=self.end / 1000.0,
            records_per_parcel=self.parcel,
        )

    def _totals(self) -> Totals:
        buffers = sum(
            sum(b.barrier < 0 for b in itertools.chain(link.queue, link.received))
            for link in self.links
        )
        buffers += sum(subtask.current is not None for subtask in self.subtasks)
        parcels = sum(_parcels_of(link) for link in self.links)
        parcels += sum(subtask.left for subtask in self.subtasks)
        gates = [s.gate for s in self.subtasks if s.gate is not None]
        return Totals(
            buffers_made=self.made,
            buffers_consumed=self.consumed,
            buffers_queued=buffers,
            records_sent=self.sent * self.parcel,
            records_taken=self.taken * self.parcel,
            records_queued=parcels * self.parcel,
            least_credit=self.least_credit,
            fullest_pool=max((p.fullest - p.overdraft for p in self.partitions), default=0),
            fullest_gate=max((gate.fullest for gate in gates), default=0),
        )


def _parcels_of(link: _Link) -> int:
    held = sum(b.parcels for b in link.queue) + sum(b.parcels for b in link.received)
    return held + (link.open.parcels if link.open is not None else 0)


def _in_use(link: _Link) -> int:
    """As `getBuffersInUseCount`: what has been received and what the sender has left."""
    return len(link.received) + link.backlog


# -- from a job to its moving parts --------------------------------------------------------------


def _is_source(job: Job, task: Task) -> bool:
    return all(edge.downstream != task.name for edge in job.edges)


def ordered(job: Job) -> list[Task]:
    """The tasks from the sources on.

    Raises:
        ModelError: an edge to or from nowhere, a circle, a name twice, no task.
    """
    tasks = {task.name: task for task in job.tasks}
    if not tasks or len(tasks) != len(job.tasks):
        raise ModelError("a job needs tasks with names of their own")
    before: dict[str, set[str]] = {name: set() for name in tasks}
    for edge in job.edges:
        if edge.upstream not in tasks or edge.downstream not in tasks:
            raise ModelError(f"an edge from '{edge.upstream}' to '{edge.downstream}' leads nowhere")
        before[edge.downstream].add(edge.upstream)
    found: list[Task] = []
    while len(found) < len(tasks):
        done = {task.name for task in found}
        ready = [t for t in job.tasks if t.name not in done and before[t.name] <= done]
        if not ready:
            raise ModelError("the job graph has a circle")
        found += ready
    return found


def _shares(edge: Edge, consumers: Sequence[int]) -> list[float]:
    """Of the records, by consumer; even ones where nothing is said."""
    given = [edge.shares[i] if i < len(edge.shares) else 1.0 for i in consumers]
    if not edge.shares or sum(given) <= 0:
        given = [1.0] * len(consumers)
    total = sum(given)
    return [share / total for share in given]


def _consumers(edge: Edge, upstream: Task, downstream: Task, index: int) -> list[int]:
    if edge.pattern not in POINTWISE:
        return list(range(downstream.parallelism))
    up, down = upstream.parallelism, downstream.parallelism
    return [i for i in range(down) if index in feeders(edge.pattern, up, down, i)]


def flow_rates(job: Job) -> dict[str, float]:
    """Records per second of each task, all subtasks, if nothing were ever full."""
    tasks = ordered(job)
    rates: dict[str, float] = {}
    by_name = {task.name: task for task in tasks}
    for task in tasks:
        if _is_source(job, task):
            rates[task.name] = sum(1000.0 / max(s, 1e-9) for s in task.service_ms)
            continue
        rates[task.name] = 0.0
        for edge in job.edges:
            if edge.downstream == task.name:
                up = by_name[edge.upstream]
                copies = task.parallelism if edge.pattern == "BROADCAST" else 1
                rates[task.name] += rates[up.name] * edge.selectivity * copies
    return rates


def utilisation(job: Job) -> dict[str, float]:
    """By task that has an input: how much of its time the busiest subtask would need, if all came through."""
    rates = flow_rates(job)
    found = {}
    for task in job.tasks:
        if not _is_source(job, task):
            loads = _loads(job, task, rates)
            pairs = zip(loads, task.service_ms, strict=True)
            found[task.name] = max(
                (load * service / 1000.0 for load, service in pairs), default=0.0
            )
    return found


def limit(job: Job) -> float:
    """The share of the sources' rate that the slowest subtask lets pass, at most 1."""
    most = max(utilisation(job).values(), default=0.0)
    return 1.0 if most <= 1.0 else 1.0 / most


def _loads(job: Job, task: Task, rates: Mapping[str, float]) -> list[float]:
    """Records per second that would reach each subtask."""
    by_name = {item.name: item for item in job.tasks}
    found = [0.0] * task.parallelism
    for edge in job.edges:
        if edge.downstream != task.name:
            continue
        up = by_name[edge.upstream]
        sent = rates[up.name] * edge.selectivity
        if edge.pattern == "BROADCAST":
            found = [value + sent for value in found]
            continue
        for index in range(up.parallelism):
            to = _consumers(edge, up, task, index)
            for i, share in zip(to, _shares(edge, to), strict=True):
                found[i] += sent / up.parallelism * share
    return found


def _parcel(job: Job, flow: Flow, end_ms: float) -> int:
    """Records that move together: few enough for a smooth flow, enough for a quick answer."""
    rates = flow_rates(job)
    share = limit(job)
    processed = sum(rates.values()) * share * end_ms / 1000.0
    needed = math.ceil(processed / MOST_PARCELS)
    largest = max(task.record_bytes for task in job.tasks)
    size = flow.segment_bytes / (4 if flow.debloating is not None else 1)
    comfortable = max(1, int(size / largest / _CRUMBS))
    return max(needed, min(comfortable, max(1, math.ceil(processed / 60_000))))


def _built(job: Job, flow: Flow) -> list[_Subtask]:
    tasks = ordered(job)
    known: dict[tuple[str, int], _Subtask] = {}
    for task in tasks:
        if not task.service_ms or any(not 0 <= s < ENDLESS for s in task.service_ms):
            raise ModelError(f"'{task.name}' needs a time per record for each subtask")
        if not 0 < task.record_bytes < ENDLESS:
            raise ModelError(f"'{task.name}': records need bytes")
        source = _is_source(job, task)
        if source and min(task.service_ms) <= 0:
            raise ModelError(f"the source '{task.name}' needs a rate")
        for index, service in enumerate(task.service_ms):
            place = task.taskmanagers[index] if index < len(task.taskmanagers) else None
            known[task.name, index] = _Subtask(
                task,
                index,
                source,
                service,
                place if place is not None else f"{task.name}/{index}",
            )
    if flow.per_channel < 0 or flow.floating < 0 or flow.per_channel + flow.floating < 1:
        raise ModelError("a channel needs a buffer: exclusive or floating")
    if flow.segment_bytes < 1:
        raise ModelError("a buffer needs bytes")
    channels = 0
    for task in tasks:
        for edge in (e for e in job.edges if e.upstream == task.name):
            down = next(t for t in tasks if t.name == edge.downstream)
            for index in range(task.parallelism):
                to = _consumers(edge, task, down, index)
                channels += len(to)
                if channels > MOST_CHANNELS:
                    raise ModelError(f"more than {MOST_CHANNELS} channels")
                _connect(known[task.name, index], [known[down.name, i] for i in to], edge, flow, to)
    subtasks = list(known.values())
    for subtask in subtasks:
        gate = subtask.gate
        if gate is not None:
            remote = [link for link in gate.links if not link.local]
            gate.floating = gate.floating_free = flow.floating if remote else 0
            gate.own = len(remote) * flow.per_channel + gate.floating
            start = flow.debloating.start_bytes if flow.debloating is not None else None
            gate.size = gate.announced = float(start or flow.segment_bytes)
            for link in gate.links:
                link.size = min(gate.size, float(flow.segment_bytes))
    if flow.segments is not None:
        _share_out(subtasks, flow)
    return subtasks


def _connect(
    producer: _Subtask, consumers: list[_Subtask], edge: Edge, flow: Flow, indexes: list[int]
) -> None:
    partition = _Partition(
        owner=producer,
        links=[],
        size=max(len(consumers) + 1, len(consumers) * flow.per_channel + flow.floating),
        most=flow.most_per_channel,
        overdraft=flow.overdraft,
        cumulative=list(itertools.accumulate(_shares(edge, indexes))),
        selectivity=edge.selectivity,
        broadcast=edge.pattern == "BROADCAST",
        spread=edge.pattern in {"REBALANCE", "RESCALE"},
    )
    for consumer in consumers:
        local = producer.place == consumer.place
        link = _Link(producer, consumer, partition, local)
        if not local:
            link.exclusive_free = link.required = flow.per_channel
        partition.links.append(link)
        if consumer.gate is None:
            consumer.gate = _Gate([], 0, 0, 0)
        consumer.gate.links.append(link)
    producer.partitions.append(partition)


def _share_out(subtasks: Iterable[_Subtask], flow: Flow) -> None:
    """Give each pool its least, and its part of what a TaskManager has left.

    Raises:
        ModelError: there are fewer segments than the pools require.
    """
    places: dict[str, list[_Subtask]] = {}
    for subtask in subtasks:
        places.setdefault(subtask.place, []).append(subtask)
    for place, mine in places.items():
        pools: list[tuple[int, int, Callable[[int], None]]] = []
        fixed = 0
        for subtask in mine:
            gate = subtask.gate
            if gate is not None and gate.floating:
                fixed += gate.own - gate.floating
                pools.append((1, gate.floating, _bound_size(gate)))
            for partition in subtask.partitions:
                pools.append((len(partition.links) + 1, partition.size, _bound_pool(partition)))
        total = flow.segments or 0
        spare = total - fixed - sum(least for least, _, _ in pools)
        if spare < 0:
            raise ModelError(
                f"{place} needs {total - spare} network buffers and has {total}: it would not start"
            )
        wanted = [min(spare, max(0, most - least)) for least, most, _ in pools]
        to_give = min(spare, sum(wanted))
        asked = given = 0
        for (least, _, resize), want in zip(pools, wanted, strict=True):
            asked += want
            part = to_give * asked // sum(wanted) - given if sum(wanted) else 0
            given += part
            resize(least + part)


def _bound_size(gate: _Gate) -> Callable[[int], None]:
    def resize(size: int) -> None:
        gate.own += size - gate.floating
        gate.floating = gate.floating_free = size

    return resize


def _bound_pool(partition: _Partition) -> Callable[[int], None]:
    def resize(size: int) -> None:
        partition.size = size

    return resize


def enough_seconds(job: Job, flow: Flow) -> float:
    """How long to play a job: until its buffers have been emptied several times over."""
    rates, share = flow_rates(job), limit(job)
    by_name = {task.name: task for task in job.tasks}
    longest = 0.0
    for edge in job.edges:
        up, down = by_name[edge.upstream], by_name[edge.downstream]
        fan_out = len(_consumers(edge, up, down, 0))
        channels = up.parallelism * fan_out
        buffers = 2 * (channels * flow.per_channel + down.parallelism * flow.floating)
        buffers += up.parallelism * (fan_out + 1)
        bytes_per_s = rates[up.name] * share * edge.selectivity * up.record_bytes
        if bytes_per_s > 0:
            longest += buffers * flow.segment_bytes / bytes_per_s
    return min(_LONGEST_S, max(_SHORTEST_S, 5.0 * longest))


def simulate(
    job: Job,
    flow: Flow,
    *,
    seconds: float | None = None,
    seed: int = 1,
    fill: bool | None = None,
) -> Outcome:
    """Play a job for some time under some settings.

    Args:
        job: what there is to do.
        flow: the settings.
        seconds: of the job's life; rates and queues are those of the last three fifths, and the first
            checkpoint is triggered when these begin. Default: `enough_seconds`.
        seed: of the draw that says which record goes where.
        fill: begin with buffers that are full, as they are after hours; default: where some subtask
            cannot keep up with the sources.

    Raises:
        ModelError: the job or the settings make no sense, or are too large.
    """
    ordered(job)
    if seconds is None:
        seconds = enough_seconds(job, flow)
    if not 0 < seconds <= 86_400:
        raise ModelError("a simulation takes up to a day")
    wanted = limit(job) < 1.0 if fill is None else fill
    simulation = _Simulation(job, flow, seconds=seconds, seed=seed, fill=wanted)
    simulation.run()
    return simulation.outcome()
