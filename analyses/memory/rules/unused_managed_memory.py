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
The state backend comes from REST, the log or the configuration, the size from the model or the process; it has
to be more than `share` of Flink's memory.

What to do
----------
Set the managed fraction to 0, and the heap becomes larger without a larger process.

False alarms
------------
Batch jobs (sorting, hash tables) and Python user functions use managed memory whatever the backend.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory.advice import current, tried
from flowdiag.analyses.memory.helpers import (
    Finding,
    Iterator,
    Limits,
    MemoryFacts,
    Rank,
    Rule,
    Severity,
    advised,
    cite,
    fmt,
    limit,
    measured,
    model,
    of_process,
)


class Unused(Limits):
    """What MM302 compares with."""

    share: float = limit(0.1, "share", "below a tenth of Flink's memory it is not worth a restart")


def judge(facts: MemoryFacts, limits: Unused) -> Iterator[Finding]:
    """One finding for all TaskManagers together."""
    if set(facts.backends.values()) != {"heap"}:
        return
    idle = [
        (process, memory)
        for process in facts.processes
        if process.role == "taskmanager"
        and (memory := current(process)) is not None
        and memory.managed > limits.share * memory.flink
    ]
    if not idle:
        return
    process, memory = max(idle, key=lambda pair: pair[1].managed)
    option = model.MANAGED if model.MANAGED in process.configured else model.MANAGED_FRACTION
    proposed = "0" if option == model.MANAGED else "0.0"
    after = tried(process, {option: proposed})
    yield of_process(
        process if len(idle) == 1 else None,
        severity=Severity.INFO,
        title=f"{fmt.size(memory.managed)} of managed memory per TaskManager lie idle: "
        "the state is on the heap",
        cause="unused-memory",
        rank=Rank.CONSEQUENCE,
        option=option,
        count=len(idle),
        measurements=(
            measured(
                "managed-memory",
                memory.managed,
                "bytes",
                over=fmt.plural(len(idle), "TaskManager"),
            ),
        ),
        evidence=cite([(process.refs.get(f"observed:{model.MANAGED}"), None)]),
        actions=(
            advised(
                "unused-memory",
                "heap",
                option=option,
                current=process.configured.get(option),
                proposed=proposed if after else None,
                version=process.version,
                gain=f"; the heap grows to {fmt.size(after.heap)}" if after else "",
            ),
        ),
    )


RULE: Final = Rule("MM302", judge, Unused, whole=True, causes=("unused-memory",))
