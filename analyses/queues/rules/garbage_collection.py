"""A TaskManager spends much of its time in garbage collection.

What it reports
---------------
A TaskManager that spends much of its time in garbage collection, with the share of time and the heap usage.

Why it matters
--------------
Tasks pause during garbage collection, so every subtask on this TaskManager is slow.

How it decides
--------------
flowdiag divides the increase of the collection time by the time between samples. The share must be at least
`share`, over at least `duration` and `samples` samples. The finding is a warning if tasks wait, if the share is at
least `warning-share`, or if on average at least `heap-usage` of the heap is in use. Otherwise, it is a note.

What to do
----------
Add heap, move state off the heap, or use fewer slots. Find the code that allocates the most memory.

False alarms
------------
The times of concurrent collectors include time during which tasks continue to run.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.data import gc_share


class Limits(h.Limits):
    share: float = h.limit(
        0.2, "share", "minimum share of time in garbage collection; a few percent are normal"
    )
    warning_share: float = h.limit(
        0.4, "share", "minimum share of time in garbage collection for a warning if no task waits"
    )
    heap_usage: float = h.limit(
        0.85, "share", "minimum share of the heap in use; above it, collections free little memory"
    )
    samples: float = h.limit(
        2, "samples", "minimum number of samples; a single sample shows no increase"
    )
    duration: float = h.limit(
        20, "s", "minimum period; a single collection can fill a shorter period"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per TaskManager."""
    for name, reports in job.taskmanagers.items():
        share = gc_share(reports)
        if share is None or share < limits.share:
            continue
        samples = sum(report.samples for report in reports)
        seconds = sum(report.span_ms or 0.0 for report in reports) / 1000
        if samples < limits.samples or seconds < limits.duration:
            continue
        place, percent = h.place_of(job, name), h.fmt.percent(share)
        used = _heap_used(reports)
        full = used is not None and used >= limits.heap_usage
        serious = share >= limits.warning_share or full or h.tasks_wait(job)
        heap = f", and its heap is {h.fmt.percent(used)} full" if used is not None and full else ""
        yield h.taskmanager_finding(
            job,
            name,
            severity=h.Severity.WARNING if serious else h.Severity.INFO,
            title=f"{place} spends {percent} of its time in garbage collection{heap}",
            why=f"{place}: {percent} of its time is spent in garbage collection{heap}",
            cause="garbage-collection",
            confidence=h.Confidence.MEDIUM,
            rank=h.Rank.BOTTLENECK_SIGN,
            measurements=(
                h.measurement("gc-share", round(share, 4), "share", limits.share),
                *_heap(used),
            ),
            evidence=h.records_of(reports, h.GC_TIME),
            actions=h.remedies("garbage-collection", job.job, "heap"),
        )


def _heap(used: float | None) -> h.Iterator[h.Measurement]:
    if used is not None:
        yield h.measurement("heap-used", round(used, 4), "share", over="of the largest heap, mean")


def _heap_used(reports: h.Sequence[h.TaskManagerSample]) -> float | None:
    """Return the mean share of the heap in use, or None if unknown."""
    used = h.merged_gauge(reports, "heap_used")
    most = h.merged_gauge(reports, "heap_max")
    return used.mean / most.mean if used and most and most.mean > 0 else None


RULE = h.Rule("SK104", judge, Limits, causes=("garbage-collection",), needs="jvm")
