"""Collecting from Spark drivers and Prometheus servers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.errors import FlowdiagError
from tests.collecting import (
    APPLICATION,
    BEGIN,
    SCRAPES,
    FakePrometheus,
    Row,
    collect_from_spark,
    collect_history,
    recorded_driver,
    recorded_spark,
    rows_of,
)
from tests.fake_server import NOT_FOUND, Reply, as_json, serving


def metrics_of(folder: Path) -> list[Row]:
    return [row for row in rows_of(folder) if row["event"] == "metric"]


# -- Spark -----------------------------------------------------------------------------------


def test_changed_spark_batches_are_stored(tmp_path: Path) -> None:
    answers = recorded_spark()
    base = f"/api/v1/applications/{APPLICATION}"
    answers[f"{base}/environment"] = {
        "sparkProperties": [
            ["spark.streaming.backpressure.enabled", "true"],
            ["spark.hadoop.fs.s3a.secret.key", "hunter2secret"],
        ]
    }
    batches = answers[f"{base}/streaming/batches"]
    queued = sum(item["status"] == "QUEUED" for item in batches)
    assert queued
    requests = 0

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        nonlocal requests
        if path.endswith("/batches"):
            requests += 1
            if requests == 2:
                for item in batches:
                    if item["status"] == "QUEUED":
                        item |= {"status": "COMPLETED", "processingTime": 10, "schedulingDelay": 5}
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        outcome = collect_from_spark(server.url, tmp_path / "c", ticks=2)
    assert outcome.ticks == 2 and outcome.why == "the requested time has elapsed"
    stored = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "c").glob("tick-*"))]
    items = [
        len(answer["body"])
        for file in stored
        for answer in file["answers"]
        if answer["path"].endswith("/batches")
    ]
    assert items == [len(batches), queued]
    text = b"".join(path.read_bytes() for path in (tmp_path / "c").iterdir())
    assert b"hunter2" not in text and b"fs.s3a.secret.key" in text
    rows = rows_of(tmp_path / "c")
    batch_rows = [row for row in rows if row["event"] == "spark_batch"]
    assert {row["application"] for row in batch_rows} == {APPLICATION}
    assert len({row["epoch_ms"] for row in batch_rows}) == len(batches)
    assert {row["event"] for row in rows} >= {
        "spark_application",
        "spark_receiver",
        "spark_settings",
    }


def test_spark_without_dstreams_names_other_inputs(tmp_path: Path) -> None:
    answers = {k: v for k, v in recorded_spark().items() if "streaming" not in k}

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        outcome = collect_from_spark(server.url, tmp_path / "c")
        assert "event log" in outcome.why
        with pytest.raises(FlowdiagError, match="no application is named 'x'"):
            collect_from_spark(server.url, tmp_path / "d", application="x")
    with (
        serving(lambda path, query: as_json({"flink-version": "2"})) as server,
        pytest.raises(FlowdiagError, match="not the REST API of a Spark driver"),
    ):
        collect_from_spark(server.url, tmp_path / "e")


PAGES = {
    "starting": Reply(
        b"Spark is starting up. Please wait a while until it's ready.", kind="text/html"
    ),
    "no path yet": Reply(b"<html>404 Not Found</html>", status=404, kind="text/html"),
    "a page": Reply(b"<html><body>x</body></html>", kind="text/html"),
}


@pytest.mark.parametrize("page", PAGES)
def test_collect_waits_for_a_driver_that_is_starting(page: str, tmp_path: Path) -> None:
    refusals = 4

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        nonlocal refusals
        if path.endswith("/version") and refusals:
            refusals -= 1
            return PAGES[page]
        return recorded_driver(path, query)

    messages: list[str] = []
    with serving(respond) as server:
        outcome = collect_from_spark(
            server.url,
            tmp_path / "c",
            1,
            progress=messages.append,
            start_s=20.0,
            start_pause_s=0.01,
        )
    assert outcome.ticks == 1
    assert not refusals
    assert any("in case the driver is starting" in line for line in messages)
    with serving(lambda path, query: PAGES[page]) as server, pytest.raises(FlowdiagError):
        collect_from_spark(server.url, tmp_path / "d", 1, start_s=0.05, start_pause_s=0.01)
    with serving(lambda path, query: Reply(status=403)) as server:
        with pytest.raises(FlowdiagError, match="denies access"):
            collect_from_spark(server.url, tmp_path / "e", 1, start_s=20.0)
        assert len(server.requests) == 1


# -- Prometheus ------------------------------------------------------------------------------


def test_history_matches_the_scrapes(tmp_path: Path) -> None:
    with serving(FakePrometheus()) as server:
        outcome = collect_history(server.url, tmp_path / "c", job="ord*")
        assert outcome.why == "the time span is complete" and not outcome.warnings
        requests = len(server.requests)
        # A window has at most 10 000 steps and an hour; two windows, one request per metric and window.
        queries = [path for path in server.requests if "query_range" in path]
        assert len(queries) == len(set(queries)) < 2 * 75
        assert max(map(len, server.requests)) < 1024
        again = collect_history(server.url, tmp_path / "c", job="ord*")
        assert again.why == "everything is already stored" and len(server.requests) == requests + 1
    heap = [
        row for row in metrics_of(tmp_path / "c") if row["metric"]["name"].endswith("Heap.Used")
    ]
    assert len({row["taskmanager"] for row in heap}) == 4  # process metrics have no job
    history = {
        (row["task"], row["subtask_index"], row["utc_us"] // 60_000_000): row["metric"]
        for row in metrics_of(tmp_path / "c")
        if row["metric"]["name"] == "busyTimeMsPerSecond"
    }
    seen: dict[Any, list[float]] = defaultdict(list)
    for row in metrics_of(SCRAPES):
        if row["metric"]["name"] == "busyTimeMsPerSecond" and row["metric"]["count"]:
            minute = row["utc_us"] // 60_000_000
            seen[row["task"], row["subtask_index"], minute].append(row["metric"]["sum"])
    assert len({key[:2] for key in history}) == 14
    for key, sums in seen.items():
        assert history[key]["count"] == len(sums)
        assert history[key]["sum"] == pytest.approx(sum(sums))


def test_history_without_flink_metrics(tmp_path: Path) -> None:
    empty = as_json({"status": "success", "data": []})
    with (
        serving(lambda path, query: empty) as server,
        pytest.raises(FlowdiagError, match="no Flink metrics in this time span"),
    ):
        collect_history(server.url, tmp_path / "c")
    with (
        serving(lambda path, query: as_json({"x": 1})) as server,
        pytest.raises(FlowdiagError, match="not the Prometheus query API"),
    ):
        collect_history(server.url, tmp_path / "d")


def test_a_rejected_query_does_not_stop_the_others(tmp_path: Path) -> None:
    prometheus = FakePrometheus()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if "busyTime" in query.get("query", [""])[0]:
            return as_json({"status": "error", "error": "too many samples"}, status=422)
        return prometheus(path, query)

    with serving(respond) as server:
        outcome = collect_history(server.url, tmp_path / "c", to_s=BEGIN + 200)
    assert outcome.why == "the time span is complete"
    assert outcome.warnings == ("/api/v1/query_range: responds with 422",)
    names = {row["metric"]["name"] for row in metrics_of(tmp_path / "c")}
    assert "idleTimeMsPerSecond" in names and "busyTimeMsPerSecond" not in names
