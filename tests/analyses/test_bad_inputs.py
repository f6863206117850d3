"""A damaged or absurd input does not end a command: from bytes to settled writers, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from flowdiag.analyses.flink.clocks.settle import Writer, settle
from flowdiag.analyses.flink.clocks.survey import RARE_COLUMNS, survey
from flowdiag.analyses.rate.measure import Owner, assign_owners
from flowdiag.analyses.rate.survey import survey_table
from flowdiag.parsers.discover import discover
from flowdiag.parsers.flink.marks import marks_of
from flowdiag.parsers.split import parse_on_driver, plan_splits

JOB = "7c7769847d333438dd9ce845d5a2d980"
TRIGGERED = (
    "2026-11-21 06:00:0{0},000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
    " Triggering checkpoint {0} (type=CHECKPOINT) @ {1} for job " + JOB + ".\n"
)
T0 = 1_466_086_160_000


def parsed(folder: Path, **files: bytes) -> pa.Table:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return parse_on_driver(plan_splits(discover([str(folder)]).sources))


def writers(table: pa.Table) -> tuple[Writer, ...]:
    rare = table.select(list(RARE_COLUMNS)).to_pylist()
    rare = [row for row in rare if row["event"] in ("process_started", "configuration")]
    return settle(survey(rare, marks_of(table)).rows, {})


def owners(folder: Path, **files: bytes) -> tuple[Owner, ...]:
    table = parsed(folder, **files)
    return assign_owners(survey_table(table), discover([str(folder)]).sources)


@pytest.mark.parametrize("absurd", ["9223372036854775807", "99999999999999999", "253402300800000"])
def test_a_trigger_at_an_absurd_time_does_not_determine_the_zone(
    absurd: str, tmp_path: Path
) -> None:
    rows = [
        TRIGGERED.format(number, time)
        for number, time in enumerate(("1795240801000", absurd, "1795240803000"), 1)
    ]
    table = parsed(tmp_path, log="".join(rows).encode())
    assert [row["checkpoint"] for row in table.to_pylist()[:-1]] == [1, 2, 3]
    (writer,) = writers(table)
    assert writer.clock.zone_ms == 0
    assert writer.clock.known_from == "trigger-timestamps"


@pytest.mark.parametrize("damage", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_a_damaged_byte_in_an_event_log_costs_its_line(damage: bytes, tmp_path: Path) -> None:
    first = b'{"Event":"SparkListener' + damage + b'LogStart","Spark Version":"3.5.1"}\n'
    started = {
        "Event": "SparkListenerApplicationStart",
        "App Name": "a",
        "App ID": "app-20260101120000-0001",
        "Timestamp": T0,
    }
    table = parsed(tmp_path, log=first + json.dumps(started).encode() + b"\n")
    assert [row["event"] for row in table.to_pylist()] == ["spark_application", "split"]


def test_an_event_log_of_one_damaged_line_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"Event":"Spark\xffListenerLogStart"}\n')
    (source,) = discover([str(tmp_path)]).sources
    assert source.kind == "not-read"


def batch(number: int) -> dict[str, object]:
    return {
        "batchId": T0 + 1000 * number,
        "batchTime": "2016-06-16T14:09:20.000GMT",
        "status": "COMPLETED",
        "batchDuration": 1000,
        "inputSize": 10,
        "schedulingDelay": 1,
        "processingTime": 100,
    }


def test_spark_responses_without_names_and_times_are_combined(tmp_path: Path) -> None:
    """The only time of an output operation is in the file's name, so two such files had no common time."""
    operation = json.dumps([{"outputOpId": 0, "name": "x", "duration": 1}]).encode()
    files = {
        f"{T0}.json": operation,
        f"answer {T0 + 1000}": operation,
        "what-curl-said": json.dumps([batch(number) for number in range(6)]).encode(),
    }
    found = owners(tmp_path, **files)
    assert len({owner.application for owner in found}) == 1
    assert len(found) == 3
