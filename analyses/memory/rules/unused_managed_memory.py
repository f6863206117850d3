"""Managed memory that nobody uses.

What it reports
---------------
TaskManagers with managed memory in a cluster whose jobs use the heap state backend.

Why it matters
--------------
By default 40% of Flink's memory are managed. Without RocksDB, batch operators or Python nobody uses them,
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

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import current, tried


class Unused(h.Limits):
    """Thresholds of MM302."""

    share: float = h.limit(
        0.1, "share", "below a tenth of Flink's memory it is not worth a restart"
    )


def judge(facts: h.MemoryFacts, limits: Unused) -> h.Iterator[h.Finding]:
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
    option = h.model.MANAGED if h.model.MANAGED in process.configured else h.model.MANAGED_FRACTION
    proposed = "0" if option == h.model.MANAGED else "0.0"
    after = tried(process, {option: proposed})
    yield h.of_process(
        process if len(idle) == 1 else None,
        severity=h.Severity.INFO,
        title=f"{h.fmt.size(memory.managed)} of managed memory per TaskManager lie idle: "
        "the state is on the heap",
        cause="unused-memory",
        rank=h.Rank.CONSEQUENCE,
        option=option,
        count=len(idle),
        measurements=(
            h.measurement(
                "managed-memory",
                memory.managed,
                "bytes",
                over=h.fmt.plural(len(idle), "TaskManager"),
            ),
        ),
        evidence=h.cite([(process.refs.get(f"observed:{h.model.MANAGED}"), None)]),
        actions=(
            h.advised(
                "unused-memory",
                "heap",
                option=option,
                current=process.configured.get(option),
                proposed=proposed if after else None,
                version=process.version,
                gain=f"; the heap grows to {h.fmt.size(after.heap)}" if after else "",
            ),
        ),
    )


RULE: Final = h.Rule("MM302", judge, Unused, whole=True, causes=("unused-memory",))
