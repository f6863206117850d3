"""The heap fills up.

What it reports
---------------
Processes whose heap remains almost full after garbage collection, and processes whose minimum heap usage
grows throughout the log. The report also shows how long full collections pause the process.

Why it matters
--------------
Long pauses, missed heartbeats and slow checkpoints precede an OutOfMemoryError.

How it decides
--------------
The rule reads the output of the memory logger (`taskmanager.debug.memory.log`) or the JVM's GC log (`-Xlog:gc`).
It splits the log into four quarters. The minimum usage in a quarter is the memory that remains in use after a
collection. A growing minimum therefore shows a trend, but a high peak does not.

The rule reports a process if the minimum never falls and grows by at least `growth` of the heap. It also reports a
process if at least `heap-usage` of the heap remains in use after collections. If the log shows no full collections, the
rule needs at least `samples` samples. If full collections take at least `stalls` of the time in the log, the cause is
garbage collection. The rule recognizes the process by the name or folder of its GC log.

What to do
----------
Take a heap dump to find out which objects accumulate. Then increase the heap.

False alarms
------------
The heap usage of a job that has just started grows with its state. A log of half an hour is too short to show
a trend.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import room_for_heap
from flowdiag.analyses.memory.facts import share_in_full_collections


class Limits(h.Limits):
    heap_usage: float = h.limit(
        0.85, "share", "minimum heap in use after collections; above it, the JVM mostly collects"
    )
    growth: float = h.limit(
        0.1, "share", "minimum growth from the first to the last quarter, as a share of the heap"
    )
    samples: float = h.limit(
        20, "samples", "minimum number of samples: five per quarter of the log"
    )
    stalls: float = h.limit(
        0.4, "share", "minimum share of the time in full collections (as in CP201 and SK104)"
    )


def judge(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each process with a heap that fills up."""
    for process in facts.processes:
        usage = process.usage
        if usage is None or not usage.heap_max or not usage.floors:
            continue
        if usage.samples < limits.samples and not usage.full_pauses:
            continue
        left = (usage.left_after_full or usage.floors[-1]) / usage.heap_max
        growth = (usage.floors[-1] - usage.floors[0]) / usage.heap_max
        rising = all(a <= b for a, b in pairwise(usage.floors)) and growth >= limits.growth
        if rising or left >= limits.heap_usage:
            yield _finding(facts, process, usage, usage.heap_max, left, limits)


_HEAP_OPTIONS: Final = {
    "taskmanager": h.model.TASK_HEAP,
    "jobmanager": "jobmanager.memory.heap.size",
}


def _finding(
    facts: h.MemoryFacts,
    process: h.MemoryProcess,
    usage: h.Usage,
    maximum: int,
    left: float,
    limits: Limits,
) -> h.Finding:
    full = left >= limits.heap_usage
    first, last, most = map(h.fmt.size, (usage.floors[0], usage.floors[-1], maximum))
    share = share_in_full_collections(facts, process)
    stalled = (
        f"{h.fmt.percent(share)} of its time"
        if share is not None and share >= limits.stalls
        else None
    )
    heap, in_use = f"The heap of {h.process_text(process)}", f"{last} of {most} remain in use"
    title = f"{heap} fills up: from {first} to {last} of {most}"
    if full:
        title = f"{heap} is {h.fmt.percent(left)} full after collections"
        if usage.full_pauses:
            title += f"; {h.fmt.plural(usage.full_pauses, 'full collection')}"
            title += f", {h.fmt.duration(usage.full_pause_ms)} in total"
            title += f", {stalled}" if stalled else ""
    found = h.process_finding(
        process,
        title=title,
        why=f"full collections take {stalled}, {in_use}" if stalled else in_use,
        cause="garbage-collection" if stalled else "out-of-memory",
        confidence=h.Confidence.HIGH if full else h.Confidence.MEDIUM,
        rank=h.Rank.MECHANISM,
        option=_HEAP_OPTIONS.get(process.role),
        first_us=usage.first_us,
        last_us=usage.last_us,
        explain="The job needs the memory that remains in use after a collection.",
        measurements=(
            h.measurement("heap-left", round(left, 3), "share", limits.heap_usage),
            h.measurement("heap-maximum", maximum, "bytes"),
            h.measurement("longest-pause", usage.longest_pause_ms or None, "ms"),
            h.measurement(
                "full-collection-share", share and round(share, 3), "share", limits.stalls
            ),
        ),
        evidence=h.cite([(usage.ref, None)]),
        actions=(
            h.Action(text="Take a heap dump and check which objects use the most memory"),
            room_for_heap(facts, process),
        ),
    )
    # Only a finding about the job can explain the job's failures.
    only = facts.jobs[0].key if len(facts.jobs) == 1 and stalled else None
    return found if only is None else replace(found, job=only)


RULE = h.Rule(
    "MM304",
    judge,
    Limits,
    whole=True,
    causes=("garbage-collection", "out-of-memory"),
    needs="usage",
)
