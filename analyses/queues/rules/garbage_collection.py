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

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.data import gc_share


class Collecting(h.Limits):
    """What SK104 compares with."""

    share: float = h.limit(0.2, "share", "of the time; a few per cent are usual")
    heavy: float = h.limit(0.4, "share", "of the time: worth a warning whoever waits")
    samples: float = h.limit(5, "samples", "single ones are racy")


def judge(job: h.JobQueues, limits: Collecting) -> h.Iterator[h.Finding]:
    """One finding per TaskManager."""
    for name, each in job.machines.items():
        share = gc_share(each)
        enough = sum(m.samples for m in each) >= limits.samples
        if share is not None and share >= limits.share and enough:
            yield _finding(job, name, share, limits)


def _finding(job: h.JobQueues, name: str, share: float, limits: Collecting) -> h.Finding:
    place = h.place_of(job, name)
    serious = share >= limits.heavy or h.tasks_wait(job)
    return h.taskmanager_finding(
        job,
        name,
        severity=h.Severity.WARNING if serious else h.Severity.INFO,
        title=f"{place} spends {h.fmt.percent(share)} of its time collecting garbage",
        why=f"{place}: {h.fmt.percent(share)} of its time went into garbage collection",
        cause="garbage-collection",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.BOTTLENECK_SIGN,
        measurements=(
            h.measurement("gc-share", round(share, 4), "share", limits.share),
            *_heap(job, name),
        ),
        evidence=h.records_of(job.machines[name], h.GC_TIME),
        actions=h.remedies("garbage-collection", job.job, "heap"),
    )


def _heap(job: h.JobQueues, name: str) -> h.Iterator[h.Measurement]:
    used = h.joined(m.gauges.get("heap_used") for m in job.machines[name])
    most = h.joined(m.gauges.get("heap_max") for m in job.machines[name])
    if used and most and most.mean > 0:
        share = round(used.mean / most.mean, 4)
        yield h.measurement("heap-used", share, "share", over="of the largest heap, mean")


RULE: Final = h.Rule("SK104", judge, Collecting, causes=("garbage-collection",))
