"""The heap fills up.

What it reports
---------------
Processes whose smallest heap usage grows from quarter to quarter of the time, or stays near the maximum,
and processes that pause for long or repeated full collections.

Why it matters
--------------
An OutOfMemoryError is the last step. Long pauses, missed heartbeats and slow checkpoints come first.

How it decides
--------------
From the memory logger (`taskmanager.debug.memory.log`) or the JVM's own log (`-Xlog:gc`). The minimum of each
quarter is what a collection leaves, so a growing minimum is a trend while a high peak is not. The rule
reports a minimum that grows in every quarter, by at least `growth` of the heap in all, or `full` of the heap
in use after collections. Without full collections it requires `samples`. If full collections take at least
`stalls` of the time of the log, the cause is garbage collection. The name or folder of a GC log shows which process
wrote it.

What to do
----------
Find out what grows (a heap dump), then add heap.

False alarms
------------
A job that has just started still builds up its state. Half an hour is not a trend.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import room_for_heap
from flowdiag.analyses.memory.facts import share_in_full_collections


class Filling(h.Limits):
    """Thresholds of MM304."""

    full: float = h.limit(0.85, "share", "in use after collections; above it they run nonstop")
    growth: float = h.limit(0.1, "share", "of the heap, from the first quarter to the last")
    samples: float = h.limit(20, "samples", "four quarters with five samples each")
    stalls: float = h.limit(
        0.4, "share", "of the time in full collections slows a process (as in CP201 and SK104)"
    )


def judge(facts: h.MemoryFacts, limits: Filling) -> h.Iterator[h.Finding]:
    """One finding per process."""
    for process in facts.processes:
        usage = process.usage
        if usage is None or not usage.heap_max or not usage.floors:
            continue
        if usage.samples < limits.samples and not usage.full_pauses:
            continue
        left = (usage.left_after_full or usage.floors[-1]) / usage.heap_max
        growth = (usage.floors[-1] - usage.floors[0]) / usage.heap_max
        rising = all(a <= b for a, b in pairwise(usage.floors)) and growth >= limits.growth
        if rising or left >= limits.full:
            yield _finding(facts, process, usage, usage.heap_max, left, limits)


def _finding(
    facts: h.MemoryFacts,
    process: h.MemoryProcess,
    usage: h.Usage,
    maximum: int,
    left: float,
    limits: Filling,
) -> h.Finding:
    full, worker = left >= limits.full, process.role == "taskmanager"
    first, last, most = map(h.fmt.size, (usage.floors[0], usage.floors[-1], maximum))
    share = share_in_full_collections(facts, process)
    stalled = (
        f"{h.fmt.percent(share)} of its time"
        if share is not None and share >= limits.stalls
        else None
    )
    heap, in_use = f"The heap of {h.process_text(process)}", f"{last} of {most} stay in use"
    title = f"{heap} fills up: {first} to {last} of {most}"
    if full:
        title = f"{heap} is {h.fmt.percent(left)} full after collections"
        if usage.full_pauses:
            title += f"; {h.fmt.plural(usage.full_pauses, 'full collection')}"
            title += f", {h.fmt.duration(usage.full_pause_ms)} in all"
            title += f", {stalled}" if stalled else ""
    found = h.process_finding(
        process,
        title=title,
        why=f"full collections take {stalled}, {in_use}" if stalled else in_use,
        cause="garbage-collection" if stalled else "out-of-memory",
        confidence=h.Confidence.HIGH if full else h.Confidence.MEDIUM,
        rank=h.Rank.MECHANISM,
        option=h.model.TASK_HEAP if worker else "jobmanager.memory.heap.size",
        first_us=usage.first_us,
        last_us=usage.last_us,
        explain="The memory in use after a collection is what the job really needs.",
        measurements=(
            h.measurement("heap-left", round(left, 3), "share", limits.full),
            h.measurement("heap-maximum", maximum, "bytes"),
            h.measurement("longest-pause", usage.longest_pause_ms or None, "ms"),
            h.measurement(
                "full-collection-share", share and round(share, 3), "share", limits.stalls
            ),
        ),
        evidence=h.cite([(usage.ref, None)]),
        actions=(
            h.Action(text="Take a heap dump and check which objects use most of it"),
            room_for_heap(facts, process),
        ),
    )
    # Only a finding of the job can explain the job's failures.
    only = facts.jobs[0].key if len(facts.jobs) == 1 and stalled else None
    return found if only is None else replace(found, job=only)


RULE = h.Rule("MM304", judge, Filling, whole=True, causes=("garbage-collection", "out-of-memory"))
