"""Checks that packed rows contain what the rows of a series each contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from flowdiag.analyses.flink.lifecycle import COUNTERS
from flowdiag.analyses.flink.lifecycle import LOADS as GAUGES
from flowdiag.parsers.discover import discover
from flowdiag.parsers.packing import LOAD, LOADS, PACKED, VALUES, packed
from flowdiag.parsers.rows import EVENTS, METRIC
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked

RECORDING = Path(__file__).parents[2] / "fixtures/recordings/flink/1.20.5/hot-key"


def metric(name: str, value: float, task: str = "map", **more: Any) -> dict[str, Any]:
    """Return the row of a metric with one sample."""
    values = dict.fromkeys(METRIC.names, value)
    named = {"name": name, "kind": "gauge", "scope": "task", "operator": None, "count": 1}
    row = {"source": 0, "offset": 7, "event": "metric", "task": task, "metric": values | named}
    return dict.fromkeys(EVENTS.names) | row | more


def names_in(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the names of the metrics in each packed row."""
    table = packed(pa.Table.from_pylist(rows, schema=EVENTS))
    table.validate(full=True)
    return [[name for name, _ in row or ()] for row in table["metrics"].to_pylist()]


def test_a_row_holds_adjacent_metrics_of_one_subject_in_ascending_order() -> None:
    event = dict.fromkeys(EVENTS.names) | {"source": 0, "offset": 7, "event": "section"}
    assert names_in([metric("a", 1), metric("b", 2), metric("c", 3)]) == [["a", "b", "c"]]
    assert names_in([metric("a", 1), metric("b", 2, "sink")]) == [["a"], ["b"]]
    assert names_in([metric("b", 1), metric("a", 2)]) == [["b"], ["a"]]
    assert names_in([metric("a", 1), metric("a", 2)]) == [["a"], ["a"]]
    assert names_in([metric("a", 1), metric("b", 2, duration_ms=5)]) == [["a"], ["b"]]
    assert names_in([metric("a", 1), metric("b", 2, fields=[("k", "v")])]) == [["a"], ["b"]]
    assert names_in([event, metric("a", 1), event, event, metric("b", 2)]) == [
        [], ["a"], [], [], ["b"]
    ]  # fmt: skip
    assert names_in([]) == []


def test_nothing_is_lost_in_a_recording() -> None:
    tasks = plan_splits(discover([str(unpacked(RECORDING) / "logs")]).sources)
    table = parse_on_driver(tasks)
    result = packed(table)
    assert result.schema == PACKED
    assert packed(result) is result
    found = []
    for row in result.to_pylist():
        metrics, loads = row.pop("metrics"), row.pop("loads")
        place = {"scope": row.pop("scope"), "operator": row.pop("operator")}
        by_name = dict(metrics or ())
        assert len(by_name) == len(metrics or ())
        expected = {name: by_name.get(name) for name in LOADS}
        own = {
            name: values and {each.name: values[each.name] for each in LOAD}
            for name, values in expected.items()
        }
        assert loads == (None if metrics is None else own)
        if metrics is None:
            found.append(row | {"metric": None})
        for name, values in metrics or ():
            assert set(values) == {each.name for each in VALUES}
            found.append(row | {"metric": {"name": name, **place, **values}})
    key = str
    assert sorted(found, key=key) == sorted(
        ({name: row[name] for name in found[0]} for row in table.to_pylist()), key=key
    )
    measured = sum(row["event"] == "metric" for row in found)
    assert result.num_rows < len(found) - measured * 0.8


def test_every_load_has_its_column() -> None:
    named = {name for names in (*GAUGES.values(), *COUNTERS.values()) for name in names}
    assert named == set(LOADS)
