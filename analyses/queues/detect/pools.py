"""The usage of the buffer pools of senders and receivers."""

from __future__ import annotations

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.loads import FILLED


def pool_usage(job: h.JobQueues, load: h.Load, windows: list[int], pool: str) -> tuple[float, int]:
    """Return the mean usage of a pool and the number of its samples."""
    gauge = h.merged_gauge(h.samples_in(job, windows).get(load.key, ()), pool)
    return (gauge.mean, gauge.n) if gauge is not None else (-1.0, 0)


def full_senders(
    job: h.JobQueues, loads: h.Sequence[h.Load], windows: list[int], full: float
) -> list[h.Load]:
    """Return the subtasks that wait with full output buffers."""
    waiting = [load for load in loads if load.waits and load.wait_measured]
    return [load for load in waiting if pool_usage(job, load, windows, "out_pool")[0] >= full]


def is_free(
    job: h.JobQueues, load: h.Load, windows: list[int], *, empty: float, busy: float, samples: float
) -> bool:
    """Return whether a receiver with remote channels has buffers and time to spare."""
    capacity = job.capacity.get(load.key)
    if capacity is None or not capacity.remote or load.waits or not load.measured:
        return False
    share, number = pool_usage(job, load, windows, "in_pool")
    idle = load.busy is not None and load.busy < busy
    if load.queue is not None and load.queue >= FILLED * capacity.total:
        return False  # its data has arrived, so it waits for a barrier on another channel
    return idle and number >= samples and 0 <= share < empty
