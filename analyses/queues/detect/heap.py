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
        lost: the TaskManager that was lost afterwards with a full heap, and the share of its heap in use; or None.
    """

    sized: list[h.Checkpoint]
    free: float
    rate: float
    duration_s: float
    left_s: float
    lost: tuple[str, float] | None


def heap_growth(
    job: h.JobQueues,
    *,
    checkpoints: float,
    before_loss: float,
    full: float,
    factor: float,
    tau: float,
    straight: float,
) -> HeapGrowth | None:
    """Return the growth of state on the heap, or None if it does not grow steadily.

    Args:
        job: the job and its metrics.
        checkpoints: minimum number of checkpoints.
        before_loss: the same if a TaskManager was lost afterwards with at least `full` of its heap in use.
        full: see `before_loss`.
        factor, tau, straight: how the sizes grow.
    """
    if h.backend(job.job) != "heap":
        return None
    sized = _sized_checkpoints(job)
    sizes = [float(c.bytes or 0) for c in sized]
    free = _free_heap(job)
    if len(sizes) < max(2, min(before_loss, checkpoints)):
        return None
    lost = _lost_with_full_heap(job, sized[-1].ended_us or 0, full)
    if (lost is None and len(sizes) < checkpoints) or free is None or sizes[-1] < factor * sizes[0]:
        return None
    if kendall(sizes) < tau or not is_straight(sizes, straight):
        return None
    duration_s = max(1.0, ((sized[-1].ended_us or 0) - (sized[0].ended_us or 0)) / 1e6)
    rate = (sizes[-1] - sizes[0]) / duration_s
    return HeapGrowth(sized, free, rate, duration_s, free / rate, lost)


def _sized_checkpoints(job: h.JobQueues) -> list[h.Checkpoint]:
    """Return the completed checkpoints with a size since the last start."""
    stretches = h.steady_checkpoints(job.job, 0)
    return [c for c in (stretches[-1] if stretches else ()) if c.bytes and c.ended_us]


def _lost_with_full_heap(job: h.JobQueues, since_us: int, full: float) -> tuple[str, float] | None:
    """Return the first TaskManager that was lost after its last report, in which its heap was full."""
    for incident in job.job.incidents:
        reports = job.taskmanagers.get(incident.taskmanager or "", ())
        lost_us = incident.time_us or 0
        if incident.kind == "taskmanager-lost" and lost_us >= since_us:
            share = _last_heap_usage(reports, lost_us)
            if share is not None and share >= full:
                return incident.taskmanager or "", share
    return None


def _last_heap_usage(reports: h.Sequence[h.TaskManagerSample], before_us: int) -> float | None:
    """Return the largest share of the heap in use in the last minute, if all reports are from before a time."""
    if not reports or (reports[-1].last_us or 0) > before_us:
        return None
    used, most = (reports[-1].gauges.get(name) for name in ("heap_used", "heap_max"))
    return used.high / most.high if used and most and most.high > 0 else None


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
