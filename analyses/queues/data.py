"""Builds `data.vertices` and `data.taskmanagers` from the facts of `flowdiag queues`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from flowdiag.analyses.contract import queues as wire
from flowdiag.analyses.contract.report import iso
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load, by_task
from flowdiag.analyses.queues.facts import (
    Gauge,
    JobQueues,
    QueueFacts,
    Sample,
    TaskManagerSample,
    merge_gauges,
)
from flowdiag.analyses.queues.flow import BEHIND_S, flow_of
from flowdiag.analyses.queues.loads import has_task_order, loads_in, samples_in
from flowdiag.analyses.queues.neighbours.lags import Trend, direction_of
from flowdiag.analyses.queues.root import Spell, notable_spells
from flowdiag.analyses.queues.saturation import saturated_share
from flowdiag.analyses.queues.skew import skew_score

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Row, Rows


_SUBTASK_ROWS: Final = 5  # 8,000 subtasks take 3.5 MB


def queue_vertices(facts: QueueFacts, max_rows: int) -> list[wire.QueueVertex]:
    """Return the graph of each job, culprits first.

    Together, the vertices list at most a fifth of `max_rows` subtasks, so that a wide job does not fill the report.
    """
    found: list[wire.QueueVertex] = []
    for job in facts.jobs:
        if job.samples or job.totals:
            found += _vertices(job, max_rows)
    return found[:max_rows]


def queue_flow(facts: QueueFacts) -> list[wire.QueueFlow]:
    """Return which part limits each job, if the inputs show it."""
    found = []
    for job in facts.jobs:
        flow = flow_of(job)
        if flow is None:
            continue
        found.append(
            wire.QueueFlow(
                job_id=job.job.key.job_id,
                job_name=job.job.name,
                side=flow.side,
                task=flow.task,
                neighbour=flow.neighbour,
                text=flow.text,
                busy={str(side): share for side, share in flow.busy.items()},
                lag=None if flow.lag is None else _lag(flow.lag),
            )
        )
    return found


def _lag(trend: Trend) -> wire.QueueLag:
    behind = trend.behind_s
    return wire.QueueLag(
        of=trend.of,
        first=round(trend.first),
        last=round(trend.last),
        per_s=round(trend.per_s, 1),
        direction=direction_of(trend, BEHIND_S),
        behind_ms=None if behind is None else round(behind * 1000),
        first_seen=iso(trend.first_us),
        last_seen=iso(trend.last_us),
        points=[
            wire.QueueLagPoint(at=iso(us), records=round(records)) for us, records in trend.points
        ],
    )


def _vertices(job: JobQueues, max_rows: int) -> list[wire.QueueVertex]:
    spells, windows = notable_spells(job)
    loads = loads_in(job, windows)
    held = samples_in(job, windows)
    members = by_task(loads)
    ids = {v.task: v.vertex_id for v in job.job.graph.vertices} if job.job.graph else {}
    culprits = {load.key for spell in spells for load in spell.culprit_loads}
    most = max(1, max_rows // _SUBTASK_ROWS // max(1, len(job.topology.tasks)))
    found = []
    for task in job.topology.tasks:
        mine = members.get(task, [])
        subtasks = [_subtask(job, load, held.get(load.key, []), culprits) for load in mine]
        fullest = max(map(_fill, subtasks), default=None)
        subtasks.sort(
            key=lambda s: (not s.culprit, _fill(s) != fullest, -(s.busy or 0.0), s.subtask_index)
        )
        records = [load.records for load in mine if load.records is not None]
        found.append(
            wire.QueueVertex(
                job_id=job.job.key.job_id,
                job_name=job.job.name,
                vertex_id=ids.get(task),
                name=task,
                parallelism=job.topology.parallelism[task],
                role=role(job, task, mine, spells),
                busy=_max_known(s.busy for s in subtasks),
                back_pressured=_max_known(s.back_pressured for s in subtasks),
                idle=_max_known(s.idle for s in subtasks),
                skew=_round(skew_score(records)) if len(records) > 1 and any(records) else None,
                inputs=_inputs(job, task),
                graph_from=job.topology.known_from,
                subtasks=subtasks[:most],
                total=len(subtasks),
                truncated=len(subtasks) > most,
            )
        )
    return found


def _fill(subtask: wire.QueueSubtask) -> tuple[float, float]:
    """Return the sort key of a subtask: how full its input is."""
    return subtask.saturated_share or 0.0, subtask.queue_length or 0.0


def _inputs(job: JobQueues, task: str) -> list[wire.QueueInput]:
    """Return the tasks directly upstream. Empty if the order of the tasks is unknown."""
    if not has_task_order(job):
        return []
    edges = job.job.graph.shipping if job.job.graph else ()
    shipping = {(up, down): strategy for up, down, strategy in edges}
    return [
        wire.QueueInput(upstream=before, ship_strategy=shipping.get((before, task)))
        for before in job.topology.upstream.get(task, ())
    ]


def role(job: JobQueues, task: str, members: Sequence[Load], spells: Iterable[Spell]) -> str:
    """Return the role of a vertex in back pressure; see `QueueVertex`."""
    ends = [spell.task for spell in spells]
    if task in ends:
        return "root"
    if any(load.waits for load in members):
        return "back-pressured"
    if has_task_order(job) and any(task in job.topology.downstream(end) for end in ends):
        return "fed-by-root"
    return "ok" if members else "unknown"


def _max_known(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _round(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _mean(gauge: Gauge | None, scale: float = 1.0) -> float | None:
    return None if gauge is None else round(gauge.mean / scale, 4)


def _subtask(
    job: JobQueues, load: Load, each: Sequence[Sample], culprits: set[SubtaskKey]
) -> wire.QueueSubtask:
    def gauge(name: str) -> Gauge | None:
        return merge_gauges(sample.gauges.get(name) for sample in each)

    def increase(name: str) -> float | None:
        known = [sample.increases[name] for sample in each if name in sample.increases]
        return sum(known) if known else None

    key = load.key
    queue = gauge("input_queue")
    capacity = job.capacity.get(key)
    place = next((sample for sample in reversed(each) if sample.taskmanager), None)
    return wire.QueueSubtask(
        subtask_index=key.subtask_index,
        taskmanager=place.taskmanager if place else load.taskmanager,
        host=place.host if place else None,
        culprit=key in culprits,
        samples=sum(sample.samples for sample in each),
        busy=_round(load.busy) if load.measured else None,
        back_pressured=_round(load.back_pressured) if load.wait_measured else None,
        idle=_mean(gauge("idle"), 1000),
        records_in=load.records,
        bytes_in=increase("bytes_in"),
        queue_length=_mean(queue),
        queue_length_max=None if queue is None else queue.high,
        capacity=None if capacity is None else capacity.total,
        local_backlog=None if capacity is None else capacity.local,
        floating_usage=_mean(gauge("floating")),
        exclusive_usage=_mean(gauge("exclusive")),
        output_usage=_mean(gauge("out_pool")),
        saturated_share=_round(saturated_share(job, key, each)),
        gates=_queue_gates(job, key),
    )


def _queue_gates(job: JobQueues, key: SubtaskKey) -> list[wire.QueueGate]:
    return [
        wire.QueueGate(
            gate=gate.gate,
            samples=gate.samples,
            total=_round(gate.total),
            shortest=_round(gate.shortest),
            longest=_round(gate.longest),
            mean=_round(gate.mean),
        )
        for gate in job.gates
        if gate.key == key
    ]


def queue_taskmanagers(facts: QueueFacts, max_rows: int) -> list[wire.QueueTaskManager]:
    """Return the TaskManagers of each job, culprits first."""
    found = []
    for job in facts.jobs:
        spells, windows = notable_spells(job)
        culprits = {spell.taskmanager for spell in spells if spell.taskmanager}
        loads = loads_in(job, windows)
        places: dict[str, list[Load]] = {}
        for load in loads.values():
            if load.taskmanager is not None:
                places.setdefault(load.taskmanager, []).append(load)
        rows = []
        for name, mine in sorted(places.items()):
            reports = [
                report
                for report in job.taskmanagers.get(name, ())
                if windows is None or report.window in windows
            ]
            rows.append(_taskmanager(job, name, mine, reports, name in culprits))
        found += sorted(rows, key=lambda row: (not row.culprit, -(row.busy or 0.0)))
    return found[:max_rows]


def gc_share(reports: Sequence[TaskManagerSample]) -> float | None:
    """Return the share of time that a TaskManager spends in garbage collection."""
    known = [m for m in reports if m.gc_ms is not None and m.span_ms]
    span = sum(m.span_ms or 0.0 for m in known)
    return sum(m.gc_ms or 0.0 for m in known) / span if span else None


def _taskmanager(
    job: JobQueues,
    name: str,
    loads: Sequence[Load],
    reports: Sequence[TaskManagerSample],
    culprit: bool,
) -> wire.QueueTaskManager:
    def gauge(key: str) -> Gauge | None:
        return merge_gauges(report.gauges.get(key) for report in reports)

    used, most = gauge("heap_used"), gauge("heap_max")
    host = next(
        (s.host for each in job.samples.values() for s in each if s.taskmanager == name), None
    )
    return wire.QueueTaskManager(
        job_id=job.job.key.job_id,
        taskmanager=name,
        host=host,
        subtasks=len(loads),
        culprit=culprit,
        busy=_max_known(_round(load.busy) for load in loads if load.measured),
        gc_share=_round(gc_share(reports)),
        heap_used=_round(used.mean / most.mean) if used and most and most.mean > 0 else None,
        cpu=_mean(gauge("cpu")),
        segments=_mean(gauge("segments")),
        segments_free=_mean(gauge("segments_free")),
        segments_requested=_mean(gauge("segments_requested"), 100),
    )


# -- complete tables -----------------------------------------------------------------------------------

_ALL: Final = 1 << 62


def queue_tables(facts: QueueFacts) -> Rows:
    """Return the complete lists as rows of `report.tables`."""
    vertices = queue_vertices(facts, _ALL)
    yield "vertices", (msgspec.structs.asdict(vertex) for vertex in vertices)
    yield "subtasks", _subtasks(vertices)
    yield "input_gates", _gates(vertices)
    yield "taskmanagers", map(msgspec.structs.asdict, queue_taskmanagers(facts, _ALL))


def _subtasks(vertices: Iterable[wire.QueueVertex]) -> Iterator[Row]:
    for vertex in vertices:
        named = {"job_id": vertex.job_id, "job_name": vertex.job_name, "task": vertex.name}
        for subtask in vertex.subtasks:
            yield msgspec.structs.asdict(subtask) | named


def _gates(vertices: Iterable[wire.QueueVertex]) -> Iterator[Row]:
    for row in _subtasks(vertices):
        named = {name: row[name] for name in ("job_id", "job_name", "task", "subtask_index")}
        for gate in row["gates"]:
            yield msgspec.structs.asdict(gate) | named
