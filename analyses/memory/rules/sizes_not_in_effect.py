"""A process runs with other sizes than configured.

What it reports
---------------
Pools whose observed size differs from what Flink derives from the options that are known, and containers
that may use less than the process is meant to take.

Why it matters
--------------
Somebody changed the configuration and the process still runs with the old one, or another file, an
environment variable or a `-D` argument wins; or the container is killed before the JVM notices.

How it decides
--------------
The options are put through Flink's own arithmetic and compared with what the process, REST or the resource
manager prints. The numbers are equal to the byte, so that a `difference` of one megabyte counts.

What to do
----------
Look where the option that is in effect comes from: the start-up log lists every property that was loaded.

False alarms
------------
Options given to a script that is not in the input. A vendor's fork may derive otherwise.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import tried


class NotInEffect(h.Limits):
    """Thresholds of MM103."""

    difference: float = h.limit(1, "MiB", "the arithmetic is exact; less is rounding in a report")


def judge(facts: h.MemoryFacts, limits: NotInEffect) -> h.Iterator[h.Finding]:
    """One finding per process, and one per container that is smaller than its process."""
    allowed = int(limits.difference * h.model.MIB)
    for process in facts.processes:
        yield from _differs(process, allowed)
        yield from _container(facts, process.container_limit, process.taskmanager)
    for kill in facts.kills:
        yield from _container(facts, kill.limit, kill.pod)


def _differs(process: h.MemoryProcess, allowed: int) -> h.Iterator[h.Finding]:
    derived = process.derived
    if derived is None or derived.memory is None or h.version_of(process.version) is None:
        return
    expected = derived.memory.pools()
    different = {
        name: (expected[name], size)
        for name, size in process.observed.items()
        if name in expected and abs(expected[name] - size) >= allowed
    }
    if not different:
        return
    name, (wanted, size) = max(different.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    runs, made = h.fmt.size(size), h.fmt.size(wanted)
    yield h.of_process(
        process,
        title=f"{h.process_text(process)} runs with {name} {runs}, its options make {made}",
        why=f"{name}: {runs} in effect, {made} configured",
        cause="wrong-memory-options",
        rank=h.Rank.MECHANISM,
        option=name if name in h.model.MEMORY_KEYS else None,
        explain="The configuration that is known was not the one that this process started with.",
        measurements=tuple(
            h.measurement(pool, got, "bytes", want, over="in effect")
            for pool, (want, got) in sorted(different.items())
        ),
        evidence=h.cite((process.refs.get(f"observed:{pool}"), None) for pool in different),
        actions=(h.advised("wrong-memory-options", "source"),),
    )


def _container(facts: h.MemoryFacts, most: int | None, pod: str | None) -> h.Iterator[h.Finding]:
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
    fits = tried(process, {h.model.PROCESS: h.model.as_option(most)}) is not None
    yield h.of_process(
        process,
        title=f"{h.process_text(process)} is configured for {h.fmt.size(total)}, "
        f"its container may use {h.fmt.size(most)}",
        why=f"the container's limit is {h.fmt.size(total - most)} below the process size",
        cause="wrong-memory-options",
        rank=h.Rank.ROOT_CAUSE,
        option=h.model.PROCESS,
        explain="The kernel kills the container as soon as the process uses what it is allowed to.",
        measurements=(h.measurement("container-limit", most, "bytes", total),),
        actions=(
            h.advised(
                "wrong-memory-options",
                "container",
                option=h.model.PROCESS if fits else None,
                current=h.model.as_option(total),
                proposed=h.model.as_option(most) if fits else None,
                version=process.version,
            ),
        ),
    )


RULE: Final = h.Rule("MM103", judge, NotInEffect, whole=True, causes=("wrong-memory-options",))
