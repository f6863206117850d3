"""What ails the accused: the questions in the one order in which they decide.

`QUESTIONS` is that order. What a subtask measured of its own snapshots comes first, since it is proof;
then what only a slow snapshot looks like; then data, since a subtask with a hot key also holds barriers
up, hangs or seems slow; then a TaskManager that collects garbage, where everything is slow for it; last what is left: nothing comes in, or a record costs too much. A cause needs
evidence of its own and stays None without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from flowdiag.analyses.flink.episodes import incidents
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import (
    COSTLY,
    IDLE,
    QUEUE_TIMES,
    SKEWED,
    Load,
    bytes_ratio,
    cost_ratio,
    queue_ratio,
    records_ratio,
    stalled,
)
from flowdiag.analyses.flink.suspects.acknowledgements import Shape
from flowdiag.analyses.flink.suspects.case import Case, Suspect, at_the_abort, sync_share
from flowdiag.analyses.flink.suspects.signals import SNAPSHOT_SHARE, nobody_works, skew

CONVICTS_OF: Final = (
    "data-skew",
    "slow-subtask",
    "slow-operator",
    "slow-taskmanager",
    "task-hangs",
    "slow-sync-snapshot",
    "slow-async-snapshot",
    "garbage-collection",
    "checkpoint-lock-held",
)
"""Every cause that `diagnose` can name."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What ails a suspect.

    Args:
        cause: a word of `CAUSES`; None where nothing tells.
        half: where the time of a checkpoint goes: `barrier`, `sync`, `async`, `snapshot` or None.
        reason: the number behind it, for people.
        numbers: those that decided, by the names of `measured`.
        rank: of the question that decided, smaller ones are asked first.
        degree: how bad it is, among subtasks with the same cause.
    """

    cause: str | None = None
    half: str | None = None
    reason: str | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    rank: int = 99
    degree: float = 0.0


def diagnose(case: Case, suspect: Suspect) -> Diagnosis:
    """What ails a suspect: the first question with an answer decides."""
    if suspect.kind == "taskmanager":
        machine = case.machine
        ratio = machine.ratio if machine and machine.taskmanager == suspect.taskmanager else None
        numbers = {} if ratio is None else {"time-per-record-ratio": ratio}
        collects = case.collecting.get(suspect.taskmanager)
        if collects is not None:
            return Diagnosis(
                "garbage-collection", numbers=numbers | {"gc-share": collects.share}, rank=0
            )
        return Diagnosis("slow-taskmanager", numbers=numbers)
    if suspect.kind == "task":
        return _of_a_task(case, suspect)
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    part = Part(case, key)
    half = None
    for rank, question in enumerate(QUESTIONS):
        found = question(part)
        if found is not None and found.cause is not None:
            return replace(found, rank=rank)
        half = half or (found.half if found is not None else None)
    waits = part.shape is Shape.STUCK_BARRIER or case.awaited(key)
    return Diagnosis(None, half or ("barrier" if waits else None))


class Part:
    """A subtask and what is known of it."""

    def __init__(self, case: Case, key: SubtaskKey) -> None:
        """Look it up."""
        self.case = case
        self.key = key
        self.load: Load | None = case.loads.get(key)
        self.members = case.members(key.task)
        self.size = case.size(key.task)
        self.shape = shape_of(case, key)
        self.awaited = case.awaited(key)
        self.ratio = None if self.load is None else skew(case, self.load)

    @property
    def skewed(self) -> bool:
        """Whether it gets at least twice its siblings' data."""
        return self.ratio is not None and self.ratio >= SKEWED


def _measured_snapshot(part: Part) -> Diagnosis | None:
    """A part of its snapshot lasted for half of the timeout."""
    slow = part.case.slow_parts.get(part.key)
    return None if slow is None else Diagnosis(f"slow-{slow.part}-snapshot", slow.part)


def _cut_off_snapshot(part: Part) -> Diagnosis | None:
    """Its asynchronous part was running when the checkpoint was aborted.

    Where back pressure ends, the asynchronous part of an unaligned checkpoint waits for barriers, and
    logs do not say whether it was one.
    """
    cut = part.case.happened_to(part.key, part.case.cut_off)
    if not part.awaited and any(at_the_abort(part.case, incident) for incident in cut):
        return Diagnosis("slow-async-snapshot", "async")
    return None


def _late_alone(part: Part) -> Diagnosis | None:
    """It is late and those behind it are not: its snapshot is slow, and busy time says which half."""
    if part.shape is Shape.ONE_LATE and (part.load is None or part.awaited):
        return None
    if part.shape not in (Shape.SLOW_SNAPSHOT, Shape.ONE_LATE):
        return None
    load = part.load
    if load is None:
        return Diagnosis(None, "snapshot")
    if load.measured and load.busy is not None:
        if load.works and not part.skewed:
            return Diagnosis("slow-sync-snapshot", "sync")
        if load.busy <= IDLE:
            return Diagnosis("slow-async-snapshot", "async")
        return Diagnosis(None, "snapshot")
    return _half_by_queues(part, load)


def _half_by_queues(part: Part, load: Load) -> Diagnosis:
    """A synchronous part keeps the task from reading its input."""
    if load.queue is None or part.skewed:
        return Diagnosis(None, "snapshot")
    queue = queue_ratio(load, part.members)
    if queue is not None and queue >= QUEUE_TIMES:
        return Diagnosis(
            "slow-sync-snapshot", "sync", f"{queue:.1f} times the queue of its siblings"
        )
    before = part.case.topology.upstream.get(load.key.task, ())
    waiting = any(other.waits for other in part.case.loads.values() if other.key.task in before)
    if queue is None and not waiting:
        return Diagnosis("slow-async-snapshot", "async")
    return Diagnosis(None, "snapshot")


def _skew(part: Part) -> Diagnosis | None:
    """It gets at least twice its siblings' data and others wait, for it or for its barrier."""
    load, ratio = part.load, part.ratio
    if load is None or ratio is None or not part.skewed:
        return None
    if not part.case.at_end(part.key) and part.shape is not Shape.STUCK_BARRIER:
        return None
    by_records = records_ratio(load, part.members, part.size)
    what = "records" if ratio == by_records else "bytes"
    return Diagnosis(
        "data-skew", "barrier", f"{ratio:.1f} times the {what} of its siblings", degree=ratio
    )


def _collects(part: Part) -> Diagnosis | None:
    """Its TaskManager stands still to collect garbage."""
    collects = part.case.collecting.get(part.case.manager_of(part.key) or "")
    if collects is None:
        return None
    return Diagnosis(
        "garbage-collection",
        "barrier",
        f"its TaskManager spends {100 * collects.share:.0f}% of its time collecting garbage",
        {"gc-share": collects.share},
    )


def _busy_with_snapshots(part: Part) -> Diagnosis | None:
    """Its synchronous snapshots take up much of its time."""
    share = sync_share(part.case.job, part.key)
    if share is None or share < SNAPSHOT_SHARE:
        return None
    return Diagnosis("slow-sync-snapshot", "sync", numbers={"snapshot-share": share})


def _hang(part: Part) -> Diagnosis | None:
    """It is busy and takes in nothing."""
    if part.load is None or not stalled(part.load):
        return None
    return Diagnosis(
        "task-hangs",
        "barrier",
        "busy without taking in a single record",
        {"records": part.load.records or 0.0},
    )


def _dear(part: Part) -> Diagnosis | None:
    """A record costs it three times what it costs its siblings elsewhere.

    Totals over its life cannot tell a slow subtask from one that hangs.
    """
    if part.load is None or not part.case.at_end(part.key) or not part.load.sampled:
        return None
    cost = cost_ratio(part.load, part.members)
    if cost is None or cost < COSTLY:
        return None
    return Diagnosis(
        "slow-subtask",
        "barrier",
        f"{cost:.1f} times its siblings' time per record",
        {"time-per-record-ratio": cost},
    )


def _stuck(part: Part) -> Diagnosis | None:
    """It did not react to cancelling."""
    if part.case.happened_to(part.key, incidents(part.case.job, "task-stuck")):
        return Diagnosis("task-hangs", "barrier")
    return None


def _holds_lock(part: Part) -> Diagnosis | None:
    """A source that is first to acknowledge late, while nobody is busy or waits."""
    source = part.key.task in part.case.topology.sources
    if not source or part.shape is Shape.SLOW_SNAPSHOT or not nobody_works(part.case):
        return None
    return Diagnosis("checkpoint-lock-held", "barrier")


def _alone(part: Part) -> Diagnosis | None:
    """It is all that its task has."""
    if part.size == 1 and part.awaited:
        return Diagnosis("slow-operator", "barrier")
    return None


QUESTIONS: Final[tuple[Callable[[Part], Diagnosis | None], ...]] = (
    _measured_snapshot,
    _cut_off_snapshot,
    _late_alone,
    _skew,
    _collects,
    _busy_with_snapshots,
    _hang,
    _dear,
    _stuck,
    _holds_lock,
    _alone,
)
"""In the order in which they decide."""


def _of_a_task(case: Case, suspect: Suspect) -> Diagnosis:
    root = case.end_of(suspect.task)
    if root is None or not root.whole:
        return Diagnosis()
    share = sync_share(case.job, root.subtasks[0].key)
    if share is not None and share >= SNAPSHOT_SHARE:
        return Diagnosis("slow-sync-snapshot", "sync", numbers={"snapshot-share": share})
    return Diagnosis("slow-operator", "barrier")


def shape_of(case: Case, key: SubtaskKey) -> Shape:
    """The shape most of a subtask's checkpoints have; reported acknowledgements before messages."""
    for readings in (case.reported, case.late):
        shapes = Counter(reading.shape for reading in readings if key in reading.laggards)
        if shapes[Shape.SLOW_SNAPSHOT] or shapes[Shape.STUCK_BARRIER]:
            slow, stuck = shapes[Shape.SLOW_SNAPSHOT], shapes[Shape.STUCK_BARRIER]
            if slow != stuck:
                return Shape.SLOW_SNAPSHOT if slow > stuck else Shape.STUCK_BARRIER
        if shapes[Shape.ONE_LATE]:
            return Shape.ONE_LATE
    return Shape.UNKNOWN


def measured(case: Case, suspect: Suspect) -> dict[str, float]:
    """What is known of a suspect in numbers, whatever they say; of several, of the busiest."""
    load = case.worst_of(suspect)
    if load is None:
        return {}
    members, size = case.members(load.key.task), case.size(load.key.task)
    alone = suspect.kind == "subtask"
    known = {
        "busy": load.busy if load.measured else None,
        "back-pressured": load.pressed if load.wait_measured else None,
        "input-buffers-in-use": load.buffers if case.end is not None else None,
        "records-ratio": records_ratio(load, members, size) if alone else None,
        "bytes-ratio": bytes_ratio(load, members, size) if alone else None,
        "queue-ratio": queue_ratio(load, members) if alone else None,
    }
    return {name: value for name, value in known.items() if value is not None}
