"""Compares the slowest task of each start with the other tasks of the same start."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from flowdiag.analyses.flink.failures.silences import logged_until
from flowdiag.analyses.startup import helpers as h


class SlowestTask(NamedTuple):
    """The slowest task of a start, and the times of the other tasks in milliseconds."""

    took: int
    task: h.TaskTimes
    start: h.Start
    others: list[int]
    siblings: list[int]

    @property
    def median_ms(self) -> float:
        return median(self.others or [0])

    def is_far_above(self, others: list[int], ratio: float) -> bool:
        return self.took >= ratio * max(median(others or [0]), 1.0)


def _slowest_of(job: h.JobStarting, start: h.Start) -> SlowestTask | None:
    """Return the slowest task of a start. A task that is still INITIALIZING counts until the end of the input."""
    found: list[tuple[int, h.TaskTimes]] = []
    for task in start.tasks:
        begun = task.initializing_us
        end = task.running_us or task.ended_us or start.ended_us or job.job.last_us
        failed = task.running_us is None and task.end_state in ("CANCELED", "FAILED")
        if begun is None or end is None or failed:
            continue  # it was canceled or failed, so its time is incomplete
        if task.running_us is None and task.ended_us is None:
            end = logged_until(job.cluster.common, task.taskmanager, begun, end)
        found.append((max(0, end - begun) // 1000, task))
    if not found:
        return None
    took, worst = max(found, key=lambda pair: pair[0])
    found.remove((took, worst))
    siblings = [ms for ms, task in found if task.task == worst.task]
    return SlowestTask(took, worst, start, [ms for ms, _ in found], siblings)


def slow_starts(job: h.JobStarting, slow_s: float) -> list[SlowestTask]:
    slowest = (_slowest_of(job, start) for start in job.starts)
    return [each for each in slowest if each is not None and each.took >= slow_s * 1000]


def read_ms(start: h.Start, task: h.TaskTimes) -> int | None:
    """Return how long the task's TaskManager read state in a start, or None if no log shows it."""
    until = task.running_us or start.ended_us
    there = [r for r in start.restores if None is not r.taskmanager == task.taskmanager]
    times = [ms for r in there if (ms := r.took_ms(until)) is not None]
    if not times and start.initialization is not None:
        return start.initialization.restored_ms
    return max(times, default=None)


def signals_of(
    worst: SlowestTask, slow: list[SlowestTask], name: str, read: int | None, ratio: float
) -> dict[str, str | None]:
    """Return the signals of ST301 that implicate the slowest subtask or its restore.

    Args:
        worst, slow: the slowest start and all slow ones.
        name: name of the subtask.
        read: how long its TaskManager read state, in milliseconds.
        ratio: minimum ratio to the median of the other tasks.
    """
    took, task, _, others, siblings = worst
    above = f"{h.fmt.duration(took)}, the median is {h.fmt.duration(worst.median_ms)}"
    same = (task.task, task.subtask_index)
    again = sum((each.task.task, each.task.subtask_index) == same for each in slow) > 1
    alone = siblings and worst.is_far_above(siblings, ratio)
    return {
        "far-above-the-others": above if worst.is_far_above(others, ratio) else None,
        "again": f"{name} in {len(slow)} starts" if again else None,
        "alone-in-its-vertex": f"its siblings take {h.fmt.duration(median(siblings))}"
        if alone
        else None,
        "restore-lines": f"state was read for {h.fmt.duration(read)} on {task.taskmanager}"
        if read is not None
        else None,
    }
