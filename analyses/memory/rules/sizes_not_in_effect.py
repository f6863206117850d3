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
manager prints. The numbers are equal to the byte, so that one megabyte counts.

What to do
----------
Look where the option that is in effect comes from: the start-up log lists every property that was loaded.

False alarms
------------
Options given to a script that is not in the input. A vendor's fork may derive otherwise.
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
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess
from flowdiag.analyses.memory.words import process_subject, process_text
from flowdiag.analyses.rule import Limits, Rule, limit


class SizesNotInEffectLimits(Limits):
    """What MM103 compares with."""

    difference: float = limit(1, "MiB", "the arithmetic is exact; less is rounding in a report")


def judge(facts: MemoryFacts, limits: SizesNotInEffectLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per process, and one per container that is smaller than its process."""
    allowed = int(limits.difference * m.MIB)
    for process in facts.processes:
        yield from _differs(process, allowed)
        yield from _container(facts, process.container_limit, process.taskmanager)
    for kill in facts.kills:
        yield from _container(facts, kill.limit, kill.pod)


def _differs(process: MemoryProcess, allowed: int) -> Iterator[Finding]:
    derived = process.derived
    if derived is None or derived.memory is None or version_of(process.version) is None:
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
    yield Finding(
        job=None,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=process_subject(process),
        title=f"{process_text(process)} runs with {name} {j.bytes_text(size)}, "
        f"its options make {j.bytes_text(wanted)}",
        why=f"{name}: {j.bytes_text(size)} in effect, {j.bytes_text(wanted)} configured",
        cause="wrong-memory-options",
        rank=Rank.MECHANISM,
        option=name if name in m.MEMORY_KEYS else None,
        explain="The configuration that is known was not the one that this process started with.",
        measurements=tuple(
            Measurement(name=pool, value=got, unit="bytes", threshold=want, population="in effect")
            for pool, (want, got) in sorted(different.items())
        ),
        evidence=cite((process.refs.get(f"observed:{pool}"), None) for pool in different),
        actions=(
            Action(
                text="Find the source of the value in effect: the log's 'Loading (dynamic) "
                "configuration property' lines, FLINK_PROPERTIES, -D arguments; then restart"
            ),
        ),
    )


def _container(facts: MemoryFacts, limit: int | None, pod: str | None) -> Iterator[Finding]:
    process = next((p for p in facts.processes if pod and p.taskmanager == pod), None)
    if process is None or limit is None:
        return
    # Flink rounds the pod's size down to whole megabytes.
    limit += m.MIB if limit == process.container_limit else 0
    memory = process.derived.memory if process.derived else None
    total = process.observed.get(m.PROCESS) or (
        memory.process if isinstance(memory, m.TaskManagerMemory) else None
    )
    if total is None or total <= limit:
        return
    yield Finding(
        job=None,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=process_subject(process),
        title=f"{process_text(process)} is configured for {j.bytes_text(total)}, "
        f"its container may use {j.bytes_text(limit)}",
        why=f"the container's limit is {j.bytes_text(total - limit)} below the process size",
        cause="wrong-memory-options",
        rank=Rank.ROOT_CAUSE,
        option=m.PROCESS,
        explain="The kernel kills the container as soon as the process uses what it is allowed to.",
        measurements=(
            Measurement(name="container-limit", value=limit, unit="bytes", threshold=total),
        ),
        actions=(
            Action(
                text="Make the container as large as the process, or the process as small",
                option=m.PROCESS,
                current=m.as_option(total),
                proposed=m.as_option(limit),
                restart_needed=True,
            ),
        ),
    )


RULE: Final = Rule("MM103", judge, SizesNotInEffectLimits, whole=True)
