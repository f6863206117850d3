"""Managed memory that nobody uses.

What it reports
---------------
TaskManagers with managed memory in a cluster whose jobs use the heap state backend.

Why it matters
--------------
By default 40 % of Flink's memory are managed. Without RocksDB, batch operators or Python nobody uses them,
while the heap, where the state lies, gets what is left.

How it decides
--------------
The state backend comes from REST, the log or the configuration, the size from the model or the process.

What to do
----------
Set the managed fraction to 0, and the heap becomes larger without a larger process.

False alarms
------------
Batch jobs (sorting, hash tables) and Python user functions use managed memory whatever the backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.advice import current, tried
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.memory.words import process_subject
from flowdiag.analyses.rule import Limits, Rule, limit


class UnusedManagedMemoryLimits(Limits):
    """What MM302 compares with."""

    share: float = limit(0.1, "share", "below a tenth of Flink's memory it is not worth a restart")


def judge(
    facts: MemoryFacts, limits: UnusedManagedMemoryLimits
) -> Iterator[Finding | Inconclusive]:
    """One finding for all TaskManagers together."""
    if set(facts.backends.values()) != {"heap"}:
        return
    idle = []
    for process in facts.processes:
        memory = current(process) if process.role == "taskmanager" else None
        if memory is not None and memory.managed > limits.share * memory.flink:
            idle.append((process, memory))
    if not idle:
        return
    process, memory = max(idle, key=lambda pair: pair[1].managed)
    option = m.MANAGED if m.MANAGED in process.configured else m.MANAGED_FRACTION
    proposed = "0" if option == m.MANAGED else "0.0"
    after = tried(process, {option: proposed})
    gain = f"; the heap grows to {j.bytes_text(after.heap)}" if after else ""
    yield Finding(
        job=None,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=process_subject(process if len(idle) == 1 else None),
        title=f"{j.bytes_text(memory.managed)} of managed memory per TaskManager lie idle: "
        "the state is on the heap",
        cause="unused-memory",
        rank=Rank.CONSEQUENCE,
        option=option,
        count=len(idle),
        explain="The heap state backend does not use managed memory.",
        measurements=(
            Measurement(
                name="managed-memory",
                value=memory.managed,
                unit="bytes",
                population=j.count_text(len(idle), "TaskManager"),
            ),
        ),
        evidence=cite([(process.refs.get(f"observed:{m.MANAGED}"), None)]),
        actions=(
            Action(
                text=f"Give it to the heap{gain}",
                option=option,
                current=process.configured.get(option),
                proposed=proposed,
                risk="batch jobs and Python functions in the same cluster need managed memory",
                restart_needed=True,
            ),
        ),
    )


RULE: Final = Rule("MM302", judge, UnusedManagedMemoryLimits, whole=True)
