"""Compares the formula of the autoscaler with decisions of its library."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.flink.autoscaler.formula import (
    Decision,
    Evaluated,
    PastScaling,
    Vertex,
    capacity,
    decide,
    evaluate,
    fit,
    propose,
    scalability,
)
from flowdiag.analyses.flink.autoscaler.published import published_states
from flowdiag.analyses.flink.autoscaler.replay import current_decision, job_graph, steps, why
from flowdiag.analyses.flink.autoscaler.settings import Settings, settings_from
from flowdiag.analyses.flink.autoscaler.state import (
    collected_metrics,
    instant_ns,
    is_state,
    scalings_of,
    state_of,
)

RECORDED: Final = Path(__file__).parents[2] / "fixtures" / "recordings" / "rescaling"
VERTEX: Final = "cbc357ccb763df2852fee8c4fc7d55f2"
_METRICS: Final = {
    "TRUE_PROCESSING_RATE": ("average", "true_rate"),
    "TARGET_DATA_RATE": ("average", "target_rate"),
    "CATCH_UP_DATA_RATE": ("current", "catch_up_rate"),
    "SCALE_UP_RATE_THRESHOLD": ("current", "scale_up_below"),
    "SCALE_DOWN_RATE_THRESHOLD": ("current", "scale_down_above"),
    "LOAD": ("average", "load"),
}


def recorded_decisions() -> list[Any]:
    content = (RECORDED / "decisions.jsonl.zst").read_bytes()
    text = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return [json.loads(line) for line in text.splitlines()]


def _vertices(case: Any) -> list[Vertex]:
    return [Vertex(**vertex) for vertex in case["vertices"]]


def _history(document: Any) -> dict[str, list[PastScaling]]:
    found: defaultdict[str, list[PastScaling]] = defaultdict(list)
    for scaling in scalings_of(document):
        found[scaling.vertex].append(scaling.past)
    return found


def test_all_metrics_equal_those_of_the_library() -> None:
    for case in recorded_decisions():
        settings = settings_from(case["options"])
        found = evaluate(
            collected_metrics(case["collected"])[0], _vertices(case), settings, settings.restart_s
        )
        for vertex, evaluated in found.items():
            real = case["evaluated"]["vertexMetrics"][vertex]
            for name, (part, field) in _METRICS.items():
                expected = float(real[name][part])
                assert getattr(evaluated, field) == pytest.approx(
                    expected, abs=0.0011, rel=0, nan_ok=True
                ), (vertex, name)


def test_all_decisions_equal_those_of_the_library() -> None:
    scaled = 0
    for case in recorded_decisions():
        settings, vertices = settings_from(case["options"]), _vertices(case)
        totals = case["evaluated"]["globalMetrics"]
        decision = decide(
            evaluate(
                collected_metrics(case["collected"])[0], vertices, settings, settings.restart_s
            ),
            vertices,
            settings,
            settings.restart_s,
            _history(case["history"]),
            delayed=frozenset(vertex.id for vertex in vertices),
            gc_pressure=totals["GC_PRESSURE"]["current"],
            heap_usage=totals["HEAP_MAX_USAGE_RATIO"]["average"],
        )
        overrides = {k: int(v) for k, v in case["overrides"].items()}
        expected = {
            v.id: overrides[v.id]
            for v in vertices
            if overrides.get(v.id, v.parallelism) != v.parallelism
        }
        assert decision.changes(with_delayed=True) == expected
        assert (decision.reason == "scale") == case["scaled"]
        scaled += case["scaled"]
    assert scaled > 40


def _evaluated(**fields: Any) -> Evaluated:
    known = {"vertex": VERTEX, "parallelism": 2, "true_rate": 100, "target_rate": 140}
    return Evaluated(**{**known, "catch_up_rate": 0, **fields})


def _vertex(**fields: Any) -> Vertex:
    return Vertex(**{"id": VERTEX, "parallelism": 2, "max_parallelism": 120, **fields})


def test_a_scale_up_without_effect_blocks_the_next_one() -> None:
    past = PastScaling(before=1, after=2, true_rate=98, expected_rate=196)
    blocking = Settings(blocks_ineffective=True)
    found = propose(_evaluated(), _vertex(), blocking, 0, [past])
    assert found.reason == "ineffective"
    assert found.increase == pytest.approx(0.0204, abs=1e-4)
    assert propose(_evaluated(), _vertex(), Settings(), 0, [past]).reason is None
    # A scale-up that achieved a part of the expected increase counts.
    assert propose(_evaluated(true_rate=150), _vertex(), blocking, 0, [past]).reason is None


def test_a_partial_speed_up_requires_more_subtasks() -> None:
    history = [
        PastScaling(before=n, after=n + 1, true_rate=rate, expected_rate=0)
        for n, rate in ((1, 100), (2, 160), (3, 210))
    ]
    assert scalability(history, Settings(scalability=True)) == 0.75
    assert scalability(history, Settings()) == 1.0
    assert scalability(history[:2], Settings(scalability=True)) == 1.0


@pytest.mark.parametrize(
    ("fields", "options", "reason"),
    [
        ({"true_rate": math.nan}, {}, "no-rate"),
        ({"target_rate": math.nan}, {}, "no-rate"),
        ({"true_rate": 200}, {}, "balanced"),
        ({}, {"job.autoscaler.vertex.exclude.ids": VERTEX}, "excluded"),
    ],
)
def test_the_reason_for_not_scaling(
    fields: dict[str, float], options: dict[str, str], reason: str
) -> None:
    settings = settings_from(options, Settings(catch_up_s=0))
    found = propose(_evaluated(**fields), _vertex(), settings, 0)
    assert found.reason == reason
    assert why(found)


def test_heap_usage_above_its_threshold_prevents_scaling() -> None:
    found = decide(
        {VERTEX: _evaluated()}, [_vertex()], Settings(heap_usage=0.8), 0, {}, heap_usage=0.9
    )
    assert found == Decision(proposals={}, reason="memory-pressure")


@given(
    factor=st.floats(0, 1000),
    parallelism=st.integers(1, 200),
    most=st.integers(1, 1000),
    partitions=st.integers(0, 300),
)
def test_a_parallelism_is_within_its_limits(
    factor: float, parallelism: int, most: int, partitions: int
) -> None:
    vertex = _vertex(
        parallelism=min(parallelism, most),
        max_parallelism=most,
        partitions=partitions,
        inputs={"a": "HASH"},
    )
    size, _ = fit(factor, vertex, Settings())
    assert 1 <= size <= most


@given(target=st.floats(0, 1e9), catch_up=st.floats(0, 1e9), utilization=st.floats(0.01, 1))
def test_a_lower_utilization_needs_more_capacity(
    target: float, catch_up: float, utilization: float
) -> None:
    needed = capacity(target, catch_up, utilization, Settings(), 10)
    assert needed >= capacity(target, catch_up, 1, Settings(), 10) >= math.floor(target)


def test_options_have_two_prefixes_and_two_names() -> None:
    assert (
        settings_from({"kubernetes.operator.job.autoscaler.restart.time": "1min"}).restart_s == 60
    )
    both = {"job.autoscaler.target.utilization": "0.5", "job.autoscaler.utilization.target": "0.6"}
    assert settings_from(both).target_utilization == 0.6
    assert settings_from({"job.autoscaler.restart.time": "soon"}) == Settings()
    tracked = settings_from({"job.autoscaler.restart.time-tracking.enabled": "true"})
    assert tracked.expected_restart_s([12.4, 40.9]) == 40
    assert tracked.expected_restart_s([4000]) == 900
    assert Settings().expected_restart_s([12]) == 300


@pytest.mark.parametrize("value", ["1.2.3", ".", "-", "5.", "1E", "9" * 400])
def test_a_published_value_that_is_not_a_number_is_ignored(value: str) -> None:
    line = f"AutoScaler.jobVertexID.{'a' * 32}.LAG.Current: {value}"
    assert published_states(line) == []


def test_a_damaged_state_is_empty() -> None:
    document = {
        "kind": "ConfigMap",
        "data": {"scalingHistory": "H4sIAAA", "collectedMetrics": "a: ["},
    }
    assert is_state(document)
    state = state_of(document)
    assert (state.scalings, state.collected, state.vertices) == ((), {}, ())
    assert current_decision(state, [_vertex()], Settings()) is None
    assert steps(state, [_vertex()], Settings()) == []
    assert instant_ns("2026-02-30T00:00:00Z") is None


def test_a_job_graph_with_a_cycle_is_still_ordered() -> None:
    nodes = [
        {"id": "sink", "inputs": [{"id": "map", "ship_strategy": "HASH"}]},
        {"id": "map", "inputs": [{"id": "source", "ship_strategy": "FORWARD"}]},
        {"id": "source", "parallelism": 3},
    ]
    graph = job_graph({"plan": {"nodes": nodes}, "vertices": [{"id": "map", "maxParallelism": 8}]})
    assert [vertex.id for vertex in graph] == ["source", "map", "sink"]
    assert (graph[0].parallelism, graph[1].max_parallelism, graph[2].aligns) == (3, 8, True)
    loop = [{"id": "a", "inputs": [{"id": "b"}]}, {"id": "b", "inputs": [{"id": "a"}]}]
    assert len(job_graph({"plan": {"nodes": loop}})) == 2


def recorded_rounds() -> list[Any]:
    """Return the truth and the options of each recording with an autoscaler."""
    found = []
    for path in sorted(RECORDED.glob("*/*/truth.json")):
        truth = json.loads(path.read_text())
        if "autoscaler" in truth:
            provenance = json.loads((path.parents[1] / "provenance.json").read_text())
            options = provenance[path.parent.name]["autoscaler"]["options"]
            name = f"{path.parents[1].name}-{path.parent.name}"
            found.append(pytest.param(truth["autoscaler"], options, id=name))
    return found


def _ordered(inputs: dict[str, dict[str, str]]) -> list[str]:
    """Return the vertices in topological order."""
    ordered: list[str] = []
    while len(ordered) < len(inputs):
        ordered += [
            vertex
            for vertex, upstream in inputs.items()
            if vertex not in ordered and all(each in ordered for each in upstream)
        ]
    return ordered


@pytest.mark.parametrize(("truth", "options"), recorded_rounds())
def test_every_recorded_round_has_the_same_result(truth: Any, options: dict[str, str]) -> None:
    settings, everything = settings_from(options), collected_metrics(truth["collected"])[0]
    decisions = 0
    for real in truth["rounds"]:
        first, last = (instant_ns(time) or 0 for time in real["window"])
        window = {time: sample for time, sample in everything.items() if first <= time <= last}
        metrics = real["evaluated"]["vertexMetrics"]
        vertices = [
            Vertex(
                id=vertex,
                parallelism=int(metrics[vertex]["PARALLELISM"]["current"]),
                max_parallelism=int(metrics[vertex]["MAX_PARALLELISM"]["current"]),
                inputs=real["inputs"][vertex],
            )
            for vertex in _ordered(real["inputs"])
        ]
        found = evaluate(window, vertices, settings, real["restart_s"])
        for vertex, evaluated in found.items():
            for name, (part, field) in _METRICS.items():
                expected = float(metrics[vertex][name][part])
                assert getattr(evaluated, field) == pytest.approx(expected, abs=0.0011, nan_ok=True)
        if not real["fully_collected"]:
            continue
        decision = decide(
            found,
            vertices,
            settings,
            real["restart_s"],
            _history(real["history"]),
            delayed=frozenset(vertex.id for vertex in vertices),
        )
        overrides = {k: int(v) for k, v in real.get("overrides", {}).items()}
        expected_changes = {
            v.id: overrides[v.id]
            for v in vertices
            if real["scaled"] and overrides[v.id] != v.parallelism
        }
        assert decision.changes(with_delayed=True) == expected_changes
        decisions += 1
    assert decisions
