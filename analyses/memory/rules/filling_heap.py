"""The heap fills up.

What it reports
---------------
Processes whose smallest used heap grows from quarter to quarter of the time, or stays near the maximum,
and those that stand still for long or repeated full collections.

Why it matters
--------------
The OutOfMemoryError is the end of it; before come long pauses, missed heartbeats and slow checkpoints.

How it decides
--------------
From the memory logger (`taskmanager.debug.memory.log`) or the JVM's own log (`-Xlog:gc`): the minimum of
each quarter is what a collection leaves, so that a growing minimum is a trend and a high peak is not. It is
reported where it rises from quarter to quarter, by `growth` of the heap in all, or where `full` of the heap is
left; without full collections `samples` are wanted. From `stalls` of the time of its own log on in full
collections the cause is the collector itself. Whose such a log is, its name or its folder tells.

What to do
----------
Look at what grows (a heap dump), then give the heap more room.

False alarms
------------
A job that has just begun still fills its state; half an hour is not a trend.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import (
    Final,
)

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import more_heap, setting_of


class Filling(h.Limits):
    """Thresholds of MM304."""

    full: float = h.limit(0.85, "share", "what is left after collections; above it they run on end")
    growth: float = h.limit(0.1, "share", "of the heap, from the first quarter to the last")
    samples: float = h.limit(20, "samples", "four quarters with five samples each")
    stalls: float = h.limit(
        0.4,
        "share",
        "of the time in full collections: what collects for as long is slow for it (as in CP201 and SK104)",
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
            yield _finding(facts, process, usage, left, limits)


def _finding(
    facts: h.MemoryFacts, process: h.MemoryProcess, usage: h.Usage, left: float, limits: Filling
) -> h.Finding:
    most = limits.full
    full = left >= most
    worker = process.role == "taskmanager"
    before, now, maximum = map(h.fmt.size, (usage.floors[0], usage.floors[-1], usage.heap_max or 0))
    pauses = ""
    if usage.full_pauses:
        pauses = (
            f"; {h.fmt.plural(usage.full_pauses, 'full collection')}, "
            f"{h.fmt.duration(usage.full_pause_ms)} in all"
        )
    share = _stood_still(facts, process, usage)
    stalls = share is not None and share >= limits.stalls
    if stalls and share is not None:
        pauses += f", {h.fmt.percent(share)} of its time"
    found = h.of_process(
        process,
        title=f"The heap of {h.process_text(process)} is {h.fmt.percent(left)} full after collections{pauses}"
        if full
        else f"The heap of {h.process_text(process)} fills up: {before} to {now} of {maximum}",
        why=f"{h.fmt.percent(share)} of its time goes into full collections, {now} of {maximum} stay in use"
        if stalls and share is not None
        else f"{now} of {maximum} stay in use",
        cause="garbage-collection" if stalls else "out-of-memory",
        confidence=h.Confidence.HIGH if full else h.Confidence.MEDIUM,
        rank=h.Rank.MECHANISM,
        option=h.model.TASK_HEAP if worker else "jobmanager.memory.heap.size",
        first_us=usage.first_us,
        last_us=usage.last_us,
        explain="What a collection leaves is what the job really holds.",
        measurements=(
            h.measurement("heap-left", round(left, 3), "share", most),
            h.measurement("heap-maximum", usage.heap_max or 0, "bytes"),
            h.measurement("longest-pause", usage.longest_pause_ms or None, "ms"),
            h.measurement(
                "full-collection-share", share and round(share, 3), "share", limits.stalls
            ),
        ),
        evidence=h.cite([(usage.ref, None)]),
        actions=(
            h.Action(text="Take a heap dump and look at what holds most"),
            _room(facts, process) if worker else _JOBMANAGER,
        ),
    )
    # Only what is of the job can explain what happened to it.
    only = facts.jobs[0].key if len(facts.jobs) == 1 and stalls else None
    return found if only is None else replace(found, job=only)


def _stood_still(facts: h.MemoryFacts, process: h.MemoryProcess, usage: h.Usage) -> float | None:
    """The share of the time of its own log that a process spent in full collections; None where unknown."""
    spans = [
        one.last_us - one.first_us
        for one in facts.writers
        if one.source == process.source and one.first_us is not None and one.last_us is not None
    ]
    if not usage.full_pauses or len(spans) != 1 or spans[0] <= 0:
        return None
    return min(1.0, usage.full_pause_ms * 1000 / spans[0])


_MORE: Final = 0.25  # a quarter more heap, then measure again

_JOBMANAGER: Final = h.Action(
    text="Give the heap more room",
    option="jobmanager.memory.process.size",
    measure="the heap that is in use after full collections: half as much again is enough",
    restart_needed=True,
)


def _room(facts: h.MemoryFacts, process: h.MemoryProcess) -> h.Action:
    """More heap, as for one that ran out."""
    text = "Give the heap more room, or the state to RocksDB"
    free = set(facts.backends.values()) == {"heap"}
    found = more_heap(process, _MORE, managed_is_free=free)
    if found is not None:
        return setting_of(process, found, text)
    return replace(_JOBMANAGER, text=text, option=h.model.PROCESS)


RULE: Final = h.Rule(
    "MM304", judge, Filling, whole=True, causes=("garbage-collection", "out-of-memory")
)
