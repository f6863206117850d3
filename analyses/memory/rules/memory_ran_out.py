"""A pool ran out, or a container was killed for its memory.

What it reports
---------------
OutOfMemoryErrors by pool (heap, metaspace, direct), containers that were killed for their memory
(OOMKilled, exit code 137, YARN's physical memory limit), and a proposal for each.

Why it matters
--------------
Each pool has an option of its own. A larger heap makes a container that is killed for native memory die
sooner.

How it decides
--------------
By the text of the error or of the diagnostics; `kubectl describe` and the log of the garbage collector
count too. The proposal is put through Flink's arithmetic: it keeps the size of the process where enough
heap remains, else it says by how much the process grows.

What to do
----------
The proposal is a first step: a leak needs a heap dump, not memory.

False alarms
------------
Exit code 137 is also what `kubectl delete` and a node that goes away leave behind; the reason decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import memory_kind
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.advice import (
    Proposal,
    current,
    more_direct,
    more_heap,
    more_metaspace,
    more_overhead,
)
from flowdiag.analyses.memory.facts import Kill, MemoryFacts, MemoryProcess
from flowdiag.analyses.rule import Limits, Rule, limit

_POOL: Final = {
    "heap": "The heap",
    "metaspace": "Metaspace",
    "direct": "Direct memory",
    "container": "The container's memory",
}
_USE: Final = {
    "heap": "objects of user code and heap state",
    "metaspace": "classes; a job that restarts without end, or leaks class loaders, fills it",
    "direct": "off-heap buffers of user code and libraries, and the network",
    "container": "everything, native memory of RocksDB and of the allocator included",
}


class MemoryRanOutLimits(Limits):
    """What MM301 compares with."""

    heap_step: float = limit(0.25, "ratio", "a quarter more heap, then measure again")
    metaspace_step: float = limit(0.5, "ratio", "metaspace is small: half as much again")
    direct_step: float = limit(128, "MiB", "the size that Flink's framework itself gets")
    overhead_step: float = limit(0.5, "ratio", "native memory is not measured: half as much again")


def judge(facts: MemoryFacts, limits: MemoryRanOutLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per place and pool."""
    groups: dict[tuple[str | None, str], list[tuple[JobFacts | None, Incident]]] = {}
    for job in facts.jobs:
        for incident in job.incidents:
            if _ran_out(incident):
                key = (incident.taskmanager or incident.host, memory_kind(incident))
                groups.setdefault(key, []).append((job, incident))
    for (place, kind), members in sorted(groups.items(), key=lambda g: (g[0][0] or "", g[0][1])):
        yield _finding(facts, place, kind, members, (), limits)
    by_pod: dict[str | None, list[Kill]] = {}
    for kill in facts.kills:
        if kill.reason in ("OOMKilled", "OOMKilling", "SystemOOM", "Evicted"):
            by_pod.setdefault(kill.pod, []).append(kill)
    for pod, kills in by_pod.items():
        if (pod, "container") not in groups:
            yield _finding(facts, pod, "container", [], kills, limits)


def _ran_out(incident: Incident) -> bool:
    if incident.kind == "out-of-memory":
        return True
    text = incident.cause or ""
    return incident.kind == "task-failure" and "OutOfMemoryError" in text


def _finding(
    facts: MemoryFacts,
    place: str | None,
    kind: str,
    members: Sequence[tuple[JobFacts | None, Incident]],
    kills: Sequence[Kill],
    limits: MemoryRanOutLimits,
) -> Finding:
    job = members[0][0] if members else None
    incidents = [incident for _, incident in members]
    process = next(
        (p for p in facts.processes if p.taskmanager and p.taskmanager == place),
        next((p for p in facts.processes if p.role == "taskmanager"), None),
    )
    times = [i.time_us for i in incidents if i.time_us is not None]
    said = incidents[-1].cause if incidents else kills[-1].text
    evidence = cite((i.ref, i.time_us) for i in incidents) + tuple(
        Evidence(*kill.ref, None) for kill in kills
    )
    proposal = _proposal(facts, process, kind, limits)
    host = incidents[0].host if incidents else None
    where = j.place_text(place, host) if place or host else "a TaskManager"
    count = len(incidents) + len(kills)
    killed = "the container was killed" if kind == "container" else "ran out"
    return Finding(
        job=job.key if job else None,
        severity=Severity.CRITICAL if job is None or j.job_failed(job) else Severity.WARNING,
        state=State.ONGOING,
        subject=Subject(
            kind="taskmanager" if place else "process",
            job_id=job.key.job_id if job else None,
            job_name=job.name if job else None,
            taskmanager=place,
            host=host,
        ),
        title=f"{_POOL[kind]} {'ran out' if kind != 'container' else 'was not enough'} on {where}: "
        f"{j.shorten(said or killed, 80)}",
        why=f"{where}: {j.shorten(said or killed, 120)}",
        cause="out-of-memory",
        rank=Rank.FATAL,
        option=next(iter(proposal.options), None) if proposal else None,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=count,
        explain=f"This memory holds {_USE[kind]}.",
        measurements=tuple(_measured(process, kind, kills)),
        evidence=evidence,
        ranked=True,
        actions=tuple(_actions(process, kind, proposal)),
    )


def _proposal(
    facts: MemoryFacts, process: MemoryProcess | None, kind: str, limits: MemoryRanOutLimits
) -> Proposal | None:
    if process is None or process.role != "taskmanager":
        return None
    if kind == "heap":
        free = set(facts.backends.values()) == {"heap"}
        return more_heap(process, limits.heap_step, managed_is_free=free)
    if kind == "metaspace":
        return more_metaspace(process, limits.metaspace_step)
    if kind == "direct":
        return more_direct(process, int(limits.direct_step * m.MIB))
    return more_overhead(process, limits.overhead_step)


def _measured(
    process: MemoryProcess | None, kind: str, kills: Sequence[Kill]
) -> Iterator[Measurement]:
    now = current(process) if process is not None else None
    if now is not None:
        sizes = {
            "heap": ("heap", now.heap),
            "metaspace": ("metaspace", now.metaspace),
            "direct": ("direct-memory", now.direct),
            "container": ("process-size", now.process),
        }
        name, size = sizes[kind]
        yield Measurement(name=name, value=size, unit="bytes", population="as configured")
    for kill in kills[-1:]:
        if kill.limit is not None:
            yield Measurement(name="container-limit", value=kill.limit, unit="bytes")
        if kill.exit_code is not None:
            yield Measurement(name="exit-code", value=kill.exit_code)


def _actions(
    process: MemoryProcess | None, kind: str, proposal: Proposal | None
) -> Iterator[Action]:
    if proposal is not None and process is not None:
        for key, text in proposal.options.items():
            yield Action(
                text="Give it more, keeping the size of the process"
                if proposal.keeps_total
                else "Give it more; the process has to grow",
                option=key,
                current=process.configured.get(key),
                proposed=text,
                risk=f"heap {j.bytes_text(proposal.memory.heap)}, managed "
                f"{j.bytes_text(proposal.memory.managed)}, process "
                f"{j.bytes_text(proposal.memory.process)} afterwards",
                restart_needed=True,
                verify="Status.JVM.Memory metrics stay below their maximum",
            )
    hints = {
        "heap": "Take a heap dump (-XX:+HeapDumpOnOutOfMemoryError) to see what fills it",
        "metaspace": "Count loaded classes over restarts: a number that grows is a class loader leak",
        "direct": "Look for libraries that allocate direct buffers (clients of storage and databases)",
        "container": "Compare the process's resident size with the sum of the pools; with RocksDB limit "
        "its memory (state.backend.rocksdb.memory.managed), with glibc use jemalloc",
    }
    yield Action(text=hints[kind])


RULE: Final = Rule("MM301", judge, MemoryRanOutLimits, whole=True)
