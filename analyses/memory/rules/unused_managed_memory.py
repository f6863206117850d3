"""Managed memory is unused.

What it reports
---------------
TaskManagers with managed memory in a cluster whose jobs use the heap state backend.

Why it matters
--------------
By default 40% of Flink's memory is managed. Without RocksDB, batch operators or Python it is unused, while
the heap, which holds the state, gets only the rest.

How it decides
--------------
The state backend comes from REST, the log or the configuration, the size from the model or the process. It
must be more than `share` of Flink's memory.

What to do
----------
Set the managed fraction to 0. The heap then grows without a larger process.

False alarms
------------
Batch jobs (sorting, hash tables) and Python user functions use managed memory with any backend.
"""

from __future__ import annotations

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import current_pools, derive_with


class Unused(h.Limits):
    """Thresholds of MM302."""

    share: float = h.limit(
        0.1, "share", "less than a tenth of Flink's memory is not worth a restart"
    )


def judge(facts: h.MemoryFacts, limits: Unused) -> h.Iterator[h.Finding]:
    """One finding for all TaskManagers together."""
    if set(facts.backends.values()) != {"heap"}:
        return
    idle = [
        (process, memory)
        for process in facts.processes
        if process.role == "taskmanager"
        and (memory := current_pools(process)) is not None
        and memory.managed > limits.share * memory.flink
    ]
    if not idle:
        return
    process, memory = max(idle, key=lambda pair: pair[1].managed)
    option, proposed = h.model.MANAGED_FRACTION, "0.0"
    if h.model.MANAGED in process.configured:
        option, proposed = h.model.MANAGED, "0"
    after = derive_with(process, {option: proposed})
    number = h.fmt.plural(len(idle), "TaskManager")
    yield h.process_finding(
        process if len(idle) == 1 else None,
        severity=h.Severity.INFO,
        title=f"{h.fmt.size(memory.managed)} of managed memory per TaskManager are unused: the state is on "
        "the heap",
        cause="unused-memory",
        rank=h.Rank.CONSEQUENCE,
        option=option,
        count=len(idle),
        measurements=(h.measurement("managed-memory", memory.managed, "bytes", over=number),),
        evidence=h.cite([(process.refs.get(f"observed:{h.model.MANAGED}"), None)]),
        actions=(
            h.remedy_action(
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


RULE = h.Rule("MM302", judge, Unused, whole=True, causes=("unused-memory",))
