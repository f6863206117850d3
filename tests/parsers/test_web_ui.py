"""Copied tables of the Web UI are read like REST responses, in whatever form they were copied."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.flink.web_ui import NO_NAME, contains_table, copied_rows
from flowdiag.parsers.spark import web_ui as spark_ui
from flowdiag.parsers.split import parse_on_driver, plan_splits

HISTORY = """\
\tID\tStatus\tAcknowledged\tTrigger Time\tLatest Acknowledgement\tEnd to End Duration\tCheckpointed Data Size\tProcessed (persisted) in-flight data
\t9\tIN_PROGRESS\t7/8 (88%)\t2026-11-21 06:30:00\t2026-11-21 06:30:01\t1s\t1.20 MB\t0 B (0 B)
\t8\tFAILED\t7/8\t2026-11-21 06:20:00\tn/a\t10m 0s\t1.20 MB\t0 B (0 B)
\t7\tFAILED\t7/8\t2026-11-21 06:10:00\t2026-11-21 06:10:01\t10m 0s\t1.20 MB\t0 B (0 B)
\t6\tCOMPLETED [Savepoint]\t8/8\t2026-11-21 06:00:00\t2026-11-21 06:00:01\t1s\t12 B\t1.50 KB (0 B)
"""
# 1.15 and later: full size next to checkpointed size; milliseconds since 1.19.
FULL = """\
ID\tStatus\tAcknowledged\tTrigger Time\tLatest Acknowledgement\tEnd to End Duration\tCheckpointed Data Size\tFull Checkpoint Data Size\tProcessed (persisted) in-flight data
7\tCOMPLETED\t8/8\t2026-11-21 06:00:00.250\t2026-11-21 06:00:01.750\t1s 500ms\t1.00 KB\t2.00 KB\t0 B (0 B)
"""
OLD = """\
ID\tStatus\tAcknowledged\tTrigger Time\tLatest Acknowledgement\tEnd to End Duration\tState Size\tBuffered During Alignment
9\t\t8/8\t06:30:00\t06:30:01\t1s\t1.20 MB\t0 B
8\t\t3/8\t06:20:00\tn/a\t10m 0s\t1.20 MB\t0 B
"""
DETAILS = """\
\t8\tFAILED\t5/9\t2026-11-21 06:20:00\t2026-11-21 06:20:01\t10m 0s\t1.2 MB\t0 B (0 B)
Path: - | Discarded: - | Checkpoint Type: unaligned checkpoint | Failure Message: Checkpoint expired before completing.
Operators:
Name\tAcknowledged\tLatest Acknowledgment\tEnd to End Duration\tCheckpointed Data Size\tProcessed (persisted) in-flight data
\tSource: Events -> Map\t4/4 (100%)\t2026-11-21 06:20:01\t1s\t1.2 KB\t0 B (0 B)
\tKeyedProcess\t3/4 (75%)\t2026-11-21 06:20:01\t1s\t1.2 MB\t0 B (0 B)
SubTasks:
\tEnd to End Duration\tCheckpointed Data Size\tSync Duration\tAsync Duration\tProcessed (persisted) Data\tAlignment Duration\tStart Delay
Minimum\t1s\t310 KB\t3ms\t40ms\t0 B (0 B)\t0ms\t2ms
ID\tAcknowledged\tEnd to End Duration\tCheckpointed Data Size\tSync Duration\tAsync Duration\tProcessed (persisted) Data\tAlignment Duration\tStart Delay
0\t2026-11-21 06:20:01\t1s\t310 KB\t3ms\t40ms\t0 B (0 B)\t1ms\t2ms
1\t2026-11-21 06:20:01\t1s\t310 KB\t3ms\t40ms\t0 B (0 B)\t1ms\t2ms
2\tn/a
3\t2026-11-21 06:20:01\t1s\t310 KB\t3ms\t40ms\t0 B (0 B)\t1ms\t2ms
\tSink: out\t0/1 (0%)\tn/a\tn/a\t0 B\t0 B (0 B)
"""
PRESSURE = """\
KeyedProcess
Detail\tSubTasks\tTaskManagers\tWatermarks\tAccumulators\tBackPressure\tMetrics\tFlameGraph
Measurement: 2s ago\tBack Pressure Status: HIGH
SubTask\tBackpressured / Idle / Busy\tBackpressure Status\tThread Dump
0\t97% / 0% / 3%\tHIGH
1\t0% / N/A / 100%\tOK
"""
SUBTASKS = """\
KeyedProcess
ID\tBytes Received\tRecords Received\tBytes Sent\tRecords Sent\tAttempt\tEndpoint\tStart Time\tDuration\tEnd Time\tAccumulated Time (Backpressured/Idle/Busy)\tStatus Durations\tStatus\tMore
0\t1.2 MB\t12,000\t3 KB\t20\t1\ttm1:6122\t2026-11-21 06:20:01\t1h 2m 3s\t-\t0ms / 58m / 2m\tRUNNING 1h\tRUNNING
1\t100.2 MB\t1,200,000\t3 KB\t20\t2\ttm2:6122\t2026-11-21 06:20:01\t1h 2m 3s\t-\t0ms / 1m / 1h 1m\tRUNNING 1h\tRUNNING
"""

FORMS: dict[str, Callable[[str], str]] = {
    "tabs": lambda text: text,
    "a cell on a line": lambda text: text.replace("\t", "\n"),
    "cells between lines": lambda text: text.replace("\t", "\t\n"),
    "blanks": lambda text: text.replace("\t", "   "),
    "bars": lambda text: "".join(
        f"| {line.strip().replace(chr(9), ' | ')} |\n" for line in text.splitlines()
    ),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "fence": lambda text: f"What is wrong here?\n```\n{text}```\n",
    "windows": lambda text: text.replace("\n", "\r\n"),
}


def rows(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file with this text."""
    path = tmp_path / "copied"
    path.write_bytes(text.encode())
    found = discover([str(path)]).sources
    assert [source.engine for source in found] == ["flink"], text
    table = parse_on_driver(plan_splits(found)).to_pylist()
    for row in table:
        row["fields"] = dict(row["fields"] or ())
    return [row for row in table if row["event"] != "split"]


@pytest.mark.parametrize("form", FORMS)
def test_the_history_of_checkpoints(form: str, tmp_path: Path) -> None:
    found = rows(FORMS[form](HISTORY), tmp_path)

    assert [(row["checkpoint"], row["to_state"], row["duration_ms"]) for row in found] == [
        (9, "IN_PROGRESS", 1000),
        (8, "FAILED", 600_000),
        (7, "FAILED", 600_000),
        (6, "COMPLETED", 1000),
    ]
    assert [row["fields"]["num_acknowledged_subtasks"] for row in found] == ["7", "7", "7", "8"]
    # Both failed after exactly ten minutes with acknowledgements missing: only a timeout does that.
    assert {row["checkpoint"] for row in found if row["cause"]} == {7, 8}
    assert found[3]["fields"]["is_savepoint"] == "true"
    assert (found[3]["bytes"], found[3]["fields"]["processed_data"]) == (12, "1536")
    # The browser's clock, in an unknown time zone.
    assert all(row["utc_us"] is None and row["epoch_ms"] is None for row in found)
    assert found[2]["local_us"] == 1_795_241_400_000_000


def test_failures_of_different_durations_did_not_expire(tmp_path: Path) -> None:
    text = HISTORY.replace("10m 0s", "2m 13s", 1)

    assert [row["cause"] for row in rows(text, tmp_path)] == [None] * 4


def test_columns_of_other_versions(tmp_path: Path) -> None:
    (full,) = rows(FULL, tmp_path)
    old = rows(OLD, tmp_path)

    assert (full["duration_ms"], full["bytes"], full["fields"]["checkpointed_size"]) == (
        1500,
        2048,
        "1024",
    )
    assert [(row["checkpoint"], row["to_state"]) for row in old] == [
        (9, "COMPLETED"),
        (8, "FAILED"),
    ]
    assert {row["clock"] for row in old} == {"time"}


@pytest.mark.parametrize("form", FORMS)
def test_details_name_the_missing_subtasks(form: str, tmp_path: Path) -> None:
    found = rows(FORMS[form](DETAILS), tmp_path)

    status = next(row for row in found if row["event"] == "checkpoint_status")
    assert status["cause"] == "Checkpoint expired before completing."
    assert status["fields"]["type"] == "UNALIGNED_CHECKPOINT"
    vertices = [(r["task"], r["fields"]["order"]) for r in found if r["event"] == "vertex"]
    assert vertices == [("Source: Events -> Map", "0"), ("KeyedProcess", "1"), ("Sink: out", "2")]
    parts = [row for row in found if row["event"] == "checkpoint_subtask"]
    assert [(p["task"], p["subtask_index"], p["fields"]["status"]) for p in parts] == [
        ("KeyedProcess", 0, "completed"),
        ("KeyedProcess", 1, "completed"),
        ("KeyedProcess", 2, "pending_or_failed"),
        ("KeyedProcess", 3, "completed"),
    ]
    assert {p["checkpoint"] for p in parts} == {8}
    assert (parts[0]["fields"]["sync_ms"], parts[0]["fields"]["start_delay_ms"]) == ("3", "2")


@pytest.mark.parametrize("form", FORMS)
def test_back_pressure_and_subtasks_of_a_vertex(form: str, tmp_path: Path) -> None:
    pressed = rows(FORMS[form](PRESSURE), tmp_path)
    placed = [row for row in rows(FORMS[form](SUBTASKS), tmp_path) if row["event"] == "placed"]

    values = {(r["subtask_index"], r["metric"]["name"]): r["metric"]["last"] for r in pressed}
    assert {row["task"] for row in pressed + placed} == {"KeyedProcess"}
    assert values[0, "backPressuredTimeMsPerSecond"] == 970.0
    assert values[1, "busyTimeMsPerSecond"] == 1000.0
    assert values[1, "idleTimeMsPerSecond"] is None
    assert [(row["host"], row["attempt"]) for row in placed] == [("tm1", 0), ("tm2", 1)]
    assert placed[1]["fields"]["accumulated-busy-time"] == str(61 * 60_000)
    assert placed[1]["fields"]["read-records"] == "1200000"


def test_a_table_without_a_name_has_a_placeholder() -> None:
    found = [row for _, row in copied_rows(b"0\t0.98\tHIGH\n1\t1\tHIGH\n")]

    assert {row["task"] for row in found} == {NO_NAME}
    assert [row["metric"]["last"] for row in found] == [0.98, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21 06:00:00,000 INFO  a.b.C [] - Job 1 COMPLETED 3/4 tasks\n",
        "1 COMPLETED\n2 FAILED\n",
        "order 7 FAILED 3/4 2026-11-21\n",
        "0 n/a\n1 n/a\n",
        "total 12 OK\n",
    ],
)
def test_other_texts_are_not_tables(text: str) -> None:
    assert not contains_table(text.encode())


@pytest.mark.parametrize(
    "piece",
    ["\t1\tFAILED", "1 1/1 ", "n/a ", "1m ", "0 B (", "a ", "1\t", "| ", "1 / 1 / 1 ", "9" * 40],
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = f"Trigger Time Acknowledged COMPLETED {piece * (200_000 // len(piece))}".encode()
    begin = time.process_time()

    list(copied_rows(text))

    assert time.process_time() - begin < 5


def test_a_row_with_an_impossible_date_of_spark_costs_only_itself() -> None:
    row = b"2026/%d/20 10:00:01\t10 records\t5 ms\t5 ms\n"
    assert len(list(spark_ui.copied_rows(row % 13 + row % 12))) == 1
    assert list(spark_ui.copied_rows(row % 13)) == []


def test_rows_of_spark_without_output_operations_do_not_swallow_the_next_row() -> None:
    rows = b"".join(b"2026/11/20 10:00:0%d\t10 records\t5 ms\t5 ms\n" % n for n in range(4))
    assert len(list(spark_ui.copied_rows(rows))) == 4


QUERY = (
    "Name\tStatus\tID\tRun ID\tStart Time\tDuration\tAvg Input /sec\tAvg Process /sec\tLatest Batch\n"
    "payments\tRUNNING\t3f5c9f68-8c2f-47f3-9f52-2bb1cf21d7a1\t90f2c2f5-7d6e-4b0d-8d9a-1f7d52a0a4de\t"
    "2023/10/02 07:30:11\t3 hours 2 minutes\t{}\t{}\t204\n"
)


@pytest.mark.parametrize(
    ("arriving", "processed", "late"), [("50.0", "20.0", 1), ("20.0", "50.0", 0)]
)
def test_a_spark_query_that_processes_less_than_its_input(
    arriving: str, processed: str, late: int
) -> None:
    text = QUERY.format(arriving, processed).encode()
    assert spark_ui.contains_batches(text)
    assert [row["fields"]["class"] for _, row in spark_ui.copied_rows(text)] == [
        "trigger-late"
    ] * late


def test_options_and_receivers_of_spark() -> None:
    options = "".join(f"spark.app.{name}\t{name}\n" for name in ("id", "name", "x"))
    text = f"{options}spark.master\tlocal[1]\nSocketReceiver-0\tACTIVE\tdriver / host-1\t-\t-\n"
    settings, receiver = [row for _, row in spark_ui.copied_rows(text.encode())]
    assert settings["fields"]["spark.master"] == "local[1]"
    assert (receiver["fields"]["stream"], receiver["host"]) == ("0", "host-1")
    assert not [*spark_ui.copied_rows(b"spark.master\tlocal[1]\n")]
