"""The moving parts of the model: buffers, links, partitions, gates, subtasks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from flowdiag.analyses.queues.credits.job import Task


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer in transit."""

    parcels: int = 0  # parcels that end in this buffer
    filled: float = 0.0
    bytes: float = 0.0  # bytes not read yet
    barrier: int = -1
    floating: bool = False
    owner: bool = False  # whether its segment returns to the producer's pool after reading


@dataclass(slots=True, eq=False)
class Link:
    """A connection: a subpartition, and the input channel that reads it."""

    producer: Subtask
    consumer: Subtask
    partition: Partition
    local: bool
    queue: deque[Buffer] = field(default_factory=deque)  # complete buffers at the sender
    backlog: int = 0  # buffers in `queue`, without events
    open: Buffer | None = None
    room: float = 0.0
    flush: bool = False
    used: int = 0  # segments of the producer's pool in use
    received: deque[Buffer] = field(default_factory=deque)
    exclusive_free: int = 0
    floating_free: int = 0
    required: int = 0
    waiting: bool = False
    blocked: bool = False  # its barrier has arrived, but barriers of other channels have not
    listed: bool = False
    size: float = 0.0  # size of new buffers, as announced by the consumer

    @property
    def has_output(self) -> bool:
        """Whether the producer has a complete buffer, or an open one that the flusher wants to send."""
        return bool(self.queue) or (self.flush and self.open is not None)


@dataclass(slots=True, eq=False)
class Partition:
    """A result partition with its pool."""

    owner: Subtask
    links: list[Link]
    size: int
    most: int | None
    overdraft: int
    cumulative: list[float]
    selectivity: float
    broadcast: bool
    spread: bool  # whether records go to its links in turn
    used: int = 0
    full_links: int = 0
    owed: float = 0.0
    turn: float = 0.0
    dirty: set[int] = field(default_factory=set)
    fullest: int = 0

    def available(self) -> bool:
        """Return whether the pool has room for the task to start its next record."""
        return self.used < self.size and self.full_links == 0

    def gets_buffer(self) -> bool:
        """Return whether a record that was already started gets another buffer, including overdraft."""
        return self.used < self.size + self.overdraft


@dataclass(slots=True, eq=False)
class Gate:
    """An input gate: its channels, and the floating buffers that they borrow."""

    links: list[Link]
    floating: int
    floating_free: int
    own: int
    waiters: deque[Link] = field(default_factory=deque)
    fullest: int = 0
    size: float = 0.0
    announced: float = 0.0
    bytes: float = 0.0


@dataclass(slots=True, eq=False)
class Subtask:
    """One subtask with its input gate and its result partitions. Times are in milliseconds."""

    task: Task
    index: int
    source: bool
    service: float
    place: str
    gate: Gate | None = None
    partitions: list[Partition] = field(default_factory=list)
    ready: deque[Link] = field(default_factory=deque)
    state: str = "idle"  # idle, busy, blocked
    since: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    current: tuple[Link, Buffer] | None = None
    left: int = 0  # parcels left in the current buffer
    done_at: float = -1.0
    pending: deque[list[float]] = field(default_factory=deque)  # partition, link, bytes left
    scheduled: bool = False
    records: int = 0
    counted: int = 0
    seen: set[int] = field(default_factory=set)
    checkpoint: int = -1
    first_at: float = 0.0
    requested_checkpoint: int = -1  # checkpoint that a source starts between two records
    forwarded: int = -1
    snapshot_until: float = -1.0
    samples: list[tuple[float, float, float]] = field(default_factory=list)


def parcels_of(link: Link) -> int:
    """Return the parcels that wait in a link."""
    held = sum(b.parcels for b in link.queue) + sum(b.parcels for b in link.received)
    return held + (link.open.parcels if link.open is not None else 0)


def buffers_in_use(link: Link) -> int:
    """Count buffers received or left at the sender, as Flink's `getBuffersInUseCount` does."""
    return len(link.received) + link.backlog


# -- from a job to its moving parts --------------------------------------------------------------
