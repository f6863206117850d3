"""Clocks, owners and identities."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.flink import lifecycle
from flowdiag.analyses.flink.clocks import settle as clocks
from flowdiag.analyses.flink.clocks.apply import resolve
from flowdiag.analyses.flink.clocks.settle import Clock, Segment, Writer
from flowdiag.analyses.flink.clocks.survey import Stream

from .conftest import Events, surveyed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HOUR = 3600 * 1_000_000


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


def trigger(local: str, utc: str, number: int, **more: Any) -> dict[str, Any]:
    return {
        "event": "checkpoint_triggered",
        "logger": "CheckpointCoordinator",
        "local_us": us(local),
        "epoch_ms": us(utc) // 1000,
        "checkpoint": number,
        "job_id": "a" * 32,
        **more,
    }


def running(local: str, attempt: str, logger: str, **more: Any) -> dict[str, Any]:
    return {
        "event": "task_state",
        "logger": logger,
        "local_us": us(local),
        "attempt_id": attempt * 32,
        "to_state": "RUNNING",
        **more,
    }


def settle(
    frame: Any, tz: str | None = None, groups: dict[int, str] | None = None
) -> dict[Stream, Writer]:
    rows = surveyed(frame).rows
    groups = groups or {source: f"logs/{source}.log" for source in range(9)}
    return {writer.stream: writer for writer in clocks.settle(rows, groups, tz)}


def instants(
    frame: Any, writers: dict[Stream, Writer], spark: SparkSession, **how: Any
) -> list[Any]:
    out = resolve(frame, list(writers.values()), spark, surveyed(frame), **how)
    return [row.time_us for row in out.orderBy("source", "offset").select("time_us").collect()]


def test_the_trigger_timestamp_reveals_the_time_zone(events: Events, spark: SparkSession) -> None:
    frame = events(
        trigger("2018-11-29T18:43:44.624", "2018-11-29T10:43:44.622", 225),
        {
            "event": "checkpoint_expired",
            "local_us": us("2018-11-29T18:53:44.622"),
            "checkpoint": 225,
        },
    )
    writers = settle(frame)
    clock = writers[Stream(0, None)].clock
    assert (clock.zone_ms, clock.known_from) == (8 * 3600 * 1000, "trigger-timestamps")
    assert instants(frame, writers, spark) == [
        us("2018-11-29T10:43:44.624"),
        us("2018-11-29T10:53:44.622"),
    ]


def test_daylight_saving_time_ends_within_a_file(events: Events, spark: SparkSession) -> None:
    frame = events(
        trigger("2026-10-25T02:50:00", "2026-10-25T00:50:00", 1),
        {"event": "checkpoint_completed", "local_us": us("2026-10-25T02:50:01"), "checkpoint": 1},
        trigger("2026-10-25T02:10:00", "2026-10-25T01:10:00", 2),
        {"event": "checkpoint_completed", "local_us": us("2026-10-25T02:10:01"), "checkpoint": 2},
    )
    assert instants(frame, settle(frame), spark) == [
        us("2026-10-25T00:50:00"),
        us("2026-10-25T00:50:01"),
        us("2026-10-25T01:10:00"),
        us("2026-10-25T01:10:01"),
    ]


def test_a_missing_date_is_recovered_over_midnight(events: Events, spark: SparkSession) -> None:
    evening, night = us("1970-01-01T23:59:58"), us("1970-01-01T00:00:03")
    frame = events(
        trigger("1970-01-01T23:59:58", "2026-03-01T22:59:58", 7, clock="time-of-day"),
        {
            "event": "checkpoint_completed",
            "local_us": night,
            "clock": "time-of-day",
            "checkpoint": 7,
        },
    )
    assert evening > night
    assert instants(frame, settle(frame), spark) == [
        us("2026-03-01T22:59:58"),
        us("2026-03-01T23:00:03"),
    ]


def test_elapsed_milliseconds_get_their_start_from_a_trigger(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        {**trigger("1970-01-01T00:00:04.873", "2026-03-01T10:00:00", 1), "clock": "elapsed"},
        {
            "event": "checkpoint_expired",
            "local_us": 14_873_000,
            "clock": "elapsed",
            "checkpoint": 1,
        },
    )
    assert instants(frame, settle(frame), spark) == [
        us("2026-03-01T10:00:00"),
        us("2026-03-01T10:00:10"),
    ]


def test_a_taskmanager_in_another_zone_is_aligned_by_transitions(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        trigger("2026-03-01T18:00:00", "2026-03-01T10:00:00", 1),
        running("2026-03-01T18:00:01.020", "1", "ExecutionGraph"),
        running("2026-03-01T18:00:01.040", "2", "ExecutionGraph"),
        running("2026-03-01T10:00:03.000", "1", "Task", source=1),
        running("2026-03-01T10:00:03.020", "2", "Task", source=1),
    )
    writers = settle(frame)
    worker = writers[Stream(1, None)]
    assert worker.role == "taskmanager"
    assert worker.clock.known_from == "transitions"
    assert worker.clock.zone_ms == 0
    assert worker.clock.drift_ms == 1980
    # The drift exceeds the transfer time of a message, so it is corrected.
    assert instants(frame, writers, spark)[3:] == [
        us("2026-03-01T10:00:01.020"),
        us("2026-03-01T10:00:01.040"),
    ]


def test_a_single_log_is_assumed_to_be_utc_with_a_note(events: Events) -> None:
    frame = events(running("2026-03-01T10:00:03", "1", "Task"))
    assert settle(frame)[Stream(0, None)].clock.known_from == "assumed"


def test_a_named_zone_overrides_what_is_inferred(events: Events, spark: SparkSession) -> None:
    frame = events(trigger("2026-07-01T12:00:00", "2026-07-01T12:00:00", 1))
    writers = settle(frame, "Europe/Berlin")
    assert writers[Stream(0, None)].clock.known_from == "--tz"
    assert instants(frame, writers, spark, tz="Europe/Berlin") == [us("2026-07-01T10:00:00")]


def test_a_carrier_with_a_zone_determines_the_zone_of_the_inner_time(events: Events) -> None:
    frame = events(
        {
            "event": "job_state",
            "logger": "ExecutionGraph",
            "local_us": us("2026-03-01T15:30:00"),
            "utc_us": us("2026-03-01T10:00:00"),
        }
    )
    clock = settle(frame)[Stream(0, None)].clock
    assert (clock.zone_ms, clock.known_from) == (19_800_000, "carrier")


def test_section_headers_name_the_owner_of_the_following_records(events: Events) -> None:
    container = "container_e05_1543000000000_0007_01_000002"
    frame = events(
        {"event": "section", "process": container},
        running("2026-03-01T10:00:03", "1", "Task"),
    )
    writer = settle(frame)[Stream(0, container)]
    assert writer.cluster == "application_1543000000000_0007"
    assert writer.taskmanager == container


def test_versions_and_ids_come_from_the_banner(events: Events) -> None:
    frame = events(
        {"event": "process_started", "fields": {"component": "TaskManager", "version": "1.20.5"}},
        {"event": "process_identity", "taskmanager": "tm-7", "host": "worker-7"},
    )
    writer = settle(frame)[Stream(0, None)]
    assert (writer.role, writer.version, writer.taskmanager, writer.host) == (
        "taskmanager",
        "1.20.5",
        "tm-7",
        "worker-7",
    )


def test_the_printed_output_of_a_process_has_the_identity_in_its_log(events: Events) -> None:
    frame = events(
        {"event": "process_started", "fields": {"component": "TaskManager", "version": "2.3.0"}},
        {"event": "process_identity", "taskmanager": "tm-7", "host": "worker-7"},
        {"event": "resource_failure", "source": 1, "cause": "java.lang.OutOfMemoryError"},
    )
    writers = settle(frame, groups={0: "logs/tm.log", 1: "logs/tm.out", 2: "logs/jm.log"})
    printed = writers[Stream(1, None)]
    assert (printed.role, printed.taskmanager) == ("taskmanager", "tm-7")


def test_a_single_deviating_offset_is_not_a_daylight_saving_change() -> None:
    rows = [
        {"source": 0, "owner": None, "zone": 0, "n": 500, "offset": 0, "shown_us": 1, "difference": 4, "printed": True},
        {"source": 0, "owner": None, "zone": 900_000, "n": 1, "offset": 50, "shown_us": 2, "difference": 900_000, "printed": True},
    ]  # fmt: skip
    assert clocks._marked_clock(rows) == Clock(
        segments=(Segment(0, -(2**62), 0),), known_from="trigger-timestamps"
    )


def test_without_a_banner_the_wording_shows_the_version(events: Events) -> None:
    frame = events(
        trigger("2018-11-29T18:43:44.624", "2018-11-29T10:43:44.622", 225),
        {"event": "checkpoint_completed", "checkpoint": 225, "job_id": "a" * 32},
    )
    assert settle(frame)[Stream(0, None)].wording == "1.4 to 1.10"
    typed = events(
        trigger("2026-01-01T00:00:00", "2026-01-01T00:00:00", 1, fields={"type": "CHECKPOINT"}),
        {"event": "deployed", "attempt_id": "1" * 32},
    )
    assert settle(typed)[Stream(0, None)].wording == "1.12 to 1.14"


def test_times_of_day_get_a_valid_time_zone_and_the_date_of_their_triggers(
    events: Events, spark: SparkSession
) -> None:
    """An offset that includes the days since 1970 is not a time zone, neither for this file nor for
    others."""
    frame = events(
        trigger("1970-01-01T06:00:00", "2026-11-20T22:00:00", 1, clock="time-of-day"),
        {
            "event": "job_state",
            "logger": "Task",
            "local_us": us("2026-11-21T06:00:07"),
            "source": 1,
        },
    )
    writers = settle(frame)
    assert [writer.clock.zone_ms for writer in writers.values()] == [8 * 3_600_000] * 2
    assert instants(frame, writers, spark) == [us("2026-11-20T22:00:00"), us("2026-11-20T22:00:07")]


@pytest.mark.parametrize("hours", [-12, -10, -3, 0, 5, 8, 12])
@pytest.mark.parametrize("days", [0, 1, 7, 20_778])
def test_an_inferred_utc_offset_is_always_a_valid_one(hours: int, days: int) -> None:
    shift = hours * 3_600_000 - days * 86_400_000
    zone = Clock(segments=(Segment(0, 0, shift),), known_from="trigger-timestamps").zone_ms
    # Half a day east and half a day west give the same time of day.
    assert zone == hours * 3_600_000 or (abs(hours) == 12 and abs(zone) == 12 * 3_600_000)


def test_the_name_of_a_file_contains_the_day_of_its_times(
    events: Events, spark: SparkSession
) -> None:
    common = {"event": "job_state", "logger": "ExecutionGraph", "clock": "time-of-day"}
    frame = events(
        {**common, "local_us": us("1970-01-01T23:59:58")},
        {**common, "local_us": us("1970-01-01T00:00:01")},
    )
    rows = surveyed(frame).rows
    writers = clocks.settle(rows, {}, None, {0: "logs/jobmanager.log.2026-11-20"})
    found = {writer.stream: writer for writer in writers}
    assert instants(frame, found, spark) == [us("2026-11-20T23:59:58"), us("2026-11-21T00:00:01")]
    unknown = {writer.stream: writer for writer in clocks.settle(rows, {}, None, {0: "jm.log"})}
    assert instants(frame, unknown, spark)[0] == us("1970-01-01T23:59:58")


def test_records_without_any_time_keep_their_order(events: Events, spark: SparkSession) -> None:
    """AWS Managed Flink's JSON has no times: only triggers print one, after the `@`."""
    job = {"job_id": "a" * 32, "logger": "CheckpointCoordinator"}
    rows = []
    for epoch, number in enumerate((1, 2, 3, 1, 2)):  # the job was restarted after the third
        at = us("2026-11-21T06:00:00") // 1000 + 60_000 * epoch
        rows += [
            {"event": "checkpoint_triggered", "checkpoint": number, "epoch_ms": at, **job},
            {"event": "checkpoint_completed", "checkpoint": number, "duration_ms": 7, **job},
        ]
    frame = events(*rows)
    resolved = resolve(frame, list(settle(frame).values()), spark, surveyed(frame))
    lives = lifecycle.with_runs(lifecycle.once(resolved)).orderBy("offset").collect()
    assert [(life.run, life.checkpoint) for life in lives] == [
        (run, number) for run, number in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)) for _ in range(2)
    ]
    assert len(lifecycle.checkpoints(lifecycle.with_runs(resolved)).frame().collect()) == 5
