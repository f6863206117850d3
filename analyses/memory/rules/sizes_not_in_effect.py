"""Memory sizes in effect differ from the configured ones.

What it reports
---------------
Memory pools whose actual size differs from the size that Flink derives from the known options, and containers whose
limit is below the configured process size.

Why it matters
--------------
The process may still run with an old configuration. Another file, an environment variable or a `-D` argument may also
override an option. If the container is too small, the kernel kills it before the JVM runs out of memory.

How it decides
--------------
The rule derives the sizes from the options in the same way as Flink. It compares them with the sizes in the process's
log, in REST responses and in the resource manager's log. A pool is reported if the sizes differ by at least `difference`.

What to do
----------
Find the source of the option that is in effect. At startup, the process logs every property that it loads.

False alarms
------------
A script that is not in the input may pass further options. A vendor's fork of Flink may derive other sizes.
"""

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import derive_with


class Limits(h.Limits):
    difference: float = h.limit(
        1, "MiB", "minimum difference between configured and actual size; rounding causes less"
    )


def judge(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each process, and each container that is smaller than its process."""
    for process in facts.processes:
        yield from _different_pools(process, int(limits.difference * h.model.MIB))
        yield from _small_container(facts, process.container_limit, process.taskmanager)
    for kill in facts.kills:
        yield from _small_container(facts, kill.limit, kill.pod)


def _different_pools(process: h.MemoryProcess, allowed: int) -> h.Iterator[h.Finding]:
    derived = process.derived
    if derived is None or derived.memory is None or h.version_of(process.version) is None:
        return
    expected = derived.memory.pools()
    different = {
        pool: (expected[pool], size)
        for pool, size in process.observed.items()
        if pool in expected and abs(expected[pool] - size) >= allowed
    }
    if not different:
        return
    name, sizes = max(different.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    configured, observed = map(h.fmt.size, sizes)
    yield h.process_finding(
        process,
        title=f"{h.process_text(process)} runs with {name} {observed}, but its options result in {configured}",
        why=f"{name}: {observed} in effect, {configured} configured",
        cause="wrong-memory-options",
        rank=h.Rank.MECHANISM,
        option=name if name in h.model.MEMORY_KEYS else None,
        explain="The process did not start with the configuration in the input.",
        measurements=tuple(
            h.measurement(pool, got, "bytes", want, over="in effect")
            for pool, (want, got) in sorted(different.items())
        ),
        evidence=h.cite((process.refs.get(f"observed:{pool}"), None) for pool in different),
        actions=(h.remedy_action("wrong-memory-options", "source"),),
    )


def _small_container(
    facts: h.MemoryFacts, most: int | None, pod: str | None
) -> h.Iterator[h.Finding]:
    process = next((p for p in facts.processes if pod and p.taskmanager == pod), None)
    if process is None or most is None:
        return
    # Flink rounds the pod's size down to whole megabytes.
    most += h.model.MIB if most == process.container_limit else 0
    memory = process.derived.memory if process.derived else None
    derived = memory.process if isinstance(memory, h.model.TaskManagerMemory) else None
    total = process.observed.get(h.model.PROCESS) or derived
    if total is None or total <= most:
        return
    fits = derive_with(process, {h.model.PROCESS: h.model.as_option(most)}) is not None
    yield h.process_finding(
        process,
        title=f"{h.process_text(process)} is configured for {h.fmt.size(total)}, but its container is limited "
        f"to {h.fmt.size(most)}",
        why=f"the container's limit is {h.fmt.size(total - most)} below the process size",
        cause="wrong-memory-options",
        rank=h.Rank.ROOT_CAUSE,
        option=h.model.PROCESS,
        explain="The kernel kills the container before the process reaches its configured size.",
        measurements=(h.measurement("container-limit", most, "bytes", total),),
        actions=(
            h.remedy_action(
                "wrong-memory-options",
                "container",
                option=h.model.PROCESS if fits else None,
                current=h.model.as_option(total),
                proposed=h.model.as_option(most) if fits else None,
                version=process.version,
            ),
        ),
    )


RULE = h.Rule("MM103", judge, Limits, whole=True, causes=("wrong-memory-options",), needs="sizes")
