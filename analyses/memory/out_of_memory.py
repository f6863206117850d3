"""Judges CP303 for `flowdiag memory`, by pool and by killed container, with values from Flink's memory model."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.flink.advice.exception_texts import exception_measurements
from flowdiag.analyses.flink.advice.memory_pools import POOLS
from flowdiag.analyses.flink.advice.memory_processes import (
    TASKMANAGER,
    MemoryProcess,
    explanation_of,
    process_of_incident,
    process_of_pod,
    remedies_of,
    title_of,
)
from flowdiag.analyses.flink.failures.crises import (
    classify_incident,
    memory_kind,
    memory_kind_of_text,
)
from flowdiag.analyses.flink.helpers import remedies
from flowdiag.analyses.flink.judging import job_failed
from flowdiag.analyses.flink.rules.out_of_memory import RULE, Limits, judge
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.memory import advice
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.native import SWITCH, is_unlimited
from flowdiag.parsers.lines.failure_lines import short_failure

__all__ = ["RULE"]

# The measurement that shows the configured size of each kind of memory.
_SIZES: Final = {
    "heap": ("heap", "heap"),
    "metaspace": ("metaspace", "metaspace"),
    "direct": ("direct-memory", "direct"),
    "container": ("process-size", "process"),
}

_NUMBERED: Final = ("network", "virtual")
"""The kinds of memory whose errors contain sizes that the configuration lacks."""


@judge.register
def judge_pools(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each place and kind of memory."""
    groups: dict[tuple[str | None, str], list[tuple[h.JobFacts, h.Incident]]] = {}
    for job in facts.jobs:
        for incident in _without_traces(job.incidents):
            failed = incident.kind == "task-failure" and "OutOfMemoryError" in (
                incident.cause or ""
            )
            if failed or incident.kind == "out-of-memory":
                key = (incident.taskmanager or incident.host, memory_kind(incident))
                groups.setdefault(key, []).append((job, incident))
    for (place, kind), members in sorted(groups.items(), key=lambda g: (g[0][0] or "", g[0][1])):
        incidents = [incident for _, incident in members]
        yield _finding(facts, place, kind, members[0][0], incidents, (), limits)
    for (pod, kind), kills in _kills_by_pod(facts).items():
        if (pod, kind) not in groups:
            yield _finding(facts, pod, kind, None, [], kills, limits)


def _without_traces(incidents: h.Sequence[h.Incident]) -> h.Iterator[h.Incident]:
    """Yield incidents except errors that are lines of a failed task's stack trace.

    The JobManager's log contains the traces of tasks, so such a line does not show that its own memory ran out.
    """
    above: h.Incident | None = None
    for incident in sorted(incidents, key=lambda each: each.ref or h.Ref(-1, 0)):
        if incident.kind == "task-failure":
            above = incident
        elif incident.kind == "out-of-memory" and incident.time_us is None and above is not None:
            trace = f"{above.text.get('exception', '')}\n{above.cause or ''}"
            if _is_below(incident, above) and (incident.cause or "-") in trace:
                continue
        yield incident


_TRACE_BYTES: Final = 65_536  # a longer stack trace is cut


def _is_below(incident: h.Incident, above: h.Incident) -> bool:
    if incident.ref is None or above.ref is None or incident.ref.source != above.ref.source:
        return False
    return incident.ref.offset - above.ref.offset < _TRACE_BYTES


def _kills_by_pod(facts: h.MemoryFacts) -> dict[tuple[str | None, str], list[h.Kill]]:
    """Group killed containers by pod and kind of memory. Executors form one group, because all have the same size."""
    found: dict[tuple[str | None, str], list[h.Kill]] = {}
    executors: dict[str, str | None] = {}
    for kill in facts.kills:
        if kill.is_for_memory:
            kind = "virtual" if memory_kind_of_text(kill.text) == "virtual" else "container"
            pod = kill.pod or h.lost_at(facts, kill.time_us)
            pod = executors.setdefault(kind, pod) if _is_executor(pod) else pod
            found.setdefault((pod, kind), []).append(kill)
    return found


def _is_executor(pod: str | None) -> bool:
    return h.spark_loss(pod) == "executor-lost"


def _finding(
    facts: h.MemoryFacts,
    place: str | None,
    kind: str,
    job: h.JobFacts | None,
    incidents: h.Sequence[h.Incident],
    kills: h.Sequence[h.Kill],
    limits: Limits,
) -> h.Finding:
    holder = (
        process_of_incident(incidents[-1])
        if incidents
        else process_of_pod(place, facts.engine, kills[-1].component)
    )
    of_worker = holder is TASKMANAGER
    process = _process(facts, place) if of_worker else None
    times = h.times_of((*incidents, *kills))
    text = incidents[-1].cause if incidents else _kill_text(process, kills)
    text = text or ("the container was killed" if kind == "container" else "memory ran out")
    if (numbers := short_failure(text)) is not None:
        text = numbers.partition(": ")[2] or text
    option, actions = _advise(facts, process, kind, holder, job, limits)
    host = incidents[0].host if incidents else None
    recovered = not incidents and h.has_recovered(facts, max(times, default=None), place)
    where = _place(place, host, holder) + _others(kills)
    return h.place_finding(
        job,
        *((place, host) if of_worker else (None, None)),
        severity=_severity(job, place, recovered=recovered),
        state=h.State.RECOVERED if recovered else h.State.ONGOING,
        title=f"{title_of(kind, where, of_worker=of_worker)}: {h.fmt.shorten(text, 120)}",
        why=f"{where}: {h.fmt.shorten(text, 120)}",
        cause="out-of-memory",
        rank=h.Rank.FATAL,
        option=option,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(incidents) + _count(kills),
        explain=explanation_of(kind, holder),
        measurements=(*_measurements(process, kind, kills), *_numbers(incidents, kind)),
        evidence=h.cite((i.ref, i.time_us) for i in incidents)
        + tuple(h.Evidence(*kill.ref, kill.time_us) for kill in kills),
        ranked=True,
        actions=actions,
    )


def _severity(job: h.JobFacts | None, place: str | None, *, recovered: bool) -> h.Severity:
    # An application continues with its other executors, and its driver starts new ones.
    survived = recovered or _is_executor(place) or (job is not None and not job_failed(job))
    return h.Severity.WARNING if survived else h.Severity.CRITICAL


def _others(kills: h.Sequence[h.Kill]) -> str:
    more = len({kill.pod for kill in kills}) - 1
    return f" and {more} more" if more > 0 else ""


def _count(kills: h.Sequence[h.Kill]) -> int:
    return sum(max(kill.restarts or 1, kill.count) for kill in kills)


def _kill_text(process: h.MemoryProcess | None, kills: h.Sequence[h.Kill]) -> str:
    """Describe the last kill, with the container's limit and the size that Flink plans for."""
    kill = next((each for each in reversed(kills) if each.limit is not None), kills[-1])
    text = _BYTES.sub(lambda found: h.fmt.size(int(found[1])), kill.text)
    if kill.limit is None:
        return text
    now = advice.current_pools(process) if process is not None else None
    if kill.heap is not None and kill.heap < kill.limit:
        rest = h.fmt.size(kill.limit - kill.heap)
        return (
            f"{text}, limit {h.fmt.size(kill.limit)}: heap {h.fmt.size(kill.heap)}, overhead {rest}"
        )
    planned = f", Flink's process size {h.fmt.size(now.process)}" if now is not None else ""
    often = f", {h.fmt.plural(kill.restarts, 'restart')}" if kill.restarts else ""
    return f"{text}, limit {h.fmt.size(kill.limit)}{planned}{often}"


# A size as printed by YARN: `is running 166842368B beyond the 'PHYSICAL' memory limit`.
_BYTES: Final = re.compile(r"\b(\d{4,15})B\b")


def _process(facts: h.MemoryFacts, place: str | None) -> h.MemoryProcess | None:
    """Return the TaskManager with this name. If it is unknown, return any, because all are configured alike."""
    named = [p for p in facts.processes if p.taskmanager and p.taskmanager == place]
    workers = [p for p in facts.processes if p.role == "taskmanager"]
    return next(iter((*named, *workers)), None)


def _proposal(
    facts: h.MemoryFacts, process: h.MemoryProcess | None, kind: str, limits: Limits
) -> advice.Proposal | None:
    if process is None or process.role != "taskmanager" or kind not in _SIZES:
        return None
    if kind == "heap":
        return advice.more_heap(process, limits.heap_step, managed_is_free=facts.managed_is_free)
    if kind == "metaspace":
        return advice.more_metaspace(process, limits.metaspace_step, limits.heap_left)
    if kind == "direct":
        step = int(limits.direct_step * h.model.MIB)
        return advice.more_direct(process, step, limits.heap_left)
    return advice.more_overhead(process, limits.overhead_step, limits.heap_left)


def _measurements(
    process: h.MemoryProcess | None, kind: str, kills: h.Sequence[h.Kill]
) -> h.Iterator[h.Measurement]:
    now = advice.current_pools(process) if process is not None else None
    if now is not None and kind in _SIZES:
        name, size = _SIZES[kind]
        yield h.measurement(name, getattr(now, size), "bytes", over="as configured")
    for kill in kills[-1:]:
        if kill.limit is not None:
            yield h.measurement("container-limit", kill.limit, "bytes")
        if kill.exit_code is not None:
            yield h.measurement("exit-code", kill.exit_code)


def _place(place: str | None, host: str | None, holder: MemoryProcess) -> str:
    of_known_worker = holder is TASKMANAGER and (place or host)
    if of_known_worker:
        return h.fmt.place(place, host)
    return f"{holder.what}, {place}" if place and holder.is_pod else holder.what


def _numbers(incidents: h.Sequence[h.Incident], kind: str) -> h.Iterator[h.Measurement]:
    if kind in _NUMBERED and incidents:
        yield from exception_measurements(classify_incident(incidents[-1]))


def _advise(
    facts: h.MemoryFacts,
    process: h.MemoryProcess | None,
    kind: str,
    holder: MemoryProcess,
    job: h.JobFacts | None,
    limits: Limits,
) -> tuple[str | None, tuple[h.Action, ...]]:
    """Return the option to change, if there is one, and the remedies."""
    if kind == "container" and process is not None and is_unlimited(facts, process):
        return SWITCH, _limit_rocksdb(process)
    proposal = _proposal(facts, process, kind, limits)
    option = next(iter(proposal.options), None) if proposal else None
    return option, tuple(_actions(process, kind, proposal, holder, job))


def _limit_rocksdb(process: h.MemoryProcess) -> tuple[h.Action, ...]:
    """Return the remedy for a container that RocksDB can fill, because it has no limit."""
    cause, current = "unmanaged-rocksdb", process.configured.get(SWITCH)
    version = process.version
    return (h.remedy_action(cause, "bound", option=SWITCH, current=current, version=version),)


def _actions(
    process: h.MemoryProcess | None,
    kind: str,
    proposal: advice.Proposal | None,
    holder: MemoryProcess,
    job: h.JobFacts | None,
) -> h.Iterator[h.Action]:
    if proposal is not None and process is not None:
        yield advice.proposal_action(
            process,
            proposal,
            "Increase this memory pool. The process size stays the same"
            if proposal.keeps_total
            else "Increase this memory pool. The process grows by the same amount",
        )
    if kind == "network" or holder is not TASKMANAGER:
        for name in remedies_of(kind, holder):
            remedy = CAUSES["out-of-memory"].remedy(name)
            if remedy.engine == "spark":
                yield h.remedy_action("out-of-memory", name, option=remedy.option)
            else:
                yield from remedies("out-of-memory", job or h.UNKNOWN_JOB, name)
    else:
        yield h.Action(text=POOLS[kind].check)
