"""Tests locations, task names and attempt IDs: they round-trip, and missing parts stay missing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.messages import (
    AttemptId,
    Location,
    TaskName,
    convert,
    parse_attempt_id,
    parse_location,
    parse_resource_id,
    parse_task,
)

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
WORD = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,40}[A-Za-z0-9]", fullmatch=True)
HOST = st.from_regex(r"[a-z][a-z0-9.-]{0,30}[a-z0-9]", fullmatch=True)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=80), st.integers(1, 9999), st.data())
def test_task_round_trip(name: str, parallelism: int, data: st.DataObject) -> None:
    subtask = data.draw(st.integers(1, parallelism))
    attempt = data.draw(st.none() | st.integers(0, 99))
    suffix = "" if attempt is None else f"#{attempt}"
    found = parse_task(f"{name} ({subtask}/{parallelism}){suffix}")
    assert found == TaskName(name.strip(), subtask - 1, parallelism, attempt)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Map (3/2)", TaskName("Map (3/2)")),
        ("Map (0/2)", TaskName("Map (0/2)")),
        ("Map (1/2) extra", TaskName("Map (1/2) extra")),
        ("(1/2)", TaskName("", 0, 2)),
        ("", TaskName("")),
    ],
)
def test_unusual_task_names(text: str, task: TaskName) -> None:
    assert parse_task(text) == task


@settings(max_examples=60, deadline=None)
@given(WORD, HOST, st.integers(-1, 65535))
def test_location_round_trip(resource: str, host: str, port: int) -> None:
    printed = f"{resource} @ {host} (dataPort={port})"
    assert parse_location(printed) == Location(resource, host, port)
    assert parse_location(f"{resource}(node:8041) @ {host} (dataPort={port})") == Location(
        resource, host, port
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("Unknown location", Location()),
        ("[unassigned resource]", Location()),
        ("(unassigned)", Location()),
        ("not deployed", Location()),
        ("org.apache.flink.runtime.jobmaster.slotpool.SingleLogicalSlot@6929f626", Location()),
        ("worker-3", Location(None, "worker-3")),
        ("worker-3.", Location(None, "worker-3")),
        ("tm-1 @ (dataPort=40090)", Location("tm-1", None, 40090)),
        ("tm-1 @(dataPort=40090)", Location("tm-1", None, 40090)),
        ("tm-1 @  (dataPort=40090)", Location("tm-1", None, 40090)),
        ("@ (dataPort=40090)", Location(None, None, 40090)),
        ("tm-1(node-7:34772) @ (dataPort=1)", Location("tm-1", "node-7", 1)),
        ("slot 1b2c on worker-3", Location(None, "worker-3")),
        ("tm-1 @ worker-3 (dataPort=***)", Location("tm-1", "worker-3")),
        ("", Location()),
    ],
)
def test_locations(text: str, where: Location) -> None:
    assert parse_location(text) == where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("container_1_000002", Location("container_1_000002")),
        ("container_1_000002.", Location("container_1_000002")),
        ("container_1_000002(worker-3:34772)", Location("container_1_000002", "worker-3")),
        ("172.18.0.3:33783-3e38f6", Location("172.18.0.3:33783-3e38f6")),
        ("", Location()),
    ],
)
def test_resource_ids(text: str, where: Location) -> None:
    assert parse_resource_id(text) == where


@given(HEX, HEX, st.integers(0, 9999), st.integers(0, 99))
def test_attempt_id_round_trip(graph: str, vertex: str, subtask: int, attempt: int) -> None:
    assert parse_attempt_id(graph) == AttemptId(graph)
    printed = f"{graph}_{vertex}_{subtask}_{attempt}"
    assert parse_attempt_id(printed) == AttemptId(printed, graph, vertex, subtask, attempt)


def test_the_most_precise_value_wins() -> None:
    values = convert(
        {
            "task": "Map (2/4)",
            "attempt_id": "a" * 32 + "_" + "b" * 32 + "_1_3",
            "location": "tm-1 @ worker-3 (dataPort=1)",
            "type": " SAVEPOINT ",
            "path": None,
            "bytes": "12x",
        }
    )
    assert values == {
        "task": "Map",
        "subtask_index": 1,
        "parallelism": 4,
        "attempt_id": "a" * 32 + "_" + "b" * 32 + "_1_3",
        "vertex_id": "b" * 32,
        "attempt": 3,
        "taskmanager": "tm-1",
        "host": "worker-3",
        "fields": {"data_port": "1", "type": "SAVEPOINT"},
    }


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    parse_task(text)
    parse_location(text)
    parse_resource_id(text)
    parse_attempt_id(text)
    names = ("task", "location", "resource_id", "attempt_id", "execution_vertex")
    for name in (*names, "seconds", "end_epoch_ms", "checkpoint"):
        convert({name: text})
