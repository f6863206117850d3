"""State multiplies when a job is rescaled or restored, because each subtask stores a copy.

What it reports
---------------
Tasks whose total state grew in a restore although no records were added. Broadcast state grows to its size
times the new parallelism. A union list grows to its whole former size times the parallelism.

Why it matters
--------------
Broadcast state is stored once per subtask, so a higher parallelism needs more memory and larger checkpoints. A union
list passes all elements to each subtask. If the subtasks keep them all, the state multiplies with every restart until
the heap is full.

How it decides
--------------
The rule compares the last checkpoint before a change of the task with the first one after it. Each subtask must have
the same size, within `size-difference`. For a union list, this size is the former size of all subtasks together. For
broadcast state, it is the former size of one subtask, and the parallelism has risen. The whole state must grow by at
least `min-growth`. Sizes of subtasks are in REST responses, in the job's archive and in DEBUG logs.

False alarms
------------
Keyed state keeps its total size. A task with keyed state that is larger than its broadcast state is not recognized.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from flowdiag.analyses.flink.job import SubtaskCheckpoint
from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    size_difference: float = h.limit(
        0.05, "share", "maximum size difference between subtasks; copies differ only in metadata"
    )
    min_growth: float = h.limit(
        8_388_608.0, "bytes", "minimum growth of the state; smaller lists restore in seconds"
    )


class MultipliedState(NamedTuple):
    """The reports on a task from the last checkpoint before the change and the first after it."""

    task: str
    before: Sequence[SubtaskCheckpoint]
    after: Sequence[SubtaskCheckpoint]
    is_union: bool


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task, about its largest growth."""
    found: dict[str, MultipliedState] = {}
    for one in _multiplied(job, limits):
        if one.task not in found or _total(one.after) > _total(found[one.task].after):
            found[one.task] = one
    for one in found.values():
        yield _finding(job, one, limits)


def _multiplied(job: h.JobQueues, limits: Limits) -> h.Iterator[MultipliedState]:
    tasks: dict[str, dict[int, list[SubtaskCheckpoint]]] = defaultdict(lambda: defaultdict(list))
    for row in job.job.subtask_checkpoints:
        if row.task is not None and row.acknowledged and row.bytes is not None:
            tasks[row.task][row.checkpoint].append(row)
    for task, checkpoints in tasks.items():
        for (_, before), (_, after) in pairwise(sorted(checkpoints.items())):
            if _total(after) - _total(before) < limits.min_growth or not _is_even(
                after, limits.size_difference
            ):
                continue
            each = _total(after) / len(after)
            is_union = len(before) > 1 and _is_close(each, _total(before), limits.size_difference)
            is_broadcast = (
                len(after) > len(before)
                and _is_even(before, limits.size_difference)
                and _is_close(each, _total(before) / len(before), limits.size_difference)
            )
            if is_union or is_broadcast:
                yield MultipliedState(task, before, after, is_union)


def _total(rows: Sequence[SubtaskCheckpoint]) -> int:
    return sum(row.bytes or 0 for row in rows)


def _is_even(rows: Sequence[SubtaskCheckpoint], share: float) -> bool:
    mean = _total(rows) / len(rows)
    return len(rows) > 1 and all(_is_close(row.bytes or 0, mean, share) for row in rows)


def _is_close(size: float, other: float, share: float) -> bool:
    return abs(size - other) <= share * other


def _finding(job: h.JobQueues, one: MultipliedState, limits: Limits) -> h.Finding:
    before, after = _total(one.before), _total(one.after)
    each = h.fmt.size(after / len(one.after))
    text = (
        f"The state of {h.fmt.shorten(one.task)} grew from {h.fmt.size(before)} to {h.fmt.size(after)}, because each of "
        f"{len(one.after)} subtasks stores {'the whole list' if one.is_union else 'a copy'} of {each}"
    )
    rows = {row.checkpoint: row for row in (*one.before, *one.after)}
    times = {c.id: c.ended_us for c in job.job.checkpoints if c.id in rows}
    return h.task_finding(
        job,
        one.task,
        severity=h.Severity.WARNING if one.is_union else h.Severity.INFO,
        title=text,
        why=text,
        cause="multiplied-state",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=times.get(one.after[0].checkpoint),
        last_us=max((c.ended_us or 0 for c in job.job.checkpoints), default=None),
        measurements=(
            h.measurement("state-before", before, "bytes", over=f"{len(one.before)} subtasks"),
            h.measurement("state-after", after, "bytes", over=f"{len(one.after)} subtasks"),
            h.measurement("growth", after - before, "bytes", limits.min_growth),
        ),
        evidence=h.cite((row.cited, None) for row in rows.values()),
        actions=h.remedies("multiplied-state", job.job, "own" if one.is_union else "smaller"),
    )


RULE = h.Rule("IO308", judge, Limits, causes=("multiplied-state",), needs="records")
