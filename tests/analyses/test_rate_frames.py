"""Lines become facts with Spark: separate applications, merged sources, few actions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.diagnosis import measure
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.topic import RATE
from flowdiag.parsers.discover import discover, limit_to_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Json = dict[str, Any]
T0 = 1_795_218_784_000


def event_log(application: str, batches: int, *, job_ms: int = 300) -> list[Json]:
    events: list[Json] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "3.5.1"},
        {
            "Event": "SparkListenerEnvironmentUpdate",
            "Spark Properties": {"spark.streaming.blockInterval": "50ms"},
        },
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": f"name of {application}",
            "App ID": application,
            "Timestamp": T0 - 5000,
        },
    ]
    for number in range(batches):
        time = T0 + 1000 * number
        events += [
            {
                "Event": "SparkListenerJobStart",
                "Job ID": number,
                "Submission Time": time + 10,
                "Stage IDs": [number],
                "Properties": {
                    "spark.streaming.internal.batchTime": str(time),
                    "spark.streaming.internal.outputOpId": "0",
                },
            },
            *(
                {
                    "Event": "SparkListenerTaskEnd",
                    "Stage ID": number,
                    "Task Info": {
                        "Index": index,
                        "Launch Time": time + 20,
                        "Finish Time": time + 20 + (200 if index == 1 else 40),
                        "Executor ID": str(index % 2),
                        "Host": f"h{index % 2}",
                    },
                }
                for index in range(4)
            ),
            {
                "Event": "SparkListenerJobEnd",
                "Job ID": number,
                "Completion Time": time + 10 + job_ms,
                "Job Result": {"Result": "JobSucceeded"},
            },
        ]
    return events


def listener(application: str, batches: int, *, records: int = 70) -> list[Json]:
    header: Json = {
        "flowdiag_listener": 1,
        "event": "header",
        "application_id": application,
        "application_name": "orders",
        "spark_version": "3.5.1",
        "start_time": T0 - 5000,
        "batch_interval_ms": 1000,
        "configuration": {},
    }
    return [
        header,
        *(
            {
                "event": "batch_completed",
                "time": T0 + 1000 * n + 400,
                "batch_time": T0 + 1000 * n,
                "submission_time": T0 + 1000 * n + 3,
                "processing_start_time": T0 + 1000 * n + 5,
                "processing_end_time": T0 + 1000 * n + 345,
                "scheduling_delay": 2,
                "processing_delay": 340,
                "num_records": records,
                "streams": [{"stream_id": 0, "num_records": records}],
                "output_operations": [],
            }
            for n in range(batches)
        ),
    ]


def driver_log(batches: int, *, zone_hours: int = 0, first: int = 0) -> str:
    from datetime import UTC, datetime, timedelta

    lines = []
    for n in range(first, batches):
        time = T0 + 1000 * n
        at = datetime.fromtimestamp(time / 1000, UTC) + timedelta(hours=zone_hours)
        stamp = at.strftime("%y/%m/%d %H:%M:%S")
        lines += [
            f"{stamp} INFO JobScheduler: Added jobs for time {time} ms",
            f"{stamp} INFO JobScheduler: Total delay: 0.345 s for time {time} ms (execution: 0.340 s)",
        ]
    return "\n".join(lines) + "\n"


def write(path: Path, events: list[Json]) -> Path:
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return path


def facts_of(spark: SparkSession, *paths: Path) -> dict[str, ApplicationFacts]:
    found = limit_to_engine(discover([str(path) for path in paths]), "spark")
    facts = measure((RATE,), found, lambda: spark).facts[RATE.name]
    return {app.key.job_id: app for app in facts.applications}


def test_two_applications_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    both = [*event_log("app-20260101000000-0001", 5), *event_log("app-20260101000000-0002", 9)]
    apps = facts_of(spark, write(tmp_path / "log", both))
    assert {key: len(app.batches) for key, app in apps.items()} == {
        "app-20260101000000-0001": 5,
        "app-20260101000000-0002": 9,
    }
    one = apps["app-20260101000000-0002"]
    assert (one.name, one.version) == ("name of app-20260101000000-0002", "3.5.1")
    assert (one.interval_ms, one.interval_from) == (1000, "observed")


def test_sources_of_one_application_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    name = "app-20260101000000-0001"
    log = tmp_path / "driver.log.gz"
    log.write_bytes(gzip.compress(driver_log(9, zone_hours=8).encode()))
    paths = (
        write(tmp_path / "log", event_log(name, 8)),
        write(tmp_path / "lines.jsonl", listener(name, 7)),
        log,
    )
    (app,) = facts_of(spark, *paths).values()
    assert app.origins == {"listener", "log", "event-log"}
    assert [b.processing_ms for b in app.batches] == [340] * 9
    assert [b.records for b in app.batches] == [70] * 7 + [None] * 2
    stage = app.batches[0].stage
    assert stage is not None and (stage.tasks, stage.longest_ms, stage.index) == (4, 200, 1)
    assert stage.others_ms == 40
    slow = {one.executor: one.ratio for one in app.executors}
    assert slow == {"0": pytest.approx(40 / 120), "1": pytest.approx(3.0)}


def test_logs_without_an_id_and_with_other_times_are_separate_applications(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "other.log").write_text(driver_log(400_020, first=400_000))
    known = write(tmp_path / "lines.jsonl", listener("app-20260101000000-0001", 9))
    apps = facts_of(spark, known, tmp_path / "other.log")
    assert sorted(len(app.batches) for app in apps.values()) == [9, 20]


def test_an_event_log_alone(spark: SparkSession, tmp_path: Path) -> None:
    (app,) = facts_of(spark, write(tmp_path / "log", event_log("local-1795218784000", 6))).values()
    batch = app.batches[0]
    assert batch.approximate and batch.processing_ms == 300 and batch.records is None
    assert app.settings == {"spark.streaming.blockInterval": "50ms"}


def test_a_log_given_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    events = event_log("local-1795218784000", 6)
    write(tmp_path / "a", events)
    write(tmp_path / "b", events)
    (app,) = facts_of(spark, tmp_path / "a", tmp_path / "b").values()
    assert [batch.stage.tasks for batch in app.batches if batch.stage] == [4] * 6


def test_at_most_three_actions(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "lines.jsonl", listener("app-20260101000000-0001", 9))
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("counted", "counted")
    try:
        facts_of(spark, path)
        jobs = len(tracker.getJobIdsForGroup("counted"))
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert 0 < jobs <= 20


def test_no_readable_input(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    assert facts_of(spark, tmp_path / "x.json") == {}


def test_blocks_partitions_jobs_and_operations_are_added_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    name = "app-20260101000000-0001"
    lines = [
        "26/11/20 23:53:03 INFO KafkaRDD: Computing topic orders, partition 3 offsets 10 -> 40",
        "26/11/20 23:53:05 INFO KafkaRDD: Computing topic orders, partition 3 offsets 40 -> 90",
        "26/11/20 23:53:05 INFO KafkaRDD: Computing topic orders, partition 3 offsets 40 -> 90",
    ]
    for second, replica in ((3, "h1"), (3, "h2"), (5, "h1")):
        lines.append(
            f"26/11/20 23:53:0{second} INFO BlockManagerInfo: Added input-0-179521878{second}000 in"
            f" memory on {replica}:36129 (size: 2.0 KiB, free: {900 - second} B)"
        )
    (tmp_path / f"driver-{name}.log").write_text(driver_log(4) + "\n".join(lines) + "\n")
    events = listener(name, 4)
    for line in events[1:]:
        line["output_operations"] = [
            {
                "id": 0,
                "name": "save",
                "start_time": T0,
                "end_time": T0 + 300,
                "failure_reason": None,
            }
        ]
    paths = (write(tmp_path / "log", event_log(name, 4)), write(tmp_path / "lines.jsonl", events))
    (app,) = facts_of(spark, *paths, tmp_path / f"driver-{name}.log").values()
    (partition,) = app.partitions
    assert (partition.name, partition.tasks, partition.records) == ("orders-3", 2, 80)
    (blocks,) = app.blocks  # a replica is not a second block
    assert (blocks.stream, blocks.blocks, blocks.bytes) == (0, 2, 4096)
    assert {one.host: (one.free_bytes, one.bytes) for one in app.memory} == {
        "h1": (895, 4096),
        "h2": (897, 2048),
    }
    assert [(one.output, one.name, one.batches, one.total_ms) for one in app.operations] == [
        (0, "save", 4, 1200)
    ]
    assert [b.work and (b.work.jobs, b.work.busy_ms) for b in app.batches] == [(1, 300)] * 4
