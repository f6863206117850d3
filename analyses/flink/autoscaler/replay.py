"""Replays the decisions of the autoscaler from its stored state and the job graph, with its own or other options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from flowdiag.analyses.flink.autoscaler.formula import (
    MOST,
    NAN,
    Decision,
    Evaluated,
    Proposal,
    Vertex,
    capacity,
    decide,
    evaluate,
    propose,
)
from flowdiag.analyses.flink.autoscaler.settings import Settings
from flowdiag.analyses.flink.autoscaler.state import Scaling, State
from flowdiag.analyses.model import fmt
from flowdiag.parsers.json_values import as_integer, object_at, objects_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded scaling of a vertex, and the formula's proposal for the same metrics."""

    scaling: Scaling
    proposal: Proposal

    @property
    def is_equal(self) -> bool:
        """Whether the formula reproduces the recorded parallelism."""
        return self.proposal.parallelism == self.scaling.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The decisions under one set of options: for the latest metrics and for every recorded scaling."""

    name: str
    settings: Settings
    present: Decision | None
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A job, the recorded state of its autoscaler, and the outcomes."""

    state: State
    graph: Sequence[Vertex]
    outcomes: Sequence[Outcome]


def job_graph(document: Mapping[str, Any]) -> list[Vertex]:
    """Read the vertices from a `/jobs/:jobid` response, in topological order."""
    nodes = {str(n.get("id")): n for n in objects_at(object_at(document, "plan"), "nodes")}
    details = {str(vertex.get("id")): vertex for vertex in objects_at(document, "vertices")}
    inputs = {vertex: _inputs(node, nodes) for vertex, node in nodes.items()}
    return [
        _vertex(vertex, nodes[vertex], details.get(vertex, {}), inputs[vertex])
        for vertex in _topological_order(inputs)
    ]


def _inputs(node: Mapping[str, Any], nodes: Mapping[str, Any]) -> dict[str, str]:
    """Return how each input of a vertex is partitioned, by upstream vertex, without vertices outside the plan."""
    return {
        str(edge.get("id")): str(edge.get("ship_strategy", "")).upper()
        for edge in objects_at(node, "inputs")
        if str(edge.get("id")) in nodes
    }


def _topological_order(inputs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Sort vertices so that inputs come first. Cycles are broken at an arbitrary point."""
    ordered: list[str] = []
    while waiting := [vertex for vertex in inputs if vertex not in ordered]:
        ready = [vertex for vertex in waiting if all(i in ordered for i in inputs[vertex])]
        ordered += ready or waiting[:1]
    return ordered


def _vertex(
    vertex: str, node: Mapping[str, Any], details: Mapping[str, Any], inputs: Mapping[str, str]
) -> Vertex:
    parallelism = as_integer(details.get("parallelism", node.get("parallelism")))
    return Vertex(
        id=vertex,
        name=str(details.get("name") or node.get("description") or "") or None,
        parallelism=parallelism or 1,
        max_parallelism=as_integer(details.get("maxParallelism")) or MOST,
        inputs=inputs,
    )


def current_decision(state: State, graph: Sequence[Vertex], settings: Settings) -> Decision | None:
    """Return the decision for the latest metrics, or None if a vertex has fewer than two samples."""
    if state.published:
        return _published_decision(state, graph, settings)
    window = {t: s for t, s in state.collected.items() if all(v.id in s for v in graph)}
    if len(window) < 2 or not graph:
        return None
    restart_s = settings.expected_restart_s(state.restarts_s)
    evaluated = evaluate(window, graph, settings, restart_s)
    heaps = [
        sample["HEAP_MAX_USAGE_RATIO"]
        for time, sample in state.totals.items()
        if time in window and "HEAP_MAX_USAGE_RATIO" in sample
    ]
    return decide(
        evaluated,
        graph,
        settings,
        restart_s,
        _history(state.scalings),
        heap_usage=sum(heaps) / len(heaps) if heaps else NAN,
        gc_pressure=state.totals.get(max(window), {}).get("GC_PRESSURE", NAN),
    )


def _published_decision(
    state: State, graph: Sequence[Vertex], settings: Settings
) -> Decision | None:
    """Return the decision for metrics that the autoscaler has already evaluated."""
    restart_s = settings.expected_restart_s(state.restarts_s)
    evaluated: dict[str, Evaluated] = {}
    vertices: list[Vertex] = []
    for vertex in graph:
        now = Scaling(
            vertex=vertex.id, at_ns=0, before=0, after=0, metrics=state.published.get(vertex.id, {})
        )
        before = _count(now.current("PARALLELISM"), vertex.parallelism)
        vertices.append(_vertex_at_scaling(vertex, replace(now, before=before)))
        evaluated[vertex.id] = evaluated_of(replace(now, before=before), settings, restart_s)
    return decide(evaluated, vertices, settings, restart_s, {}) if vertices else None


def _vertex_at_scaling(vertex: Vertex, scaling: Scaling) -> Vertex:
    """Return a vertex with the parallelism and limits that applied at the time of a scaling."""
    return replace(
        vertex,
        parallelism=scaling.before,
        partitions=_count(scaling.current("NUM_SOURCE_PARTITIONS"), 0),
        max_parallelism=_count(scaling.current("MAX_PARALLELISM"), vertex.max_parallelism),
    )


def _history(scalings: Iterable[Scaling]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for scaling in scalings:
        found.setdefault(scaling.vertex, []).append(scaling.past)
    return found


def steps(state: State, graph: Sequence[Vertex], settings: Settings) -> list[Step]:
    """Return every recorded scaling with what the formula proposes for the same metrics."""
    restart_s = settings.expected_restart_s(state.restarts_s)
    by_id = {vertex.id: vertex for vertex in graph}
    found: list[Step] = []
    for scaling in state.scalings:
        vertex = by_id.get(scaling.vertex)
        if vertex is None:
            continue
        at_that_time = _vertex_at_scaling(vertex, scaling)
        evaluated = evaluated_of(scaling, settings, restart_s)
        earlier = [
            s.past for s in state.scalings if s.vertex == vertex.id and s.at_ns < scaling.at_ns
        ]
        proposal = propose(evaluated, at_that_time, settings, restart_s, earlier)
        found.append(Step(scaling=scaling, proposal=proposal))
    return found


def _count(value: float, otherwise: int) -> int:
    return int(value) if value > 0 and value <= MOST else otherwise


def evaluated_of(scaling: Scaling, settings: Settings, restart_s: float) -> Evaluated:
    """Return the metrics of a recorded scaling, with the bounds from the settings."""
    target = scaling.average("TARGET_DATA_RATE")
    catch_up = scaling.current("CATCH_UP_DATA_RATE")
    return Evaluated(
        vertex=scaling.vertex,
        parallelism=scaling.before,
        true_rate=scaling.average("TRUE_PROCESSING_RATE"),
        target_rate=target,
        catch_up_rate=catch_up,
        load=scaling.average("LOAD"),
        lag=scaling.current("LAG"),
        scale_up_below=capacity(target, catch_up, settings.upper_bound, settings, None),
        scale_down_above=capacity(target, catch_up, settings.lower_bound, settings, restart_s),
    )


_LIMITS: Final = {
    "scale-up-factor": "job.autoscaler.scale-up.max-factor",
    "scale-down-factor": "job.autoscaler.scale-down.max-factor",
    "max-parallelism": "the maximum parallelism",
    "min-parallelism": "job.autoscaler.vertex.min-parallelism",
    "key-groups": "an even spread of key groups or partitions",
}
_REASONS: Final = {
    "no-rate": "no true processing rate or target rate",
    "ineffective": "the last scale-up was ineffective",
    "delayed": "job.autoscaler.scale-down.interval delays the scale-down",
    "excluded": "excluded by job.autoscaler.vertex.exclude.ids",
}


def why(proposal: Proposal, decision: str = "scale") -> str:
    """Explain in one line why the parallelism of a vertex changes or stays the same."""
    if proposal.reason in _REASONS:
        return _REASONS[str(proposal.reason)]
    evaluated = proposal.evaluated
    needs = f"needs {_rate(proposal.capacity)}/s and can process {_rate(evaluated.true_rate)}/s"
    limits = "; limited by " + " and ".join(_LIMITS[each] for each in proposal.limits)
    tail = limits if proposal.limits else ""
    if proposal.reason == "balanced":
        return f"{needs}: the parallelism fits{tail}"
    if decision == "within-bounds":
        return (
            f"{needs}: within the bounds of {_rate(evaluated.scale_up_below)} to "
            f"{_rate(evaluated.scale_down_above)}/s"
        )
    return f"{needs}{tail}"


def _rate(value: float) -> str:
    return fmt.number(round(value, 1)) if abs(value) < 1e15 else "unlimited"
