"""Managed memory is unused.

What it reports
---------------
TaskManagers that reserve managed memory although all jobs in the cluster use the heap state backend.

Why it matters
--------------
By default, 40% of Flink's memory is managed memory. Only RocksDB, batch operators and Python functions use it.
Without them, it stays unused, and less memory is left for the heap, which holds the state.

How it decides
--------------
The rule takes the state backend from REST responses, the log or the configuration. It derives the size of managed
memory from the options, or takes it from the process's log. It reports TaskManagers whose managed memory is
more than `share` of Flink's memory, unless a log shows that Python workers use managed memory.

What to do
----------
Set the managed memory fraction to 0. The heap then grows while the process size stays the same.

False alarms
------------
Batch jobs (for sorting and hash tables) and Python functions use managed memory with any state backend. The rule
recognizes Python functions only in the TaskManagers' logs.
"""

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import current_pools, derive_with


class Limits(h.Limits):
    share: float = h.limit(0.1, "share", "minimum share of Flink's memory that justifies a restart")


def judge(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report all affected TaskManagers in one finding."""
    if not facts.managed_is_free:
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
        title=f"{h.fmt.size(memory.managed)} of managed memory per TaskManager is unused: the state is on "
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


RULE = h.Rule(
    "MM302",
    judge,
    Limits,
    whole=True,
    causes=("unused-memory",),
    needs="backends",
    severity=h.Severity.INFO,
)
