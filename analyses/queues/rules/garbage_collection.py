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
`share`, over at least `samples`. The finding is a warning if tasks wait, or if the share is at least
`heavy`. Otherwise, it is a note.

What to do
----------
Add heap, move state off the heap, or use fewer slots. Find the code that allocates most.

False alarms
------------
Concurrent collectors also count time during which tasks continue to run.
"""

from __future__ import annotations

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.data import gc_share


class Limits(h.Limits):
    share: float = h.limit(
        0.2, "share", "minimum share of time in garbage collection; a few percent is normal"
    )
    heavy: float = h.limit(0.4, "share", "share of time that is a warning even if no task waits")
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per TaskManager."""
    for name, reports in job.machines.items():
        share = gc_share(reports)
        if share is None or share < limits.share:
            continue
        if sum(report.samples for report in reports) < limits.samples:
            continue
        place, percent = h.place_of(job, name), h.fmt.percent(share)
        serious = share >= limits.heavy or h.tasks_wait(job)
        yield h.taskmanager_finding(
            job,
            name,
            severity=h.Severity.WARNING if serious else h.Severity.INFO,
            title=f"{place} spends {percent} of its time in garbage collection",
            why=f"{place}: {percent} of its time is spent in garbage collection",
            cause="garbage-collection",
            confidence=h.Confidence.MEDIUM,
            rank=h.Rank.BOTTLENECK_SIGN,
            measurements=(
                h.measurement("gc-share", round(share, 4), "share", limits.share),
                *_heap(reports),
            ),
            evidence=h.records_of(reports, h.GC_TIME),
            actions=h.remedies("garbage-collection", job.job, "heap"),
        )


def _heap(reports: h.Sequence[h.Machine]) -> h.Iterator[h.Measurement]:
    used = h.merged_gauge(reports, "heap_used")
    most = h.merged_gauge(reports, "heap_max")
    if used and most and most.mean > 0:
        share = round(used.mean / most.mean, 4)
        yield h.measurement("heap-used", share, "share", over="of the largest heap, mean")


RULE = h.Rule("SK104", judge, Limits, causes=("garbage-collection",))
