"""A TaskManager spends much of its time collecting garbage.

What it reports
---------------
The TaskManager, the share of its time that went into collections, and how full its heap is.

Why it matters
--------------
While the collector works the tasks stand still: the subtasks there are slow at everything.

How it decides
--------------
The growth of the collectors' times over the time between the samples, 20 % and more on five samples at
least. A warning where tasks wait, or from 40 %.

What to do
----------
More heap, less state on it, or fewer slots; look for what allocates.

False alarms
------------
Concurrent collectors count time in which tasks run on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES
from flowdiag.analyses.queues.data import gc_share
from flowdiag.analyses.queues.facts import JobQueues, joined
from flowdiag.analyses.queues.judging import host_of, machine
from flowdiag.analyses.queues.root import loads_in
from flowdiag.analyses.rule import Limits, Rule, limit


class GarbageCollectionLimits(Limits):
    """What SK104 compares with."""

    share: float = limit(0.2, "share", "of the time; a few per cent are usual")
    heavy: float = limit(0.4, "share", "of the time: worth a warning whoever waits")


def judge(job: JobQueues, limits: GarbageCollectionLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per TaskManager."""
    waits = any(load.waits and load.wait_measured for load in loads_in(job).values())
    for name, each in job.machines.items():
        share = gc_share(each)
        samples = sum(m.samples for m in each)
        if share is None or share < limits.share or samples < ENOUGH_SAMPLES:
            continue
        yield _finding(job, name, share, limits, waits)


def _finding(
    job: JobQueues, name: str, share: float, limits: GarbageCollectionLimits, waits: bool
) -> Finding:
    each = job.machines[name]
    used = joined(m.gauges.get("heap_used") for m in each)
    most = joined(m.gauges.get("heap_max") for m in each)
    place = j.place_text(name, host_of(job, name))
    serious = share >= limits.heavy or waits
    key = option("task-heap", job.job.version)
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING if serious else Severity.INFO,
        state=State.ONGOING,
        subject=machine(job, name),
        title=f"{place} spends {100 * share:.0f} % of its time collecting garbage",
        why=f"{place}: {100 * share:.0f} % of its time went into garbage collection",
        cause="garbage-collection",
        confidence=Confidence.MEDIUM,
        rank=Rank.BOTTLENECK_SIGN,
        explain="Its tasks stand still meanwhile; what looks like slow subtasks or late barriers may be this.",
        measurements=(
            Measurement(
                name="gc-share", value=round(share, 4), unit="share", threshold=limits.share
            ),
            *(
                [
                    Measurement(
                        name="heap-used",
                        value=round(used.mean / most.mean, 4),
                        unit="share",
                        population="of the largest heap, mean",
                    )
                ]
                if used and most and most.mean > 0
                else []
            ),
        ),
        evidence=cite((m.ref, m.first_us) for m in (*each[:1], *each[-1:])),
        actions=(
            Action(
                text="Give its tasks more heap, keep less state on it (RocksDB), or run fewer slots in it",
                option=key,
                current=j.configured(job.job, key) if key else None,
                restart_needed=True,
                verify="GarbageCollector Time grows by less than 100 ms per second",
            ),
        ),
    )


RULE: Final = Rule("SK104", judge, GarbageCollectionLimits)
