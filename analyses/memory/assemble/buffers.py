"""Calculates the network buffers that jobs need on each TaskManager, from plans and placements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.tasks import buffers as b
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import BufferNeeds, MemoryProcess
from flowdiag.parsers.rows import Event
from flowdiag.parsers.units import version_of

Row = Mapping[str, Any]


def buffers_of(
    jobs: Iterable[JobFacts], processes: Sequence[MemoryProcess], rows: Iterable[Row]
) -> list[BufferNeeds]:
    """Return the buffers that each TaskManager has and that its jobs need.

    Args:
        jobs: jobs with graphs and attempts.
        processes: provide segments and options.
        rows: rows of incidents, which contain the plans.
    """
    tasks: dict[str, list[b.TaskNeed]] = defaultdict(list)
    anywhere: dict[str, int] = defaultdict(int)
    hosts: dict[str, str | None] = {}
    plans = _plans(rows)
    for job in jobs:
        needed, most = _needs_of(job, processes, plans.get(job.key.job_id, ()))
        for taskmanager, needs in needed.items():
            tasks[taskmanager] += needs
            anywhere[taskmanager] += most
        hosts |= {a.taskmanager: a.host for a in job.attempts if a.taskmanager}
    found = []
    for taskmanager, needs in sorted(tasks.items()):
        process = next((p for p in processes if p.taskmanager == taskmanager), None)
        similar = process or next((p for p in processes if p.role == "taskmanager"), None)
        if similar is None:
            continue
        segments, size = _segments(similar)
        found.append(
            BufferNeeds(
                taskmanager=taskmanager,
                host=hosts.get(taskmanager),
                segments=segments,
                segment_bytes=size,
                required=_total_required(needs),
                desired=sum(need.desired for need in needs),
                any_placement=anywhere[taskmanager],
                tasks=tuple(needs),
                process=similar,
            )
        )
    return found


def _segments(process: MemoryProcess) -> tuple[int | None, int]:
    size = process.segment_bytes
    if size is None:
        try:
            size = m.segment_size(process.configured)
        except m.MemoryOptionError:
            size = m.DEFAULT_SEGMENT
    if process.segments is not None:
        return process.segments, size
    network = process.observed.get("taskmanager.memory.network")
    if network is None and process.derived is not None and process.derived.memory is not None:
        memory = process.derived.memory
        network = None if isinstance(memory, m.JobManagerMemory) else memory.network
    return (None if network is None else network // size), size


def _needs_of(
    job: JobFacts, processes: Sequence[MemoryProcess], plan: Sequence[_Input]
) -> tuple[dict[str, list[b.TaskNeed]], int]:
    """Return the needs of a job by TaskManager, and the need for any placement. Without a plan, both are empty."""
    edges, parallelism = _edges(job, plan)
    by_region = b.regions(parallelism, edges)
    if not edges:
        return {}, 0
    version = version_of(job.version) or _any_version(processes) or m.LATEST
    configured = next((p.configured for p in processes if p.role == "taskmanager"), {})
    settings = b.Settings.of(configured, version)
    name = job.name or job.key.job_id
    worst: dict[str, list[b.TaskNeed]] = {}
    slots = 1
    for placement in _rounds(job):
        by_taskmanager: dict[str, list[b.TaskNeed]] = defaultdict(list)
        for need in b.needs(name, parallelism, edges, placement, settings, version):
            by_taskmanager[need.taskmanager].append(need)
        if len(set(by_region.values())) > 1:
            by_taskmanager = _largest_regions(by_taskmanager, by_region)
        for taskmanager, needs in by_taskmanager.items():
            if _total_required(needs) > _total_required(worst.get(taskmanager, ())):
                worst[taskmanager] = needs
            slots = max(slots, *Counter(need.task for need in needs).values())
    text = configured.get("taskmanager.numberOfTaskSlots", "")
    if text.isdecimal():
        slots = max(slots, min(int(text), 1024))
    return worst, b.worst_placement(parallelism, edges, slots, settings, version)


def _total_required(needs: Iterable[b.TaskNeed]) -> int:
    return sum(need.required for need in needs)


def _any_version(processes: Iterable[MemoryProcess]) -> m.Version | None:
    return next((found for p in processes if (found := version_of(p.version))), None)


class _Input(NamedTuple):
    """An input of a vertex in a plan. Several may come from the same vertex."""

    number: str
    upstream: str
    vertex_id: str
    pattern: str
    exchange: str


def _plans(rows: Iterable[Row]) -> dict[str, list[_Input]]:
    """Return the inputs of all vertices by job ID, without duplicates."""
    found: dict[str, dict[tuple[str, str, str], _Input]] = defaultdict(dict)
    for row in rows:
        if row["what"] != "incident" or row["event"] != Event.EDGE or not row["job_id"]:
            continue
        fields = row["fields"] or {}
        if not fields.get("upstream") or not row["vertex_id"]:
            continue
        planned = _Input(
            fields.get("number") or "",
            fields["upstream"],
            row["vertex_id"],
            (fields.get("ship_strategy") or "HASH").upper(),
            (fields.get("exchange") or "").lower(),
        )
        found[row["job_id"]].setdefault(planned[:3], planned)
    return {job_id: list(inputs.values()) for job_id, inputs in found.items()}


def _largest_regions(
    by_taskmanager: Mapping[str, list[b.TaskNeed]], by_region: Mapping[str, str]
) -> dict[str, list[b.TaskNeed]]:
    """Return, for each TaskManager, the concurrent tasks with the highest total need."""
    found: dict[str, list[b.TaskNeed]] = {}
    for taskmanager, needs in by_taskmanager.items():
        groups: dict[str, list[b.TaskNeed]] = defaultdict(list)
        for need in needs:
            groups[by_region.get(need.task, "")].append(need)
        found[taskmanager] = max(groups.values(), key=_total_required)
    return found


def _edges(job: JobFacts, plan: Sequence[_Input]) -> tuple[list[b.Edge], dict[str, int]]:
    graph = job.graph
    if graph is None:
        return [], {}
    parallelism = {vertex.task: vertex.parallelism for vertex in graph.vertices}
    names = {vertex.vertex_id: vertex.task for vertex in graph.vertices if vertex.vertex_id}
    planned = [
        b.Edge(
            names[item.upstream],
            names[item.vertex_id],
            item.pattern,
            blocking=item.exchange.startswith(("block", "hybrid")),
        )
        for item in plan
        if item.upstream in names and item.vertex_id in names
    ]
    if planned:
        return planned, parallelism
    shipped = {(up, down): strategy for up, down, strategy in graph.shipping}
    edges = [b.Edge(up, down, shipped.get((up, down), "HASH").upper()) for up, down in graph.edges]
    return edges, parallelism


_ROUNDS: Final = 40


def _rounds(job: JobFacts) -> list[dict[tuple[str, int], str]]:
    """Return where each subtask ran in each of the last `_ROUNDS` deployments."""
    by_round: dict[int, dict[tuple[str, int], str]] = defaultdict(dict)
    for a in job.attempts:
        if a.task and a.subtask_index is not None and a.taskmanager:
            by_round[a.attempt or 0][(a.task, a.subtask_index)] = a.taskmanager
    rounds: list[dict[tuple[str, int], str]] = []
    for number in sorted(by_round):
        # A region of the job may restart alone, while all other subtasks keep their place.
        rounds.append({**(rounds[-1] if rounds else {}), **by_round[number]})
    return rounds[-_ROUNDS:]
