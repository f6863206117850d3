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
each quarter is what a collection leaves, so that a growing minimum is a trend and a high peak is not.

What to do
----------
Look at what grows (a heap dump), then give the heap more room.

False alarms
------------
A job that has just begun still fills its state; half an hour is not a trend.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess, Usage
from flowdiag.analyses.memory.words import process_subject, process_text
from flowdiag.analyses.rule import Limits, Rule, limit


class FillingHeapLimits(Limits):
    """What MM304 compares with."""

    full: float = limit(0.85, "share", "what is left after collections; above it they run on end")
    growth: float = limit(0.1, "share", "of the heap, from the first quarter to the last")
    samples: float = limit(20, "samples", "four quarters with five samples each")


def judge(facts: MemoryFacts, limits: FillingHeapLimits) -> Iterator[Finding | Inconclusive]:
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
        full = left >= limits.full
        if full or rising:
            yield _finding(process, usage, left, full=full)


def _finding(process: MemoryProcess, usage: Usage, left: float, *, full: bool) -> Finding:
    most = usage.heap_max or 0
    pauses = ""
    if usage.full_pauses:
        pauses = (
            f"; {j.count_text(usage.full_pauses, 'full collection')}, "
            f"{j.duration_text(usage.full_pause_ms)} in all"
        )
    return Finding(
        job=None,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=process_subject(process),
        title=f"The heap of {process_text(process)} is {left:.0%} full after collections{pauses}"
        if full
        else f"The heap of {process_text(process)} fills up: {j.bytes_text(usage.floors[0])} to "
        f"{j.bytes_text(usage.floors[-1])} of {j.bytes_text(most)}",
        why=f"{j.bytes_text(usage.floors[-1])} of {j.bytes_text(most)} stay in use",
        cause="out-of-memory",
        confidence=Confidence.HIGH if full else Confidence.MEDIUM,
        rank=Rank.MECHANISM,
        option=m.TASK_HEAP if process.role == "taskmanager" else "jobmanager.memory.heap.size",
        first_us=usage.first_us,
        last_us=usage.last_us,
        explain="What a collection leaves is what the job really holds.",
        measurements=(
            Measurement(name="heap-left", value=round(left, 3), unit="share", threshold=0.85),
            Measurement(name="heap-maximum", value=most, unit="bytes"),
            Measurement(name="longest-pause", value=usage.longest_pause_ms or None, unit="ms"),
        ),
        evidence=(Evidence(*usage.ref, None),) if usage.ref else (),
        actions=(
            Action(text="Take a heap dump and look at what holds most"),
            Action(
                text="Give the heap more room, or the state to RocksDB",
                option=m.PROCESS
                if process.role == "taskmanager"
                else "jobmanager.memory.process.size",
                restart_needed=True,
            ),
        ),
    )


RULE: Final = Rule("MM304", judge, FillingHeapLimits, whole=True)
