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
count too. The proposal is `heap-step`, `metaspace-step`, `direct-step` or `overhead-step` more of the pool, put
through Flink's arithmetic: it keeps the size of the process where `heap-left` of the heap remains, else it says
by how much the process grows.

What to do
----------
The proposal is a first step: a leak needs a heap dump, not memory.

False alarms
------------
Exit code 137 is also what `kubectl delete` and a node that goes away leave behind; the reason decides.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.crises import memory_kind
from flowdiag.analyses.flink.judging import job_failed
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import (
    Proposal,
    current_pools,
    more_direct,
    more_heap,
    more_metaspace,
    more_overhead,
    proposal_action,
)

_POOL: Final = {
    "heap": "The heap ran out",
    "metaspace": "Metaspace ran out",
    "direct": "Direct memory ran out",
    "container": "The container's memory was not enough",
    "native": "The system had no memory left for the JVM",
    "threads": "A thread could not be started",
    "unknown": "Memory ran out",
}
_USE: Final = {
    "heap": "objects of user code and heap state",
    "metaspace": "classes; a job that restarts without end, or leaks class loaders, fills it",
    "direct": "off-heap buffers of user code and libraries, and the network",
    "container": "everything, native memory of RocksDB and of the allocator included",
}
_NO_POOL: Final = {
    "threads": "The process, its user or its container may not start more threads: a limit of the system, and "
    "no pool of Flink's memory.",
    "native": "The JVM asked the system for memory and got none: the machine or the container is full, whatever "
    "the pools of Flink's memory say.",
    "unknown": "The exception does not say which memory it was.",
}
_HINTS: Final = {
    "heap": "Take a heap dump (-XX:+HeapDumpOnOutOfMemoryError) to see what fills it",
    "metaspace": "Count loaded classes over restarts: a number that grows is a class loader leak",
    "direct": "Look for libraries that allocate direct buffers (clients of storage and databases)",
    "container": "Compare the process's resident size with the sum of the pools; with RocksDB limit "
    "its memory (state.backend.rocksdb.memory.managed), with glibc use jemalloc",
    "native": "Compare the sizes of all processes of the machine with its memory; let fewer share it, or give the "
    "container more",
    "unknown": "Look for what grows: a heap dump, the number of loaded classes, the process's resident size",
    "threads": "Raise the limit of threads (ulimit -u, the container's pids limit), and take a thread dump: "
    "clients that are opened and never closed leave threads behind",
}

_Member = tuple[h.JobFacts, h.Incident]


class RanOut(h.Limits):
    """What MM301 compares with."""

    heap_step: float = h.limit(0.25, "ratio", "a quarter more heap, then measure again")
    metaspace_step: float = h.limit(0.5, "ratio", "metaspace is small: half as much again")
    direct_step: float = h.limit(128, "MiB", "the size that Flink's framework itself gets")
    overhead_step: float = h.limit(
        0.5, "ratio", "native memory is not measured: half as much again"
    )
    heap_left: float = h.limit(0.75, "share", "of the heap; with less of it the heap runs out next")


def judge(facts: h.MemoryFacts, limits: RanOut) -> h.Iterator[h.Finding]:
    """One finding per place and pool."""
    groups: dict[tuple[str | None, str], list[_Member]] = {}
    for job in facts.jobs:
        for incident in filter(_ran_out, job.incidents):
            key = (incident.taskmanager or incident.host, memory_kind(incident))
            groups.setdefault(key, []).append((job, incident))
    for (place, kind), members in sorted(groups.items(), key=lambda g: (g[0][0] or "", g[0][1])):
        yield _finding(facts, place, kind, members, (), limits)
    by_pod: dict[str | None, list[h.Kill]] = {}
    for kill in facts.kills:
        if kill.for_memory:
            by_pod.setdefault(kill.pod, []).append(kill)
    for pod, kills in by_pod.items():
        if (pod, "container") not in groups:
            yield _finding(facts, pod, "container", [], kills, limits)


def _ran_out(incident: h.Incident) -> bool:
    failed = incident.kind == "task-failure" and "OutOfMemoryError" in (incident.cause or "")
    return failed or incident.kind == "out-of-memory"


def _finding(
    facts: h.MemoryFacts,
    place: str | None,
    kind: str,
    members: h.Sequence[_Member],
    kills: h.Sequence[h.Kill],
    limits: RanOut,
) -> h.Finding:
    job = members[0][0] if members else None
    incidents = [incident for _, incident in members]
    workers = [p for p in facts.processes if p.role == "taskmanager"]
    named = [p for p in facts.processes if p.taskmanager and p.taskmanager == place]
    process = next(iter((*named, *workers)), None)
    times = [i.time_us for i in incidents if i.time_us is not None]
    said = (incidents[-1].cause if incidents else kills[-1].text) or (
        "the container was killed" if kind == "container" else "ran out"
    )
    proposal = _proposal(facts, process, kind, limits)
    host = incidents[0].host if incidents else None
    where = h.fmt.place(place, host) if place or host else "a TaskManager"
    lasting = job is None or job_failed(job)
    return h.place_finding(
        job,
        place,
        host,
        severity=h.Severity.CRITICAL if lasting else h.Severity.WARNING,
        title=f"{_POOL[kind]} on {where}: {h.fmt.shorten(said, 80)}",
        why=f"{where}: {h.fmt.shorten(said, 120)}",
        cause="out-of-memory",
        rank=h.Rank.FATAL,
        option=next(iter(proposal.options), None) if proposal else None,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(incidents) + len(kills),
        explain=f"This memory holds {_USE[kind]}." if kind in _USE else _NO_POOL[kind],
        measurements=tuple(_measured(process, kind, kills)),
        evidence=h.cite((i.ref, i.time_us) for i in incidents)
        + tuple(h.Evidence(*kill.ref, None) for kill in kills),
        ranked=True,
        actions=tuple(_actions(process, kind, proposal)),
    )


def _proposal(
    facts: h.MemoryFacts, process: h.MemoryProcess | None, kind: str, limits: RanOut
) -> Proposal | None:
    if process is None or process.role != "taskmanager" or kind not in _USE:
        return None
    if kind == "heap":
        free = set(facts.backends.values()) == {"heap"}
        return more_heap(process, limits.heap_step, managed_is_free=free)
    if kind == "metaspace":
        return more_metaspace(process, limits.metaspace_step, limits.heap_left)
    if kind == "direct":
        return more_direct(process, int(limits.direct_step * h.model.MIB), limits.heap_left)
    return more_overhead(process, limits.overhead_step, limits.heap_left)


def _measured(
    process: h.MemoryProcess | None, kind: str, kills: h.Sequence[h.Kill]
) -> h.Iterator[h.Measurement]:
    now = current_pools(process) if process is not None else None
    if now is not None and kind in _USE:
        sizes = {
            "heap": ("heap", now.heap),
            "metaspace": ("metaspace", now.metaspace),
            "direct": ("direct-memory", now.direct),
            "container": ("process-size", now.process),
        }
        name, size = sizes[kind]
        yield h.measurement(name, size, "bytes", over="as configured")
    for kill in kills[-1:]:
        if kill.limit is not None:
            yield h.measurement("container-limit", kill.limit, "bytes")
        if kill.exit_code is not None:
            yield h.measurement("exit-code", kill.exit_code)


def _actions(
    process: h.MemoryProcess | None, kind: str, proposal: Proposal | None
) -> h.Iterator[h.Action]:
    if proposal is not None and process is not None:
        yield proposal_action(
            process,
            proposal,
            "Give it more, keeping the size of the process"
            if proposal.keeps_total
            else "Give it more; the process has to grow",
        )
    yield h.Action(text=_HINTS[kind])


RULE: Final = h.Rule("MM301", judge, RanOut, whole=True, causes=("out-of-memory",))
