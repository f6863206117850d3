"""A TaskManager spends much of its time collecting garbage.

What it reports
---------------
The TaskManager, the share of its time that went into collections, and how full its heap is.

Why it matters
--------------
While the collector works the tasks stand still: the subtasks there are slow at everything.

How it decides
--------------
The growth of the collectors' times over the time between the samples: `share` and more, on `samples` at least.
A warning where tasks wait, or from `heavy` on.

What to do
----------
More heap, less state on it, or fewer slots; look for what allocates.

False alarms
------------
Concurrent collectors count time in which tasks run on.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.queues.data import gc_share
from flowdiag.analyses.queues.helpers import (
    GC_TIME,
    Confidence,
    Finding,
    Iterator,
    JobQueues,
    Limits,
    Measurement,
    Rank,
    Rule,
    Severity,
    fmt,
    joined,
    limit,
    measured,
    of_taskmanager,
    place_of,
    records_of,
    remedies,
    tasks_wait,
)


class Collecting(Limits):
    """What SK104 compares with."""

    share: float = limit(0.2, "share", "of the time; a few per cent are usual")
    heavy: float = limit(0.4, "share", "of the time: worth a warning whoever waits")
    samples: float = limit(5, "samples", "single ones are racy")


def judge(job: JobQueues, limits: Collecting) -> Iterator[Finding]:
    """One finding per TaskManager."""
    for name, each in job.machines.items():
        share = gc_share(each)
        enough = sum(m.samples for m in each) >= limits.samples
        if share is not None and share >= limits.share and enough:
            yield _finding(job, name, share, limits)


def _finding(job: JobQueues, name: str, share: float, limits: Collecting) -> Finding:
    place = place_of(job, name)
    serious = share >= limits.heavy or tasks_wait(job)
    return of_taskmanager(
        job,
        name,
        severity=Severity.WARNING if serious else Severity.INFO,
        title=f"{place} spends {fmt.percent(share)} of its time collecting garbage",
        why=f"{place}: {fmt.percent(share)} of its time went into garbage collection",
        cause="garbage-collection",
        confidence=Confidence.MEDIUM,
        rank=Rank.BOTTLENECK_SIGN,
        measurements=(
            measured("gc-share", round(share, 4), "share", limits.share),
            *_heap(job, name),
        ),
        evidence=records_of(job.machines[name], GC_TIME),
        actions=remedies("garbage-collection", job.job, "heap"),
    )


def _heap(job: JobQueues, name: str) -> Iterator[Measurement]:
    used = joined(m.gauges.get("heap_used") for m in job.machines[name])
    most = joined(m.gauges.get("heap_max") for m in job.machines[name])
    if used and most and most.mean > 0:
        share = round(used.mean / most.mean, 4)
        yield measured("heap-used", share, "share", over="of the largest heap, mean")


RULE: Final = Rule("SK104", judge, Collecting, causes=("garbage-collection",))
