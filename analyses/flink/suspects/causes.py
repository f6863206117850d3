"""Finds the cause of a culprit's trouble by asking questions in a fixed order. The first answer decides.

`QUESTIONS` defines the order. A subtask's own snapshot measurements come first because they are proof. Next
come signs that only a slow snapshot explains. Skewed data precedes the rest, because a subtask with a hot
key also blocks barriers, hangs or seems slow. Garbage collection follows, because it slows everything on its
TaskManager. Last come missing input and expensive records. Without evidence for a particular cause,
the cause stays None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from flowdiag.analyses.flink.failures.episodes import incidents
from flowdiag.analyses.flink.suspects.acknowledgements import Shape
from flowdiag.analyses.flink.suspects.case import Case, Suspect, is_running_at_abort, sync_share
from flowdiag.analyses.flink.suspects.load_signals import HALF_FULL, all_idle, skew
from flowdiag.analyses.flink.suspects.snapshot_signals import SNAPSHOT_SHARE
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import (
    COSTLY,
    IDLE,
    QUEUE_TIMES,
    SKEWED,
    Load,
    cost_ratio,
    is_stalled,
    queue_ratio,
)
from flowdiag.analyses.stacks import ALL_CODE_CAUSES

CULPRIT_CAUSES: Final = (
    "data-skew",
    "slow-subtask",
    "slow-operator",
    "slow-taskmanager",
    "task-hangs",
    "slow-sync-snapshot",
    "slow-async-snapshot",
    "garbage-collection",
    "checkpoint-lock-held",
    *ALL_CODE_CAUSES,
)
"""Every cause that a culprit can have."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause that makes a suspect slow.

    Args:
        cause: a word from `CAUSES`; None if the input shows none.
        half: the slow part of a checkpoint: `barrier`, `sync`, `async`, `snapshot` or None.
        reason: the decisive number, formatted.
        numbers: decisive measurements, named as in `suspect_numbers`.
        rank: position of the decisive question in `QUESTIONS`.
        degree: how severe the fault is compared with other subtasks that have the same cause.
    """

    cause: str | None = None
    half: str | None = None
    reason: str | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    rank: int = 99
    degree: float = 0.0


def diagnose(case: Case, suspect: Suspect) -> Diagnosis:
    if suspect.kind == "taskmanager":
        slow = case.slow_taskmanager
        ratio = slow.ratio if slow and slow.taskmanager == suspect.taskmanager else None
        numbers = {} if ratio is None else {"time-per-record-ratio": ratio}
        collects = case.collecting.get(suspect.taskmanager)
        if collects is not None:
            return Diagnosis(
                "garbage-collection", numbers=numbers | {"gc-share": collects.share}, rank=0
            )
        return Diagnosis("slow-taskmanager", numbers=numbers)
    if suspect.kind == "task":
        return _diagnose_task(case, suspect)
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    subtask = SubtaskCase(case, key)
    half = None
    for rank, question in enumerate(QUESTIONS):
        found = question(subtask)
        if found is not None and found.cause is not None:
            return replace(found, rank=rank)
        half = half or (found.half if found is not None else None)
    waits = subtask.shape is Shape.STUCK_BARRIER or case.blocks_upstream(key)
    return Diagnosis(None, half or ("barrier" if waits else None))


class SubtaskCase:
    """A subtask and the facts that the questions need."""

    def __init__(self, case: Case, key: SubtaskKey) -> None:
        self.case = case
        self.key = key
        self.load: Load | None = case.loads.get(key)
        self.members = case.members(key.task)
        self.size = case.size(key.task)
        self.shape = shape_of(case, key)
        self.blocks_upstream = case.blocks_upstream(key)
        self.ratio = None if self.load is None else skew(case, self.load)

    @property
    def is_skewed(self) -> bool:
        """Whether the subtask receives at least twice its siblings' data."""
        return self.ratio is not None and self.ratio >= SKEWED

    @property
    def is_hanging(self) -> bool:
        """Whether a late subtask of a job with a single task took quick snapshots before.

        Without a task downstream, no acknowledgement shows whether the subtask has passed the barrier.
        """
        share = sync_share(self.case.job, self.key)
        return len(self.case.topology.tasks) == 1 and share is not None and share < SNAPSHOT_SHARE


def _slow_snapshot(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether a part of the subtask's snapshot took up half the timeout."""
    slow = subtask.case.slow_parts.get(subtask.key)
    return None if slow is None else Diagnosis(f"slow-{slow.part}-snapshot", slow.part)


def _aborted_snapshot(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether the asynchronous part was running when the checkpoint was aborted.

    At an origin of back pressure, the asynchronous part of an unaligned checkpoint waits for barriers, and
    logs do not show whether the checkpoint was unaligned.
    """
    cut = subtask.case.incidents_of(subtask.key, subtask.case.aborted_parts)
    if not subtask.blocks_upstream and any(
        is_running_at_abort(subtask.case, incident) for incident in cut
    ):
        return Diagnosis("slow-async-snapshot", "async")
    return None


def _only_one_late(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether only the subtask is late, not its downstream tasks. Busy time then shows which half is slow."""
    if subtask.shape is Shape.ONE_LATE and (subtask.load is None or subtask.blocks_upstream):
        return None
    if subtask.shape not in (Shape.SLOW_SNAPSHOT, Shape.ONE_LATE):
        return None
    load = subtask.load
    if load is None:
        return Diagnosis(None, "snapshot")
    if load.measured and load.busy is not None:
        if load.is_working and not subtask.is_skewed and subtask.is_hanging:
            return Diagnosis(
                "task-hangs",
                "barrier",
                "busy all the time without taking a snapshot, although its earlier snapshots were quick",
            )
        if load.is_working and not subtask.is_skewed:
            return Diagnosis("slow-sync-snapshot", "sync")
        if load.busy <= IDLE:
            return Diagnosis("slow-async-snapshot", "async")
        return Diagnosis(None, "snapshot")
    return _half_by_queues(subtask, load)


def _half_by_queues(subtask: SubtaskCase, load: Load) -> Diagnosis:
    """Infer the slow half from input queues. During its synchronous part, a task reads no input."""
    if load.queue is None or subtask.is_skewed:
        return Diagnosis(None, "snapshot")
    queue = queue_ratio(load, subtask.members)
    if queue is not None and queue >= QUEUE_TIMES:
        return Diagnosis(
            "slow-sync-snapshot", "sync", f"{queue:.1f} times the queue of its siblings"
        )
    before = subtask.case.topology.upstream.get(load.key.task, ())
    waiting = any(other.waits for other in subtask.case.loads.values() if other.key.task in before)
    if queue is None and not waiting:
        return Diagnosis("slow-async-snapshot", "async")
    return Diagnosis(None, "snapshot")


def _skewed_data(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether the subtask gets at least twice its siblings' data and other tasks wait for it."""
    load, ratio = subtask.load, subtask.ratio
    if load is None or ratio is None or not subtask.is_skewed:
        return None
    if not subtask.case.at_end(subtask.key) and subtask.shape is not Shape.STUCK_BARRIER:
        return None
    share = subtask.case.data_share(load)
    return Diagnosis("data-skew", "barrier", share.text, degree=ratio)


def _collects_garbage(subtask: SubtaskCase) -> Diagnosis | None:
    collects = subtask.case.collecting.get(subtask.case.manager_of(subtask.key) or "")
    if collects is None:
        return None
    return Diagnosis(
        "garbage-collection",
        "barrier",
        f"its TaskManager spends {100 * collects.share:.0f}% of its time collecting garbage",
        {"gc-share": collects.share},
    )


def _busy_with_snapshots(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether synchronous snapshots take up much of the subtask's time."""
    share = sync_share(subtask.case.job, subtask.key)
    if share is None or share < SNAPSHOT_SHARE:
        return None
    return Diagnosis("slow-sync-snapshot", "sync", numbers={"snapshot-share": share})


def _hangs(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether the subtask is busy but receives no records."""
    if subtask.load is None or not is_stalled(subtask.load):
        return None
    return Diagnosis(
        "task-hangs",
        "barrier",
        "busy although it receives no records",
        {"records": subtask.load.records or 0.0},
    )


def _expensive_records(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether the subtask needs three times as long per record as its siblings on other TaskManagers.

    Totals since the start do not distinguish a slow subtask from one that hangs.
    """
    if subtask.load is None or not subtask.case.at_end(subtask.key) or not subtask.load.is_sampled:
        return None
    cost = cost_ratio(subtask.load, subtask.members)
    if cost is None or cost < COSTLY:
        return None
    return Diagnosis(
        "slow-subtask",
        "barrier",
        f"{cost:.1f} times its siblings' time per record",
        {"time-per-record-ratio": cost},
    )


def _ignores_cancellation(subtask: SubtaskCase) -> Diagnosis | None:
    if subtask.case.incidents_of(subtask.key, incidents(subtask.case.job, "task-stuck")):
        return Diagnosis("task-hangs", "barrier")
    return None


def _holds_checkpoint_lock(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether a source is the first to acknowledge late although no task is busy or waits."""
    source = subtask.key.task in subtask.case.topology.sources
    if not source or subtask.shape is Shape.SLOW_SNAPSHOT or not all_idle(subtask.case):
        return None
    return Diagnosis("checkpoint-lock-held", "barrier")


def _single_subtask(subtask: SubtaskCase) -> Diagnosis | None:
    """Ask whether the subtask is the only one of its task."""
    load = subtask.load
    full = load is not None and load.is_working and (load.buffers or 0.0) >= HALF_FULL
    if subtask.size == 1 and (subtask.blocks_upstream or full):
        return Diagnosis("slow-operator", "barrier")
    return None


QUESTIONS: Final[tuple[Callable[[SubtaskCase], Diagnosis | None], ...]] = (
    _slow_snapshot,
    _aborted_snapshot,
    _only_one_late,
    _skewed_data,
    _collects_garbage,
    _busy_with_snapshots,
    _hangs,
    _expensive_records,
    _ignores_cancellation,
    _holds_checkpoint_lock,
    _single_subtask,
)
"""The questions in order. The first question with an answer decides."""


def _diagnose_task(case: Case, suspect: Suspect) -> Diagnosis:
    root = case.end_of(suspect.task)
    if root is None or not root.whole:
        return Diagnosis()
    share = sync_share(case.job, root.subtasks[0].key)
    if share is not None and share >= SNAPSHOT_SHARE:
        return Diagnosis("slow-sync-snapshot", "sync", numbers={"snapshot-share": share})
    if len(case.topology.tasks) == 1 and all(map(is_stalled, root.subtasks)):
        return Diagnosis("task-hangs", "barrier", "busy although it emits no records")
    return Diagnosis("slow-operator", "barrier")


def shape_of(case: Case, key: SubtaskKey) -> Shape:
    """Return the shape that most checkpoints of a subtask have. Acknowledgements count more than late messages."""
    for readings in (case.reported, case.late):
        shapes = Counter(reading.shape for reading in readings if key in reading.laggards)
        if shapes[Shape.SLOW_SNAPSHOT] or shapes[Shape.STUCK_BARRIER]:
            slow, stuck = shapes[Shape.SLOW_SNAPSHOT], shapes[Shape.STUCK_BARRIER]
            if slow != stuck:
                return Shape.SLOW_SNAPSHOT if slow > stuck else Shape.STUCK_BARRIER
        if shapes[Shape.ONE_LATE]:
            return Shape.ONE_LATE
    return Shape.UNKNOWN


def suspect_numbers(case: Case, suspect: Suspect) -> dict[str, float]:
    """Return all measurements of a suspect. For a task or TaskManager, these are those of its busiest subtask."""
    load = case.worst_of(suspect)
    if load is None:
        return {}
    alone = suspect.kind == "subtask"
    share = case.data_share(load) if alone else None
    known = {
        "busy": load.busy if load.measured else None,
        "back-pressured": load.back_pressured if load.wait_measured else None,
        "input-buffers-in-use": load.buffers if case.end is not None else None,
        "records-ratio": share.records if share is not None else None,
        "bytes-ratio": share.bytes if share is not None else None,
        "queue-ratio": queue_ratio(load, case.members(load.key.task)) if alone else None,
    }
    return {name: value for name, value in known.items() if value is not None}
