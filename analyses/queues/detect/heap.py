"""State on the heap that grows until the heap is full."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from flowdiag.analyses.flink.trends import is_straight, kendall
from flowdiag.analyses.queues import helpers as h


class HeapGrowth(NamedTuple):
    """How state on the heap grows.

    Args:
        sized: completed checkpoints with a size, in order.
        free: free heap in bytes.
        rate: growth in bytes per second.
        duration_s: time from the first to the last checkpoint.
        left_s: time until the heap is full.
    """

    sized: list[h.Checkpoint]
    free: float
    rate: float
    duration_s: float
    left_s: float


def heap_growth(
    job: h.JobQueues, *, checkpoints: float, factor: float, tau: float, straight: float
) -> HeapGrowth | None:
    """Return the growth of state on the heap, or None if it does not grow steadily."""
    if h.backend(job.job) != "heap":
        return None
    stretches = h.steady_checkpoints(job.job, 0)
    sized = [c for c in (stretches[-1] if stretches else ()) if c.bytes and c.ended_us]
    sizes = [float(c.bytes or 0) for c in sized]
    free = _free_heap(job)
    if len(sizes) < max(2, checkpoints) or free is None or sizes[-1] < factor * sizes[0]:
        return None
    if kendall(sizes) < tau or not is_straight(sizes, straight):
        return None
    duration_s = max(1.0, ((sized[-1].ended_us or 0) - (sized[0].ended_us or 0)) / 1e6)
    rate = (sizes[-1] - sizes[0]) / duration_s
    return HeapGrowth(sized, free, rate, duration_s, free / rate)


def _free_heap(job: h.JobQueues) -> float | None:
    """Return the free heap of the TaskManagers in their last minute, or None if one is unknown."""
    free = 0.0
    for reports in job.taskmanagers.values():
        used, most = (reports[-1].gauges.get(name) for name in ("heap_used", "heap_max"))
        if used is None or most is None:
            return None
        free += max(0.0, most.high - used.low)
    return free if job.taskmanagers else None


def largest_state(job: h.JobQueues) -> str | None:
    """Return the task with most of the state in the last checkpoint whose subtasks are known."""
    sizes: dict[str, int] = defaultdict(int)
    newest = max((report.checkpoint for report in job.job.subtask_checkpoints), default=None)
    for report in job.job.subtask_checkpoints:
        if report.checkpoint == newest and report.task is not None:
            sizes[report.task] += report.bytes or 0
    total, most = sum(sizes.values()), max(sizes, key=lambda task: sizes[task], default=None)
    return most if most is not None and sizes[most] > total / 2 else None
