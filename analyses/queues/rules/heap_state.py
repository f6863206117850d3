"""State on the heap grows and fills it.

What it reports
---------------
A job whose state on the heap grows steadily, if the free heap of its TaskManagers lasts only for a short time. The finding
shows the growth per hour, and the time by which the heap is full at the latest.

Why it matters
--------------
A full heap means minutes of garbage collection, then an OutOfMemoryError, and a restart with the same state.

How it decides
--------------
The rule needs the heap state backend, and at least `checkpoints` completed checkpoints since the last start or restore.
Their sizes must grow at least `factor`-fold, with a rank correlation with time (Kendall's tau) of at least `tau`. The growth
in the second half must be at least `straight` of that in the first half. State that fills up after a start and levels off
does not count.

The growth divides the free heap: the maximum of each TaskManager minus the lowest use in its last minute. Objects on
the heap are larger than their serialized form, so the heap is full by then at the latest. The rule never looks further
ahead than `ahead` times the length of the input.

What to do
----------
Find out which state never ends: keys without a time-to-live, windows that never close, joins without bounds. State
that has to be this large belongs into RocksDB.

False alarms
------------
A job that just started with a known set of keys grows until all of them have been seen.
"""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.flink.trends import is_straight, kendall
from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    checkpoints: float = h.limit(10, "checkpoints", "with fewer points, half of them is no trend")
    factor: float = h.limit(1.5, "ratio", "smaller growth is the noise of a changing load")
    tau: float = h.limit(
        0.8, "ratio", "at 0.8, nine of ten pairs of checkpoints are in rising order"
    )
    straight: float = h.limit(
        0.7, "ratio", "1 for a straight line; keys drawn from a fixed set soon fall below"
    )
    ahead: float = h.limit(10, "ratio", "a trend holds for some times its length, not forever")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    if h.backend(job.job) != "heap":
        return
    stretches = h.steady_checkpoints(job.job, 0)
    sized = [c for c in (stretches[-1] if stretches else ()) if c.bytes and c.ended_us]
    sizes = [float(c.bytes or 0) for c in sized]
    free = _free_heap(job)
    if len(sizes) < max(2, limits.checkpoints) or free is None or not _grows(sizes, limits):
        return
    begun, ended = sized[0].ended_us or 0, sized[-1].ended_us or 0
    lasted_s = max(1.0, (ended - begun) / 1e6)
    rate = (sizes[-1] - sizes[0]) / lasted_s
    left_s = free / rate
    if left_s <= limits.ahead * lasted_s:
        numbers = (
            h.measurement(
                "growth", round(rate * 3600), "bytes/h", over=f"of {len(sizes)} checkpoints"
            ),
            h.measurement("free-heap", round(free), "bytes", over="of its TaskManagers"),
            h.measurement("full-within", round(left_s), "s", round(limits.ahead * lasted_s)),
            h.measurement("full-by", h.fmt.moment(ended + left_s * 1e6)),
        )
        yield _finding(job, sized, numbers, rate, left_s)


def _grows(sizes: list[float], limits: Limits) -> bool:
    return (
        sizes[-1] >= limits.factor * sizes[0]
        and kendall(sizes) >= limits.tau
        and is_straight(sizes, limits.straight)
    )


def _finding(
    job: h.JobQueues,
    sized: list[h.Checkpoint],
    numbers: tuple[h.Measurement, ...],
    rate: float,
    left_s: float,
) -> h.Finding:
    task = _largest(job)
    owner = f"the state of {h.fmt.shorten(task)}" if task is not None else "state"
    text = (
        f"{h.fmt.capital(owner)} on the heap grows by {h.fmt.size(rate * 3600)} per hour and fills the heap within "
        f"{h.fmt.duration(left_s * 1000)}"
    )
    return h.job_finding(
        job,
        subject=h.task_subject(job, task) if task is not None else None,
        severity=h.Severity.WARNING,
        title=text,
        why=text,
        cause="state-fills-heap",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        first_us=sized[0].ended_us,
        last_us=sized[-1].ended_us,
        count=len(sized),
        measurements=numbers,
        evidence=h.cite((c.end_ref, c.ended_us) for c in (sized[0], sized[-1])),
        actions=h.remedies("state-fills-heap", job.job),
    )


def _free_heap(job: h.JobQueues) -> float | None:
    """Return the free heap of the TaskManagers in their last minute; None if one is unknown."""
    free = 0.0
    for reports in job.machines.values():
        used, most = (reports[-1].gauges.get(name) for name in ("heap_used", "heap_max"))
        if used is None or most is None:
            return None
        free += max(0.0, most.high - used.low)
    return free if job.machines else None


def _largest(job: h.JobQueues) -> str | None:
    """Return the task with most of the state in the last checkpoint whose subtasks are known."""
    sizes: dict[str, int] = defaultdict(int)
    newest = max((report.checkpoint for report in job.job.subtask_checkpoints), default=None)
    for report in job.job.subtask_checkpoints:
        if report.checkpoint == newest and report.task is not None:
            sizes[report.task] += report.bytes or 0
    total, most = sum(sizes.values()), max(sizes, key=lambda task: sizes[task], default=None)
    return most if most is not None and sizes[most] > total / 2 else None


RULE = h.Rule("IO303", judge, Limits, causes=("state-fills-heap",))
