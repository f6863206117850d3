"""Job runs, duplicate records, attempts and their TaskManagers, measured on a few rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.engine.sql import union_all
from flowdiag.analyses.flink import lifecycle
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.assemble.checkpoints import checkpoint_type
from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.clocks.apply import resolve
from flowdiag.analyses.flink.clocks.settle import settle
from flowdiag.analyses.flink.job import ClusterFacts, Status
from flowdiag.analyses.flink.settled import rows_of
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.queues.assemble.owners import Owners, successive_runs

from .conftest import Events, surveyed
from .workbench import Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "a" * 32
START = 1_800_000_000_000


def facts(
    frame: DataFrame, spark: SparkSession, groups: dict[int, str] | None = None
) -> ClusterFacts:
    groups = groups or {source: f"logs/{source}.log" for source in range(9)}
    found = surveyed(frame)
    writers = settle(found.rows, groups)
    settled = resolve(frame, writers, spark, found)
    return assemble(rows_of(union_all(lifecycle.facts(lifecycle.once(settled)))), [], writers)


def line(event: str, after_ms: int, checkpoint: int | None = None, **more: Any) -> dict[str, Any]:
    row = {
        "event": event,
        "logger": "CheckpointCoordinator",
        "local_us": (START + after_ms) * 1000,
        "checkpoint": checkpoint,
        "job_id": JOB,
        **more,
    }
    if event == "checkpoint_triggered":
        row.setdefault("epoch_ms", START + after_ms)
    return row


@pytest.mark.spark
def test_an_expired_checkpoint_and_its_late_acknowledgement(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        line("task_state", 0, task="map", subtask_index=2, parallelism=4, attempt_id="1" * 32,
             job_id=None, logger="ExecutionGraph", from_state="SCHEDULED", to_state="DEPLOYING"),
        line("deployed", 1, task="map", subtask_index=2, parallelism=4, attempt=0, job_id=None,
             logger="ExecutionGraph", taskmanager="tm-1", host="worker-1"),
        line("checkpoint_triggered", 1000, 224),
        line("checkpoint_expired", 11_000, 224),
        line("late_acknowledgement", 33_000, 224, attempt_id="1" * 32),
        line("late_acknowledgement", 33_500, 224, attempt_id="2" * 32),
    )  # fmt: skip
    (job,) = facts(frame, spark).jobs
    (checkpoint,) = job.checkpoints
    assert (checkpoint.status, checkpoint.duration_ms) == (Status.EXPIRED, 10_000)
    known, unknown = job.late
    assert (known.attempt.task, known.attempt.subtask) == ("map", "3/4")
    assert (known.attempt.taskmanager, known.attempt.host) == ("tm-1", "worker-1")
    assert (known.after_trigger_ms, known.after_expiry_ms) == (32_000, 22_000)
    assert (unknown.attempt.task, unknown.attempt.taskmanager) == (None, None)


@pytest.mark.spark
def test_a_late_message_of_a_declined_checkpoint_is_not_late(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        line("checkpoint_triggered", 0, 1),
        line("checkpoint_declined", 10, 1, attempt_id="1" * 32, cause="java.io.IOException: disk"),
        line("late_acknowledgement", 20, 1, attempt_id="2" * 32),
    )
    (job,) = facts(frame, spark).jobs
    assert [c.status for c in job.checkpoints] == [Status.DECLINED]
    assert job.late == ()


@pytest.mark.spark
def test_a_late_message_without_its_expiry_is_kept_as_unmatched(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        line("late_acknowledgement", 20, 41, attempt_id="2" * 32),
        line("checkpoint_triggered", 3000, 43),
    )
    (job,) = facts(frame, spark).jobs
    assert [(late.checkpoint, late.expired) for late in job.late] == [(41, False)]


@pytest.mark.spark
def test_ids_that_start_over_are_another_run(events: Events, spark: SparkSession) -> None:
    frame = events(
        line("checkpoint_completed", 0, 500, duration_ms=5),  # its trigger is cut off
        line("checkpoint_triggered", 60_000, 1),
        line("checkpoint_completed", 60_100, 1, duration_ms=100),
        line("checkpoint_triggered", 63_000, 2),
        line("checkpoint_expired", 73_000, 2),
        line("checkpoint_triggered", 90_000, 1),
    )
    (job,) = facts(frame, spark).jobs
    assert [(c.run, c.id, c.status.value) for c in job.checkpoints] == [
        (1, 500, "completed"),
        (2, 1, "completed"),
        (2, 2, "expired"),
        (3, 1, "in_flight"),
    ]


@pytest.mark.spark
def test_a_repeated_record_counts_once(events: Events, spark: SparkSession) -> None:
    rows = [
        line("checkpoint_triggered", 0, 1),
        line("checkpoint_expired", 8000, 1),
        line("late_acknowledgement", 9000, 1, attempt_id="1" * 32),
    ]
    copies = [{**row, "source": 1} for row in rows]
    (job,) = facts(events(*rows, *copies), spark).jobs
    assert len(job.checkpoints) == len(job.late) == 1
    assert job.runs == 1


@pytest.mark.spark
@pytest.mark.parametrize("logged", [True, False], ids=["by other lines", "by the class that logs"])
def test_equal_records_of_two_taskmanagers_are_not_duplicates(
    events: Events, spark: SparkSession, logged: bool
) -> None:
    notification = line(
        "abort_notified", 9000, 1, job_id=None, logger="SubtaskCheckpointCoordinatorImpl"
    )
    frame = events(
        line("checkpoint_triggered", 0, 1),
        *(
            row
            for source in (1, 2)
            for row in (
                line("task_state", 100, job_id=None, logger="Task", source=source,
                     attempt_id=str(source) * 32, to_state="RUNNING"),
                {**notification, "source": source},
            )[0 if logged else 1 :]
        ),
    )  # fmt: skip
    (job,) = facts(frame, spark).jobs
    assert [incident.kind for incident in job.incidents] == ["abort-notified"] * 2


@pytest.mark.spark
def test_clusters_that_share_the_zero_job_id_are_kept_apart(
    events: Events, spark: SparkSession
) -> None:
    zero = "0" * 32
    frame = events(
        line("checkpoint_triggered", 0, 1, job_id=zero),
        line("checkpoint_expired", 8000, 1, job_id=zero),
        line("checkpoint_triggered", 500, 1, job_id=zero, source=1),
        line("checkpoint_completed", 900, 1, job_id=zero, source=1, duration_ms=400),
    )
    found = facts(frame, spark, {0: "east/jobmanager.log", 1: "west/jobmanager.log"})
    assert {job.key.cluster: job.checkpoints[0].status.value for job in found.jobs} == {
        "east": "expired",
        "west": "completed",
    }


@pytest.mark.spark
def test_lines_of_1_4_take_their_job_from_the_job_lines(
    events: Events, spark: SparkSession
) -> None:
    frame = events(
        line("job_state", 0, job_name="wc", to_state="RUNNING", logger="ExecutionGraph"),
        line("checkpoint_triggered", 10, 1, job_id=None),
        line("checkpoint_expired", 8000, 1, job_id=None),
    )
    (job,) = facts(frame, spark).jobs
    assert (job.key.job_id, job.name) == (JOB, "wc")
    assert job.checkpoints[0].status is Status.EXPIRED


@pytest.mark.spark
def test_the_execution_graph_distinguishes_jobs_with_equal_tasks(
    events: Events, spark: SparkSession
) -> None:
    other = "b" * 32
    graphs = {JOB: "1" * 32, other: "2" * 32}
    rows: list[dict[str, Any]] = []
    for number, (job_id, graph) in enumerate(graphs.items()):
        attempt = f"{graph}_{'c' * 32}_0_0"
        rows += [
            line("graph_created", number, job_id=job_id, fields={"graph_id": graph}),
            line("deployed", 10 + number, job_id=None, task="map", subtask_index=0, parallelism=1,
                 attempt_id=attempt, taskmanager=f"tm-{number}", host="h"),
            line("checkpoint_triggered", 100 + number, 1, job_id=job_id),
        ]  # fmt: skip
    found = facts(events(*rows), spark)
    assert {job.key.job_id: [a.taskmanager for a in job.attempts] for job in found.jobs} == {
        JOB: ["tm-0"],
        other: ["tm-1"],
    }


@pytest.mark.spark
@pytest.mark.parametrize(("apart_ms", "distinct"), [(3000, True), (20, False)])
def test_start_times_distinguish_jobs_with_equal_tasks(
    apart_ms: int, distinct: bool, events: Events, spark: SparkSession
) -> None:
    """Before Flink 1.16, no record of an attempt names its job; a guess would blame the wrong TaskManager."""
    other = "b" * 32
    rows: list[dict[str, Any]] = []
    for number, job_id in enumerate((JOB, other)):
        at = number * apart_ms
        task: dict[str, Any] = {
            "task": "map", "subtask_index": 0, "parallelism": 1, "job_id": None,
            "logger": "ExecutionGraph",
        }  # fmt: skip
        rows += [
            line("job_state", at, job_id=job_id, logger="ExecutionGraph", to_state="RUNNING"),
            line("task_state", at + 50, **task, attempt_id=f"{number}" * 32,
                 from_state="CREATED", to_state="SCHEDULED"),
            line("task_state", at + 90, **task, attempt_id=f"{number}" * 32,
                 from_state="SCHEDULED", to_state="DEPLOYING"),
            line("deployed", at + 91, **task, taskmanager=f"tm-{number}", host="h"),
            line("checkpoint_triggered", 10_000 + number, 1, job_id=job_id),
        ]  # fmt: skip
    found = facts(events(*rows), spark)
    assert {job.key.job_id: [a.taskmanager for a in job.attempts] for job in found.jobs} == {
        JOB: ["tm-0"] if distinct else [],
        other: ["tm-1"] if distinct else [],
    }


@pytest.mark.spark
def test_counters_that_restart_count_from_zero(events: Events) -> None:
    def sample(minute: int, first: float, last: float, count: int = 2) -> dict[str, Any]:
        return {
            "event": "metric",
            "utc_us": minute * 60_000_000,
            "task": "map",
            "subtask_index": 0,
            "taskmanager": "tm",
            "metric": {
                "name": "numRecordsIn", "kind": "counter", "scope": "task", "operator": None,
                "count": count, "first": first, "last": last, "min": first, "max": last,
                "sum": first + last,
            },
        }  # fmt: skip

    frame = events(sample(0, 100, 160), sample(1, 200, 260), sample(2, 10, 30))
    settled = frame.selectExpr("*", "utc_us AS time_us", "'c' AS cluster")
    (row,) = rows_of(lifecycle.loads(settled, None).frame())
    assert row["records_in"] == 60 + 40 + 60 + 10 + 20
    alone = events(sample(0, 100, 100, 1)).selectExpr("*", "utc_us AS time_us", "'c' AS cluster")
    (row,) = rows_of(lifecycle.loads(alone, None).frame())
    assert row["records_in"] is None


def test_jobs_of_one_name_keep_their_loads_apart(events: Events) -> None:
    """Copies of a job have the same vertices and tasks."""
    sample = {"event": "metric", "utc_us": 0, "task": "map", "subtask_index": 0}
    metric = {
        "name": "busyTimeMsPerSecond", "kind": "gauge", "scope": "task", "operator": None, "count": 1,
        "first": 0.0, "last": 0.0, "min": 0.0, "max": 0.0,
    }  # fmt: skip
    frame = events(
        *(sample | {"job_id": j * 32, "metric": metric | {"sum": v}} for j, v in ABC.items())
    )
    settled = frame.selectExpr("*", "utc_us AS time_us", "'c' AS cluster")
    rows = rows_of(lifecycle.loads(settled, None, by_id=True).frame())
    assert {row["job_id"]: row["busy"] for row in rows} == {j * 32: v for j, v in ABC.items()}
    checkpoints = [{"job_cluster": "c", "job_id": j * 32, "triggered_us": 5} for j in ABC]
    jobs = Jobs(defaultdict(list, checkpoint=checkpoints), [], [])
    assert [key and key.job_id for key in map(jobs.of_load, rows)] == [r["job_id"] for r in rows]


ABC = {"a": 20.0, "b": 950.0}


def test_successive_runs_of_one_name_have_times() -> None:
    one, other = (
        replace(Bench().job(), key=JobKey("", letter * 32), first_us=first, last_us=last)
        for letter, first, last in (("a", 0, 50), ("b", 60, 99))
    )
    names = (one.name, one.name)
    assert successive_runs([other, one]) == [
        (names, one.key.job_id, 0),
        (names, other.key.job_id, 60),
    ]
    assert successive_runs([one]) == successive_runs([one, replace(other, first_us=40)]) == []


def test_a_report_without_an_id_names_none_of_two_running_jobs_of_one_name() -> None:
    """Reports in logs contain only the name."""
    row = {"job_id": None, "job_name": "orders", "first_us": 90, "last_us": 95}
    one, other = (
        replace(Bench().job(), key=JobKey("", letter * 32), first_us=first, last_us=last)
        for letter, first, last in (("a", 0, 99), ("b", 10, 60))
    )
    assert Owners([one, other]).of(row).job_id == one.key.job_id
    assert Owners([one, replace(other, last_us=99)]).of(row).job_id == ""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("CHECKPOINT", "checkpoint"),
        ("SAVEPOINT", "savepoint"),
        ("SAVEPOINT_SUSPEND", "stop-with-savepoint"),
        ("SYNC_SAVEPOINT", "stop-with-savepoint"),
        ("CheckpointType{name='Full Checkpoint', sharingFilesStrategy=FORWARD}", "full-checkpoint"),
        (
            "SavepointType{name='Savepoint', postCheckpointAction=NONE, formatType=CANONICAL}",
            "savepoint",
        ),
        (
            "SavepointType{name='Terminate Savepoint', postCheckpointAction=TERMINATE}",
            "stop-with-savepoint",
        ),
        (None, "checkpoint"),
    ],
)
def test_types_of_all_versions(printed: str | None, expected: str) -> None:
    assert checkpoint_type(printed) == expected


@pytest.mark.spark
def test_failures_without_a_reason_count_with_the_next_one(
    events: Events, spark: SparkSession
) -> None:
    """A console without stack traces; Flink does not count checkpoints that a stop aborts."""

    def failure(after_ms: int, checkpoint: int, before: int) -> dict[str, Any]:
        fields = {"consecutive": str(before)}
        return line("checkpoint_failed", after_ms, checkpoint, fields=fields)

    frame = events(
        failure(0, 7, 0),
        line("late_acknowledgement", 100, 7, attempt_id="2" * 32),
        failure(8000, 8, 1),
        failure(9000, 9, 2),
    )
    (job,) = facts(frame, spark).jobs
    assert [(c.id, c.status) for c in job.checkpoints] == [
        (7, Status.FAILED),
        (8, Status.FAILED),
        (9, Status.ABORTED),
    ]
    assert [(late.checkpoint, late.expired) for late in job.late] == [(7, False)]


@pytest.mark.spark
def test_a_failure_names_the_decliner_without_a_decline(
    events: Events, spark: SparkSession
) -> None:
    fields = {"consecutive": "0", "named_task": "enrich", "named_subtask": "4/4"}
    cause = "java.io.IOException: No space left on device"
    frame = events(line("checkpoint_failed", 0, 7, fields=fields, cause=cause))
    (job,) = facts(frame, spark).jobs
    (decline,) = job.declines
    assert (decline.checkpoint, decline.attempt.task, decline.attempt.subtask) == (
        7,
        "enrich",
        "4/4",
    )
    assert decline.reason == cause
