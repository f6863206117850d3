"""Aggregation of samples into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from flowdiag.analyses.queues.measure import METRICS, queue_rows, with_job_ids
from flowdiag.parsers.flink.metric_table import known_metrics
from flowdiag.parsers.rows import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MINUTE = 60_000_000
IN_POOL = "Shuffle.Netty.Input.Buffers.inPoolUsage"


def sample(
    name: str, minute: float, value: float, *, scope: str = "task", n: int = 1, **more: Any
) -> dict[str, Any]:
    """Return the row of a metric whose samples are all equal."""
    row = dict.fromkeys(EVENTS.names)
    metric = {
        "name": name,
        "kind": "gauge",
        "scope": scope,
        "operator": None,
        "count": n,
        "first": value,
        "last": value,
        "min": value,
        "max": value,
        "sum": value * n,
    }
    return row | {
        "source": 0,
        "offset": round(minute * 10),
        "event": "metric",
        "utc_us": round(minute * MINUTE),
        "task": "enrich" if scope == "task" else None,
        "subtask_index": 0 if scope == "task" else None,
        "taskmanager": "tm",
        "host": "h",
        "metric": metric,
        **more,
    }


def windows_of(spark: SparkSession, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measured rows in order."""
    from flowdiag.parsers.on_spark.frame import events_frame

    table = pa.Table.from_pylist(rows, schema=EVENTS)
    frame = events_frame(spark, table).selectExpr(
        "*", "CAST(NULL AS STRING) AS cluster", "utc_us AS time_us"
    )
    found = queue_rows(frame, frame, MINUTE)
    return sorted(found, key=lambda row: (row["what"], row["window"] or 0))


def test_jobs_of_one_name_share_no_window(spark: SparkSession) -> None:
    """A job is canceled and submitted again within a minute. Reports show only its name, here with a quote."""
    from flowdiag.parsers.on_spark.frame import events_frame

    rows = [
        sample("busyTimeMsPerSecond", 10.0, 0.0, job_name="Bob's job"),
        sample("busyTimeMsPerSecond", 10.6, 900.0, job_name="Bob_s_job"),
        sample("busyTimeMsPerSecond", 10.7, 100.0, job_name="other"),
    ]
    frame = events_frame(spark, pa.Table.from_pylist(rows, schema=EVENTS)).selectExpr(
        "*", "CAST(NULL AS STRING) AS cluster", "utc_us AS time_us"
    )
    names = ("Bob's job", "Bob_s_job")
    runs = [(names, "first", 9 * MINUTE), (names, "second", round(10.5 * MINUTE))]
    found = queue_rows(frame, with_job_ids(frame, runs), MINUTE)
    windows = [row for row in found if row["what"] == "window"]
    assert {(row["job_id"], row["busy"]["total"]) for row in windows} == {
        ("first", 0.0),
        ("second", 900.0),
        (None, 100.0),
    }


def test_every_requested_metric_is_known() -> None:
    assert set(known_metrics()) >= METRICS


@pytest.mark.parametrize(("minutes", "records"), [([10], [None]), ([10, 11], [None, 0.0])])
def test_a_single_sample_shows_no_increase(
    minutes: list[float], records: list[float | None], spark: SparkSession
) -> None:
    """The counter of a busy subtask in a single response does not show that it receives no records."""
    found = windows_of(spark, [sample("numRecordsIn", minute, 100.0) for minute in minutes])
    assert [row["records_in"] for row in found if row["what"] == "window"] == records


def test_windows_fold_gauges_and_counters(spark: SparkSession) -> None:
    rows = [
        sample("busyTimeMsPerSecond", 10.0, 1000.0, n=3),
        sample("busyTimeMsPerSecond", 10.5, 400.0, n=1),
        sample("busyTimeMsPerSecond", 11.0, 200.0, n=2),
        # Two names of one gauge: the one with more samples counts.
        sample(IN_POOL, 10.0, 0.5, n=4),
        sample("buffers.inPoolUsage", 10.0, 0.9, n=1),
        # With equal numbers of samples, the order of rows must not decide.
        sample("buffers.outPoolUsage", 10.0, 0.9, n=2),
        sample("Shuffle.Netty.Output.Buffers.outPoolUsage", 10.0, 0.5, n=2),
        # A counter that restarts counts from zero; the log was passed twice.
        sample("numRecordsIn", 10.0, 100.0),
        sample("numRecordsIn", 10.0, 100.0, source=1),
        sample("numRecordsIn", 10.5, 160.0),
        sample("numRecordsIn", 11.0, 30.0),
        sample("Shuffle.Netty.Input.0.maxQueueLen", 10.0, 7.0, n=5),
        sample("Shuffle.Netty.Input.0.avgQueueLen", 10.0, 2.0, n=5),
        sample("Status.JVM.GarbageCollector.Young.Time", 10.0, 100.0, scope="tm"),
        sample("Status.JVM.GarbageCollector.Young.Time", 11.0, 6100.0, scope="tm"),
        sample("Status.JVM.GarbageCollector.Old.Time", 11.0, 50.0, scope="tm"),
    ]
    found = windows_of(spark, rows)
    first, second = (row for row in found if row["what"] == "window")
    assert first["busy"] == {
        "n": 4,
        "total": 3400.0,
        "low": 400.0,
        "high": 1000.0,
        "latest": 400.0,
    }
    assert first["in_pool"]["total"] == 2.0
    assert first["out_pool"]["low"] == 0.9
    assert (first["records_in"], second["records_in"]) == (60.0, 30.0)
    assert (first["resets"], second["resets"]) == (0, 1)
    assert (first["samples"], second["samples"]) == (4, 2)
    (gate,) = (row for row in found if row["what"] == "gate")
    assert (gate["gate"], gate["max_length"], gate["avg_length"]) == (0, 7.0, 2.0)
    machines = [row for row in found if row["what"] == "machine"]
    assert [(row["gc_ms"], row["span_ms"]) for row in machines] == [(0.0, 0.0), (6000.0, 60_000.0)]
