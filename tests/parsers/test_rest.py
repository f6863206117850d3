"""REST responses and archives: shapes of all versions, ids, damage, and the recordings."""

import gzip
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.flink import rest
from flowdiag.parsers.flink.rest import read_document
from flowdiag.parsers.flink.rest_shapes import recognize, rest_path_of
from flowdiag.parsers.flink.statistics_dump import parse_dump
from flowdiag.parsers.rows import Tally
from flowdiag.parsers.source import Source, open_source
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings" / "flink"
JOB = "0123456789abcdef0123456789abcdef"
VERTEX = "cbc357ccb763df2852fee8c4fc7d55f2"
OTHER = "90bea66de1c231edf33913ecd54406c1"

Row = dict[str, Any]


def rows_of_bytes(data: bytes, name: str = "", *, url: str | None = None) -> list[Row]:
    rows = rest._rows(data, name, url, Tally(), rest._Neighbours())
    return [row for _, row in rows]


def rows_of(body: object, name: str = "") -> list[Row]:
    return rows_of_bytes(json.dumps(body).encode(), name)


def only(rows: list[Row], event: str) -> Row:
    (row,) = (row for row in rows if row["event"] == event)
    return row


def source_of(path: Path, *, kind: str = "rest", url: str | None = None) -> Source:
    return Source(
        index=3,
        name=str(path),
        path=str(path),
        member=None,
        codec="gzip" if path.suffix == ".gz" else "none",
        encoding="utf-8",
        size=path.stat().st_size,
        kind=kind,
        engine="flink",
        role="unknown",
        group=str(path),
        url=url,
        splittable=False,
        reason=None,
    )


def opened(source: Source, counts: Tally) -> Iterator[pa.RecordBatch]:
    with open_source(source) as stream:
        yield from read_document(stream, source, counts)


def read(path: Path, **options: Any) -> tuple[list[Row], Tally]:
    counts = Tally()
    rows = [
        row for batch in opened(source_of(path, **options), counts) for row in batch.to_pylist()
    ]
    for row in rows:
        row["fields"] = dict(row["fields"])
    return rows, counts


# ------------------------------------------------------------------------------ recordings


def recordings() -> list[Path]:
    return sorted(path for path in RECORDINGS.glob("*/*") if (path / "truth.json").exists())


recorded = pytest.mark.parametrize(
    "recording", recordings(), ids=lambda p: f"{p.parent.name}-{p.name}"
)


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.is_file())


@recorded
def test_every_recorded_response_is_recognised(recording: Path) -> None:
    for path in files(unpacked(recording) / "rest"):
        rows, counts = read(path)
        assert (counts.candidates, counts.not_understood) == (1, 0), path.name
        for row in rows:
            if row["event"] in ("process_identity", "taskmanager_registered"):
                continue
            assert row["job_id"], path.name
            if row["event"] in ("checkpoint_subtask", "checkpoint_vertex", "placed", "vertex"):
                assert row["vertex_id"], path.name


@recorded
def test_every_recorded_response_has_its_requested_path(recording: Path) -> None:
    for path in files(unpacked(recording) / "rest"):
        data, name = path.read_bytes(), path.name
        found = rest_path_of(json.loads(data), name)
        assert found is not None
        assert found.strip("/").replace("/", "_") + ".json" == name
        assert recognize(data[: 256 * 1024], name) == ("rest", found)


@recorded
def test_a_recorded_archive_contains_the_last_checkpoints(recording: Path) -> None:
    truth = json.loads((recording / "truth.json").read_text())
    if not (unpacked(recording) / "archive").exists():
        pytest.skip("recorded without an archive")
    for path in files(unpacked(recording) / "archive"):
        rows, counts = read(path, kind="archive")
        assert counts.not_understood == 0
        jobs = {row["job_id"] for row in rows}
        assert len(jobs) == 1
        if jobs != {truth.get("job", {}).get("job_id")}:
            continue
        ends = {
            row["checkpoint"]: row
            for row in rows
            if row["event"] == "checkpoint_status" and row["fields"]["detail"] == "details"
        }
        expected = truth["checkpoints"]
        for number, row in ends.items():
            assert row["to_state"] == row["fields"]["status"] != "IN_PROGRESS"
            assert (row["to_state"] == "COMPLETED") == (number in expected["completed"])
            if number in expected["expired"]:
                assert row["cause"].startswith("Checkpoint expired before completing")
            assert row["epoch_ms"] * 1000 == row["utc_us"]
        vertices = {
            row["vertex_id"]: (row["task"], row["parallelism"])
            for row in rows
            if row["event"] == "vertex" and row["parallelism"]
        }
        assert vertices == {
            vertex["id"]: (vertex["name"], vertex["parallelism"])
            for vertex in truth["job"]["vertices"]
        }
        subtasks = Counter(
            (row["checkpoint"], row["task"]) for row in rows if row["event"] == "checkpoint_subtask"
        )
        assert subtasks == {
            (number, name): parallelism
            for number in ends
            for name, parallelism in vertices.values()
        }


# ------------------------------------------------------------------------------ shapes


def checkpoint(**more: object) -> dict[str, object]:
    """Return a checkpoint of 1.4; later versions add keys."""
    return {
        "id": 7,
        "status": "COMPLETED",
        "is_savepoint": False,
        "trigger_timestamp": 1_600_000_000_000,
        "latest_ack_timestamp": 1_600_000_001_500,
        "state_size": 1234,
        "end_to_end_duration": 1500,
        "alignment_buffered": 0,
        "num_subtasks": 3,
        "num_acknowledged_subtasks": 3,
        "tasks": {},
        **more,
    }


def test_a_checkpoint_of_the_oldest_version() -> None:
    rows = rows_of(
        {
            "counts": {"restored": 0, "total": 1, "in_progress": 0, "completed": 1, "failed": 0},
            "summary": {},
            "latest": {"completed": checkpoint(), "savepoint": None, "restored": None},
            "history": [checkpoint(external_path="<checkpoint-not-externally-addressable>")],
        },
        f"{JOB}.json",
    )
    row = only(rows, "checkpoint_status")
    assert row["job_id"] == JOB
    assert (row["checkpoint"], row["epoch_ms"], row["utc_us"]) == (
        7,
        1_600_000_000_000,
        1_600_000_000_000_000,
    )
    assert (row["duration_ms"], row["bytes"], row["to_state"]) == (1500, 1234, "COMPLETED")
    assert row["fields"]["type"] == "CHECKPOINT"
    assert row["fields"]["latest_ack_ms"] == "1600000001500"
    assert "external_path" not in row["fields"]
    assert only(rows, "checkpoint_counts")["fields"]["completed"] == "1"


def test_latest_and_restored_checkpoints() -> None:
    rows = rows_of(
        {
            "counts": {},
            "latest": {
                "completed": checkpoint(id=3),
                "failed": checkpoint(id=9, status="FAILED"),
                "restored": {
                    "id": 2,
                    "restore_timestamp": 1_600_000_000_123,
                    "is_savepoint": True,
                    "external_path": "s3://b/sp",
                },
            },
            "history": [checkpoint(id=9, status="FAILED")],
        }
    )
    assert [
        (row["checkpoint"], row["fields"]["detail"])
        for row in rows
        if row["event"] == "checkpoint_status"
    ] == [(9, "history"), (3, "latest")]
    restored = only(rows, "restored")
    assert (restored["checkpoint"], restored["utc_us"]) == (2, 1_600_000_000_123_000)


def test_an_exception_shows_the_component_that_threw_it() -> None:
    """Check that REST names the same component as the stack trace in a log."""
    waited = (
        "java.lang.Exception: Could not complete the stream element: Record @ 1 : 7\n"
        "\tat org.apache.flink.streaming.api.operators.async.AsyncWaitOperator$ResultHandler"
        ".completeExceptionally(AsyncWaitOperator.java:632)\n"
        "Caused by: java.util.concurrent.TimeoutException: Async function call has timed out.\n"
        "\tat org.apache.flink.streaming.api.functions.async.AsyncFunction.timeout(AsyncFunction.java:97)\n"
    )
    own = "java.lang.RuntimeException: no price\n\tat com.acme.Enrich.map(Enrich.java:7)\n"
    entries = [
        {
            "stacktrace": text,
            "taskName": "fetch-price (1/2) - execution #0",
            "timestamp": 1_600_000_000_000,
        }
        for text in (waited, own)
    ]
    rows = rows_of({"exceptionHistory": {"entries": entries}}, f"jobs/{JOB}/exceptions.json")
    assert [row["fields"].get("component") for row in rows] == ["async-io", None]


def test_details_with_vertices_and_a_failure() -> None:
    message = (
        "Checkpoint was declined.\nCaused by: java.io.IOException: disk full\n\tat x.y(Z.java:1)"
    )
    rows = rows_of(
        checkpoint(
            status="FAILED",
            latest_ack_timestamp=-1,
            failure_timestamp=1_600_000_002_000,
            failure_message=message,
            checkpoint_type="UNALIGNED_CHECKPOINT",
            tasks={
                VERTEX: {
                    "id": 7,
                    "status": "FAILED",
                    "latest_ack_timestamp": -1,
                    "state_size": 0,
                    "end_to_end_duration": -1,
                    "alignment_buffered": 0,
                    "num_subtasks": 3,
                    "num_acknowledged_subtasks": 0,
                }
            },
        ),
        f"jobs/{JOB}/details_7.json",
    )
    row = only(rows, "checkpoint_status")
    assert row["cause"] == "java.io.IOException: disk full"
    assert row["fields"]["failure_ms"] == "1600000002000"
    assert row["fields"]["type"] == "UNALIGNED_CHECKPOINT"
    assert "latest_ack_ms" not in row["fields"]
    vertex = only(rows, "checkpoint_vertex")
    assert (vertex["vertex_id"], vertex["parallelism"], vertex["checkpoint"]) == (VERTEX, 3, 7)
    assert vertex["duration_ms"] is None and vertex["utc_us"] is None


def subtask_details(**first: object) -> dict[str, object]:
    return {
        "id": 7,
        "status": "COMPLETED",
        "latest_ack_timestamp": 1_600_000_001_500,
        "state_size": 99,
        "end_to_end_duration": 1500,
        "alignment_buffered": 0,
        "num_subtasks": 2,
        "num_acknowledged_subtasks": 1,
        # The percentiles are time stamps in every version and must be ignored.
        "summary": {
            "end_to_end_duration": {"min": 1, "max": 2, "avg": 1, "p99": 1_600_000_001_500}
        },
        "subtasks": [
            {
                "index": 0,
                "status": "completed",
                "ack_timestamp": 1_600_000_001_500,
                "end_to_end_duration": 1500,
                "state_size": 99,
                "checkpoint": {"sync": 3, "async": 40},
                "alignment": {"buffered": 5, "duration": 700},
                **first,
            },
            {"index": 1, "status": "pending_or_failed"},
        ],
    }


def test_subtasks_of_a_checkpoint_in_old_and_new_versions() -> None:
    name = f"jobs_{JOB}_checkpoints_details_7_subtasks_{VERTEX}.json"
    old = rows_of(subtask_details(), name)
    done, waiting = (row for row in old if row["event"] == "checkpoint_subtask")
    assert (done["checkpoint"], done["vertex_id"], done["job_id"]) == (7, VERTEX, JOB)
    assert (done["subtask_index"], done["parallelism"]) == (0, 2)
    assert (done["duration_ms"], done["bytes"], done["utc_us"]) == (1500, 99, 1_600_000_001_500_000)
    assert done["fields"] == {
        "status": "completed",
        "checkpoint_status": "COMPLETED",
        "ack_ms": "1600000001500",
        "sync_ms": "3",
        "async_ms": "40",
        "alignment_ms": "700",
        "alignment_buffered": "5",
        "origin": "rest",
    }
    assert waiting["fields"]["status"] == "pending_or_failed"
    assert waiting["duration_ms"] is None and waiting["bytes"] is None
    new = rows_of(
        subtask_details(
            alignment={"buffered": 0, "duration": 700, "processed": 11, "persisted": 12},
            start_delay=650,
            unaligned_checkpoint=True,
            aborted=True,
            checkpointed_size=98,
        ),
        name,
    )
    fields = next(row for row in new if row["event"] == "checkpoint_subtask")["fields"]
    assert (fields["start_delay_ms"], fields["alignment_processed"]) == ("650", "11")
    assert (fields["unaligned"], fields["aborted"]) == ("true", "true")


@pytest.mark.parametrize(
    ("item", "host", "taskmanager"),
    [
        ({"host": "w1.example.org"}, "w1.example.org", None),
        ({"host": "w1.example.org:4711"}, "w1.example.org", None),
        ({"host": "w1", "taskmanager-id": "tm-1"}, "w1", "tm-1"),
        ({"host": "w1", "endpoint": "w1.example.org:4711"}, "w1.example.org", None),
        ({"endpoint": "w1.example.org:4711", "taskmanager-id": "tm-1"}, "w1.example.org", "tm-1"),
        ({"endpoint": "[fe80::1]:4711"}, "[fe80::1]", None),
        ({"host": "(unassigned)", "taskmanager-id": "(unassigned)"}, None, None),
    ],
)
def test_the_place_of_a_subtask(
    item: dict[str, str], host: str | None, taskmanager: str | None
) -> None:
    body = {
        "id": VERTEX,
        "name": "Map",
        "parallelism": 1,
        "now": 1,
        "subtasks": [
            {
                "subtask": 0,
                "status": "RUNNING",
                "attempt": 2,
                "start-time": 1_600_000_000_000,
                "end-time": -1,
                "duration": 5,
                "metrics": {"read-records": 8, "accumulated-busy-time": "NaN"},
                "start_time": 1_600_000_000_000,
                **item,
            }
        ],
    }
    row = only(rows_of(body), "placed")
    assert (row["host"], row["taskmanager"]) == (host, taskmanager)
    assert (row["task"], row["vertex_id"], row["attempt"]) == ("Map", VERTEX, 2)
    assert row["fields"]["read-records"] == "8"
    assert row["fields"]["accumulated-busy-time"] == "NaN"


def test_the_job_its_vertices_and_its_plan() -> None:
    body = {
        "jid": JOB,
        "name": "Orders",
        "state": "FAILING",
        "start-time": 1_600_000_000_000,
        "end-time": -1,
        "now": 1_600_000_009_000,
        "timestamps": {"RUNNING": 1_600_000_001_000, "FAILING": 1_600_000_008_000, "FAILED": 0},
        "vertices": [
            {"id": VERTEX, "name": "Source: a", "parallelism": 2, "metrics": {}},
            {"id": OTHER, "name": "Sink: b", "parallelism": 4, "metrics": {}},
        ],
        "plan": {
            "jid": JOB,
            "nodes": [
                {
                    "id": OTHER,
                    "parallelism": 4,
                    "description": "Sink&#58; b<br/>",
                    "inputs": [{"num": 0, "id": VERTEX, "ship_strategy": "HASH"}],
                },
                {"id": VERTEX, "parallelism": 2, "description": "Source&#58; a<br/>"},
            ],
        },
    }
    rows = rows_of(body)
    state = only(rows, "job_state")
    assert (state["to_state"], state["utc_us"]) == ("FAILING", 1_600_000_008_000_000)
    assert state["fields"]["at_RUNNING"] == "1600000001000"
    assert "at_FAILED" not in state["fields"]
    assert [
        (row["task"], row["parallelism"], row["fields"]["order"])
        for row in rows
        if row["event"] == "vertex"
    ] == [("Source: a", 2, "0"), ("Sink: b", 4, "1")]
    edge = only(rows, "edge")
    assert (edge["vertex_id"], edge["fields"]["upstream"]) == (OTHER, VERTEX)
    assert (edge["fields"]["ship_strategy"], edge["fields"]["description"]) == ("HASH", "Sink: b")
    assert {row["job_id"] for row in rows} == {JOB}


TRACE = (
    "org.apache.flink.runtime.JobException: Recovery is suppressed\n\tat a.b(C.java:1)\n"
    "Caused by: java.lang.IllegalStateException: boom: really\n\t... 3 more\n"
)


def test_exceptions_before_the_history() -> None:
    rows = rows_of(
        {
            "root-exception": TRACE,
            "timestamp": 1_600_000_000_000,
            "all-exceptions": [
                {
                    "exception": TRACE,
                    "task": "Map (a, b) -> Sink (2/4)",
                    "location": "w1.example.org:4711",
                    "timestamp": 1_600_000_000_000,
                }
            ],
            "truncated": False,
        },
        f"jobs_{JOB}_exceptions.json",
    )
    row = only(rows, "task_state")
    assert (row["task"], row["subtask_index"], row["parallelism"]) == ("Map (a, b) -> Sink", 1, 4)
    assert (row["host"], row["to_state"]) == ("w1.example.org", "FAILED")
    assert row["cause"] == "java.lang.IllegalStateException: boom: really"
    assert row["utc_us"] == 1_600_000_000_000_000
    assert row["fields"]["scope"] == "task"
    assert row["fields"]["exception"].endswith("JobException: Recovery is suppressed")
    assert row["fields"]["user_frame"] == "a.b(C.java:1)"


def test_a_failure_of_the_whole_job() -> None:
    rows = rows_of({"root-exception": TRACE, "timestamp": 1_600_000_000_000, "all-exceptions": []})
    row = only(rows, "task_state")
    assert row["task"] is None and row["fields"]["scope"] == "job"


def test_the_history_of_exceptions() -> None:
    entry = {
        "exceptionName": "java.lang.IllegalStateException",
        "stacktrace": TRACE,
        "timestamp": 1_600_000_000_000,
        "taskName": "Map (2/4) - execution #3",
        "endpoint": "w1.example.org:4711",
        "taskManagerId": "tm-1",
        "failureLabels": {"type": "user"},
        "concurrentExceptions": [
            {"exceptionName": "x.Y", "stacktrace": "x.Y: z", "timestamp": 1, "taskName": None}
        ],
    }
    rows = rows_of(
        {
            "root-exception": TRACE,
            "timestamp": 1_600_000_000_000,
            "all-exceptions": [{"exception": TRACE, "task": "Map (2/4)"}],
            "exceptionHistory": {"entries": [entry], "truncated": False},
        }
    )
    first, second = rows
    assert (first["task"], first["subtask_index"], first["attempt"]) == ("Map", 1, 3)
    assert (first["taskmanager"], first["host"]) == ("tm-1", "w1.example.org")
    assert first["fields"]["labels"] == "type=user"
    assert (second["fields"]["concurrent"], second["cause"]) == ("true", "x.Y: z")


def test_taskmanagers_of_old_and_new_versions() -> None:
    old = {"taskmanagers": [{"id": "a1", "path": "akka.tcp://flink@w1.example.org:4/user/tm", "dataPort": 5, "timeSinceLastHeartbeat": 1_600_000_000_000, "slotsNumber": 2, "freeSlots": 0, "cpuCores": 8, "physicalMemory": 9, "managedMemory": 7}]}  # fmt: skip
    row = only(rows_of(old), "taskmanager_registered")
    assert (row["taskmanager"], row["host"]) == ("a1", "w1.example.org")
    assert row["fields"]["hardware.managedMemory"] == "7"
    assert row["fields"]["last_heartbeat_ms"] == "1600000000000"
    assert row.get("utc_us") is None
    new = {"taskmanagers": [{"id": "a1", "path": "pekko.ssl.tcp://flink@w1:4/user/rpc/tm_0", "dataPort": 5, "hardware": {"managedMemory": 7}, "memoryConfiguration": {"taskHeap": 3}, "blocked": False}]}  # fmt: skip
    row = only(rows_of(new), "taskmanager_registered")
    assert (row["host"], row["fields"]["memory.taskHeap"]) == ("w1", "3")


def test_back_pressure_of_a_task_without_a_name(tmp_path: Path) -> None:
    body = {
        "status": "ok",
        "backpressureLevel": "high",
        "end-timestamp": 1_600_000_000_000,
        "subtasks": [
            {"subtask": 0, "backpressureLevel": "high", "ratio": 0.75, "idleRatio": 0.05, "busyRatio": "NaN"}
        ],
    }  # fmt: skip
    path = tmp_path / f"jobs_{JOB}_vertices_{VERTEX}_backpressure.json"
    path.write_text(json.dumps(body))
    assert {row["task"] for row in read(path)[0]} == {f"vertex {VERTEX}"}
    unnamed = tmp_path / "saved.json"
    unnamed.write_text(json.dumps(body))
    assert {row["task"] for row in read(unnamed)[0]} == {"the task in saved.json"}
    unnamed.unlink()
    rest._read_folder.cache_clear()
    (tmp_path / "job.json").write_text(
        json.dumps({"jid": JOB, "vertices": [{"id": VERTEX, "name": "Map"}], "state": "RUNNING"})
    )
    rows, _ = read(path)
    assert {(row["metric"]["name"], row["metric"]["last"]) for row in rows} == {
        ("backPressuredTimeMsPerSecond", 750.0),
        ("idleTimeMsPerSecond", 50.0),
        ("busyTimeMsPerSecond", None),
    }
    assert {(row["task"], row["subtask_index"], row["utc_us"]) for row in rows} == {
        ("Map", 0, 1_600_000_000_000_000)
    }


def test_back_pressure_before_the_first_sample() -> None:
    name = f"jobs_{JOB}_vertices_{VERTEX}_backpressure.json"
    assert rest_path_of({"status": "deprecated"}, name) is not None
    assert rest_path_of({"status": "deprecated"}, "other.json") is None


def test_metrics_of_a_vertex(tmp_path: Path) -> None:
    (tmp_path / f"jobs_{JOB}.json").write_text(
        json.dumps({"jid": JOB, "vertices": [{"id": VERTEX, "name": "Map"}], "state": "RUNNING"})
    )
    path = tmp_path / f"jobs_{JOB}_vertices_{VERTEX}_metrics.json"
    path.write_text(
        json.dumps(
            [
                {"id": "1.busyTimeMsPerSecond", "value": "250.5"},
                {"id": "1.Shuffle.Netty.Input.Buffers.inPoolUsage", "value": "0.5"},
                {"id": "0.Source__a.numRecordsOut", "value": "7"},
                {"id": "0.my.metric", "value": "7"},
            ]
        )
    )
    rows, counts = read(path)
    assert counts.recognised == 1
    assert {
        (row["metric"]["name"], row["subtask_index"], row["metric"]["scope"], row["metric"]["last"])
        for row in rows
    } == {
        ("busyTimeMsPerSecond", 1, "task", 250.5),
        ("Shuffle.Netty.Input.Buffers.inPoolUsage", 1, "task", 0.5),
        ("numRecordsOut", 0, "operator", 7.0),
    }


def test_configuration_without_secrets() -> None:
    rows = rows_of(
        [{"key": "state.backend", "value": "rocksdb"}, {"key": "s3.secret-key", "value": "x"}]
    )
    assert [row["fields"]["value"] for row in rows] == ["rocksdb", "******"]


def test_the_version_from_the_overview() -> None:
    rows = rows_of({"taskmanagers": 3, "slots-total": 6, "flink-version": "1.4.2"})
    assert only(rows, "process_identity")["fields"]["version"] == "1.4.2"


# ------------------------------------------------------------------------------ ids


@pytest.mark.parametrize(
    "name",
    [
        f"jobs_{JOB}_checkpoints_details_7_subtasks_{VERTEX}.json",
        f"rest/jobs/{JOB}/checkpoints/details/7/subtasks/{VERTEX}.json",
        f"{JOB}/{VERTEX}.json",
        f"saved/{JOB}/cp7/{VERTEX}.json",
        f"dump-{JOB}-{VERTEX}-2024-05-06.json.gz",
        f"jobs%2F{JOB}%2Fsubtasks%2F{VERTEX}",
        f"C:\\saved\\{JOB}\\{VERTEX}.json",
    ],
)
def test_ids_from_names(name: str) -> None:
    rows = rows_of(subtask_details(), name)
    assert {(row["job_id"], row["checkpoint"], row["vertex_id"]) for row in rows} == {
        (JOB, 7, VERTEX)
    }


def test_a_folder_name_is_not_a_certain_job(tmp_path: Path) -> None:
    folder = tmp_path / OTHER
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"jid": JOB, "vertices": [], "state": "RUNNING"}))
    path = folder / "cp.json"
    path.write_text(json.dumps(checkpoint()))
    assert rest_path_of(checkpoint(), str(path)) == "/jobs/:jobid/checkpoints/details/7"
    rest._read_folder.cache_clear()
    assert read(path)[0][0]["job_id"] == JOB


def test_a_job_id_in_the_name_is_not_the_vertex(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"jid": JOB, "vertices": [], "state": "RUNNING"}))
    path = tmp_path / f"{JOB}-map.json"
    path.write_text(json.dumps(subtask_details()))
    rest._read_folder.cache_clear()
    assert {(row["job_id"], row["vertex_id"]) for row in read(path)[0]} == {(JOB, None)}


def test_ids_from_neighbouring_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"jobs": [{"jid": JOB, "state": "RUNNING"}]}))
    task = {
        "latest_ack_timestamp": 1_600_000_001_500,
        "state_size": 99,
        "end_to_end_duration": 1500,
        "num_subtasks": 2,
    }
    details = checkpoint(tasks={VERTEX: task, OTHER: {**task, "state_size": 98}})
    with gzip.open(tmp_path / "b.json.gz", "wt") as file:
        json.dump(details, file)
    path = tmp_path / "map.json"
    path.write_text(json.dumps(subtask_details()))
    rest._read_folder.cache_clear()
    rows, _ = read(path)
    assert {(row["job_id"], row["vertex_id"]) for row in rows} == {(JOB, VERTEX)}


def test_members_of_tars_have_neighbours(tmp_path: Path) -> None:
    """Read archives of two jobs at once: each response gets its own job."""
    for job in (JOB, OTHER):
        overview = {"jobs": [{"jid": job, "state": "RUNNING"}]}
        answers = {"a.json": overview, "map.json": checkpoint()}
        with tarfile.open(tmp_path / f"{job}.tar", "w") as container:
            for name, body in answers.items():
                data = json.dumps(body).encode()
                info = tarfile.TarInfo(f"rest/{name}")
                info.size = len(data)
                container.addfile(info, io.BytesIO(data))
    sources = discover([str(tmp_path)]).sources
    rows = parse_on_driver(plan_splits(sources)).to_pylist()
    found = {
        (sources[row["source"]].name.split("!")[0], row["job_id"])
        for row in rows
        if row["event"].startswith("checkpoint")
    }
    assert found == {(str(tmp_path / f"{job}.tar"), job) for job in (JOB, OTHER)}


def test_two_neighbouring_jobs_give_no_job(tmp_path: Path) -> None:
    jobs = [{"jid": JOB, "state": "RUNNING"}, {"jid": VERTEX, "state": "RUNNING"}]
    (tmp_path / "a.json").write_text(json.dumps({"jobs": jobs}))
    path = tmp_path / "cp.json"
    path.write_text(json.dumps(checkpoint()))
    rest._read_folder.cache_clear()
    assert read(path)[0][0]["job_id"] is None


def test_the_url_of_the_source_contains_ids(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(subtask_details()))
    url = f"/jobs/{JOB}/checkpoints/details/7/subtasks/{VERTEX}"
    rows, _ = read(path, url=url)
    assert {(row["job_id"], row["vertex_id"]) for row in rows} == {(JOB, VERTEX)}


# ------------------------------------------------------------------------------ containers


def archive(*entries: tuple[str, object]) -> bytes:
    listed = [{"path": path, "json": json.dumps(body)} for path, body in entries]
    return json.dumps({"archive": listed}).encode()


def test_an_archive_gives_no_duplicates() -> None:
    job = {
        "jid": JOB,
        "state": "FINISHED",
        "end-time": 1_600_000_009_000,
        "vertices": [{"id": VERTEX, "name": "Map", "parallelism": 2}],
        "plan": {"jid": JOB, "nodes": []},
    }
    data = archive(
        ("/jobs/overview", {"jobs": [{"jid": JOB, "state": "FINISHED"}]}),
        (f"/jobs/{JOB}/checkpoints", {"counts": {"total": 2}, "history": [checkpoint(), checkpoint(id=6)]}),
        (f"/jobs/{JOB}/checkpoints/details/7", checkpoint(tasks={VERTEX: checkpoint()})),
        (f"/jobs/{JOB}/checkpoints/details/7/subtasks/{VERTEX}", subtask_details()),
        (f"/jobs/{JOB}", job),
        (f"/jobs/{JOB}/accumulators", {"job-accumulators": []}),
    )  # fmt: skip
    rows = rows_of_bytes(data, "anything")
    assert Counter(row["event"] for row in rows) == {
        "checkpoint_counts": 1,
        "checkpoint_status": 2,
        "checkpoint_vertex": 1,
        "checkpoint_subtask": 2,
        "job_state": 1,
        "vertex": 1,
    }
    assert {row["job_id"] for row in rows} == {JOB}
    assert {row["fields"]["origin"] for row in rows} == {"archive"}
    assert {row["task"] for row in rows if row["event"] == "checkpoint_subtask"} == {"Map"}


def test_offsets_point_into_the_archive(tmp_path: Path) -> None:
    data = archive(
        (f"/jobs/{JOB}/checkpoints/details/6", checkpoint(id=6)),
        (f"/jobs/{JOB}/checkpoints/details/7", checkpoint()),
    )
    path = tmp_path / JOB
    path.write_bytes(data)
    rows, counts = read(path, kind="archive")
    assert [row["checkpoint"] for row in rows] == [6, 7]
    for row in rows:
        assert data[row["offset"] :].startswith(b'"{\\"id\\": %d' % row["checkpoint"])
    assert (counts.first_us, counts.last_us) == (1_600_000_000_000_000,) * 2


def test_an_archive_with_unpacked_responses() -> None:
    data = json.dumps(
        {"archive": [{"path": f"/jobs/{JOB}/checkpoints/details/7", "json": checkpoint()}]}
    )
    assert only(rows_of_bytes(data.encode(), "x"), "checkpoint_status")["job_id"] == JOB


def test_a_damaged_response_does_not_affect_the_others() -> None:
    counts = Tally()
    listed = [
        {"path": f"/jobs/{JOB}/checkpoints/details/6", "json": '{"id": 6, '},
        {"path": f"/jobs/{JOB}/checkpoints/details/7", "json": json.dumps(checkpoint())},
        {"path": f"/jobs/{JOB}/something/new", "json": "{}"},
    ]
    data = json.dumps({"archive": listed}).encode()
    rows = list(rest._rows(data, "x", None, counts, rest._Neighbours()))
    assert [row["checkpoint"] for _, row in rows] == [7]
    assert (counts.candidates, counts.recognised, counts.not_understood) == (3, 1, 2)
    assert len(counts.samples) == 2


def test_concatenated_responses() -> None:
    text = (
        json.dumps(checkpoint())
        + "\n"
        + json.dumps(checkpoint(id=8))
        + json.dumps(checkpoint(id=9))
    )
    rows = rows_of_bytes(text.encode(), f"jobs_{JOB}_polled.json")
    assert recognize(text.encode()) == ("rest", "/jobs/:jobid/checkpoints/details/7")
    assert [row["checkpoint"] for row in rows] == [7, 8, 9]


def test_har_files() -> None:
    def entry(path: str, body: object) -> dict[str, object]:
        return {
            "request": {"url": f"https://flink.example.org/proxy/app_1{path}?x=1"},
            "response": {"content": {"text": json.dumps(body)}},
        }

    data = {
        "log": {
            "version": "1.2",
            "entries": [
                entry("/main.js", "x"),
                entry(f"/jobs/{JOB}/checkpoints/details/7/subtasks/{VERTEX}", subtask_details()),
            ],
        }
    }
    rows = rows_of(data)
    assert {(row["job_id"], row["vertex_id"]) for row in rows} == {(JOB, VERTEX)}
    assert recognize(json.dumps(data).encode()) == ("rest", None)


# ------------------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b'{"archive":[{"path":"/jobs/overview","json":"{', "the JSON is cut off"),
        (b'{"id": 1, "status": "COMP', "the JSON is cut off"),
        (b'{"id": 1, "status": }', "the JSON is damaged near byte 20"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
    ],
)
def test_damage_is_one_sentence(text: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(FlowdiagError) as caught:
        read(path)
    assert caught.value.message == sentence


def test_a_truncated_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(json.dumps(checkpoint()).encode())[:60])
    with pytest.raises(FlowdiagError):
        read(path)


def test_an_endless_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "MAX_FILE_BYTES", 1000)
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": "' + b"x" * 2000)
    with pytest.raises(FlowdiagError):
        read(path)


def test_an_archive_with_too_many_responses_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "MAX_RESPONSES", 1)
    with pytest.raises(ValueError, match="more than a million responses"):
        rows_of_bytes(archive(("/jobs/overview", {}), ("/jobs/overview", {})))


def test_byte_order_mark_and_unusual_numbers() -> None:
    text = "\ufeff" + json.dumps(checkpoint(state_size=float("nan"), end_to_end_duration="NaN"))
    row = only(rows_of_bytes(text.encode(), ""), "checkpoint_status")
    assert row["bytes"] is None and row["duration_ms"] is None


@pytest.mark.parametrize("body", [{}, [], [1], "x", 5, None, {"jobs": []}, {"status": "ok"}])
def test_other_json_is_not_recognised(body: object) -> None:
    assert rest_path_of(body, "checkpoints.json") is None
    assert recognize(json.dumps(body).encode(), "x.json") is None


def test_the_head_of_a_long_response_is_enough() -> None:
    body = subtask_details()
    text = json.dumps(body).encode()
    for end in range(text.index(b'"subtasks"') + 30, len(text)):
        assert recognize(text[:end], f"{JOB}.json") is not None


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["NaN", "-1", "(unassigned)", "COMPLETED", JOB]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
SHAPES: list[dict[str, Any]] = [
    checkpoint(tasks={VERTEX: checkpoint()}),
    subtask_details(),
    {"counts": {}, "history": [checkpoint()], "latest": {"restored": {"id": 1}}},
    {"jid": JOB, "state": "RUNNING", "timestamps": {}, "vertices": [{"id": VERTEX}], "plan": {"nodes": [{"id": VERTEX, "inputs": [{"id": OTHER}]}]}},
    {"id": VERTEX, "name": "x", "parallelism": 1, "subtasks": [{"subtask": 0, "metrics": {}, "host": "x"}]},
    {"root-exception": TRACE, "timestamp": 1, "all-exceptions": [{"exception": "x", "task": "t (1/2)"}]},
    {"exceptionHistory": {"entries": [{"stacktrace": "x", "taskName": "t", "failureLabels": {}}]}},
    {"taskmanagers": [{"id": "x", "path": "y", "hardware": {}}]},
    {"status": "ok", "backpressure-level": "ok", "subtasks": [{"subtask": 1, "ratio": 1}]},
    {"mode": "x", "interval": 1, "timeout": 2},
    {"archive": [{"path": f"/jobs/{JOB}/checkpoints", "json": "{}"}]},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every path in a JSON value."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_in_any_place_is_accepted(data: st.DataObject) -> None:
    body = json.loads(json.dumps(data.draw(st.sampled_from(SHAPES))))
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from(list(places(body)) or [("x",)]))
        target = body
        try:
            for key in where[:-1]:
                target = target[key]
            target[where[-1]] = data.draw(anything)
        except (TypeError, KeyError, IndexError):
            continue
    text = json.dumps(body).encode()
    try:
        rows = list(rest._rows(text, "x", None, Tally(), rest._Neighbours()))
    except ValueError:
        return
    list(rest._batches(rows, 0, Tally()))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_accepted(text: bytes) -> None:
    recognize(text)
    try:
        rows_of_bytes(text)
    except ValueError:
        pass


# ------------------------------------------------------------------------------ dump


def test_a_statistics_dump() -> None:
    body = checkpoint(
        className="failed", status="FAILED", tasks={VERTEX: checkpoint(num_subtasks=4)}
    )
    rows = parse_dump(" " + json.dumps(body) + " ", JOB, 7)
    assert [(row["event"], row["template"]) for row in rows] == [
        ("checkpoint_status", "dump-checkpoint"),
        ("checkpoint_vertex", "dump-checkpoint-vertex"),
    ]
    assert {(row["job_id"], row["checkpoint"], row["fields"]["origin"]) for row in rows} == {
        (JOB, 7, "dump")
    }
    assert rows[1]["parallelism"] == 4


@pytest.mark.parametrize("text", ["", "{", '{"id": 1', "[]", "null", "x" * 100])
def test_a_truncated_dump_gives_no_rows(text: str) -> None:
    assert parse_dump(text, JOB, 7) == []
