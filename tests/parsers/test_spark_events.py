"""Spark's event log and the listener's files: complete, truncated, split anywhere, and hostile."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover, limit_to_engine
from flowdiag.parsers.spark.progress import progress_row
from flowdiag.parsers.split import Split, parse_on_driver, parse_split, plan_splits

Json = dict[str, Any]


def task(
    stage: int, index: int, ms: int, records: int = 0, executor: str = "1", **info: Any
) -> Json:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Task ID": index,
            "Index": index,
            "Launch Time": 1000,
            "Finish Time": 1000 + ms,
            "Executor ID": executor,
            "Host": "h",
            **info,
        },
        "Task Metrics": {"Input Metrics": {"Records Read": records, "Bytes Read": 10 * records}},
    }


def job(number: int, stages: list[int], batch: int | None = None) -> Json:
    properties = {} if batch is None else {"spark.streaming.internal.batchTime": str(batch)}
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": number,
        "Submission Time": 5000,
        "Stage IDs": stages,
        "Properties": properties,
    }


def rows_of(path: Path, size: int | None = None) -> list[Json]:
    sources = limit_to_engine(discover([str(path)]), "spark").sources
    assert sources[0].kind == "spark-events"
    if size is None:
        table = parse_on_driver(plan_splits(sources))
        rows: list[Json] = table.to_pylist()
    else:
        edges = [*range(0, sources[0].size, size)]
        splits = [Split(sources[0], a, b) for a, b in zip(edges, [*edges[1:], -1], strict=True)]
        rows = [row for split in splits for b in parse_split(split) for row in b.to_pylist()]
    for row in rows:
        row["fields"] = dict(row["fields"] or ())
    return rows


def test_the_start_of_a_batch_shows_its_source_and_the_batches_of_its_window(
    tmp_path: Path,
) -> None:
    scope = json.dumps({"id": "8_1", "name": "reduceByKeyAndWindow @ 02:41:58"})
    union = {"RDD ID": 9, "Name": "PartitionerAwareUnionRDD", "Scope": scope, "Parent IDs": [1] * 7}
    infos = [
        {"Stage ID": 1, "Stage Name": "map", "RDD Info": [{"RDD ID": 1, "Name": "BlockRDD"}]},
        {"Stage ID": 2, "Stage Name": "reduce", "RDD Info": [union]},
    ]
    starts = [job(3, [1, 2], batch=2_000), job(4, [1, 2])]
    path = tmp_path / "app-1"
    log = [{"Event": "SparkListenerLogStart", "Spark Version": "4.0.1"}]
    log += [start | {"Stage Infos": infos} for start in starts]
    path.write_text("".join(json.dumps(event) + "\n" for event in log))
    jobs = [row for row in rows_of(path) if row["event"] == "spark_job"]
    assert [dict(row["fields"]).get("lineage") for row in jobs] == ["receiver window=7", None]


def write(path: Path, events: list[Json], *, end: str = "\n") -> Path:
    path.write_text("\n".join(map(json.dumps, events)) + end)
    return path


HEAD: Json = {"Event": "SparkListenerLogStart", "Spark Version": "3.5.1"}


def totals(rows: list[Json]) -> Counter[tuple[int, str, str]]:
    """Return the sums of tasks by stage and executor, and the counts of other events."""
    found: Counter[tuple[int, str, str]] = Counter()
    for row in rows:
        if row["event"] == "spark_tasks":
            for name in ("tasks", "total_ms", "records"):
                key = (row["checkpoint"], row["fields"]["executor"], name)
                found[key] += int(row["fields"][name])
        elif row["event"] not in ("split", "spark_task"):  # tasks across the boundary of two splits
            found[row["offset"], row["event"], ""] += 1
    return found


@settings(max_examples=40, deadline=None)
@given(
    tasks=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5000), st.integers(0, 99)),
        max_size=25,
    ),
    size=st.integers(40, 4000),
)
def test_any_split_gives_the_same_sums(
    tmp_path_factory: pytest.TempPathFactory,
    tasks: list[tuple[int, int, int, int]],
    size: int,
) -> None:
    events = [HEAD, job(0, [0, 1, 2, 3], 4000), *(task(*one) for one in tasks)]
    path = write(tmp_path_factory.mktemp("cut") / "log", events)
    assert totals(rows_of(path, size)) == totals(rows_of(path))


def test_the_state_of_tasks_is_summed_with_its_largest_partition(tmp_path: Path) -> None:
    def state(index: int, *rows: int, **info: Any) -> Json:
        sums = [
            {"ID": n, "Name": "number of total state rows", "Update": str(count), "Value": "999"}
            for n, count in enumerate(rows)
        ]
        other = {"ID": 9, "Name": "number of updated state rows", "Update": "7", "Value": "7"}
        return task(1, index, 100, Accumulables=[*sums, other], **info)

    # A join has several stores per partition; a failed task runs again.
    events = [HEAD, state(0, 10, 5), state(1, 400, 20), state(1, 400, 20, Failed=True), state(2, 0)]
    [row] = [r for r in rows_of(write(tmp_path / "log", events)) if r["event"] == "spark_tasks"]
    fields = row["fields"]
    assert [fields[n] for n in ("state_rows", "largest_state", "state_index")] == [
        "435",
        "420",
        "1",
    ]
    plain = write(tmp_path / "plain", [HEAD, task(1, 0, 100)])
    [row] = [r for r in rows_of(plain) if r["event"] == "spark_tasks"]
    assert "state_rows" not in row["fields"]


def test_only_tasks_without_an_end_remain(tmp_path: Path) -> None:
    def begun(number: int) -> Json:
        info = {
            "Task ID": number,
            "Index": number,
            "Launch Time": 1000,
            "Executor ID": "2",
            "Host": "h",
        }
        return {
            "Event": "SparkListenerTaskStart",
            "Stage ID": 7,
            "Stage Attempt ID": 0,
            "Task Info": info,
        }

    def open_tasks(size: int) -> Counter[str]:
        rows = [row for row in rows_of(path, size) if row["event"] == "spark_task"]
        return Counter(row["fields"]["task_id"] for row in rows)

    path = write(
        tmp_path / "log", [HEAD, begun(1), begun(2), task(7, 1, 300), begun(3), task(7, 3, 5)]
    )
    assert open_tasks(10_000) == {"2": 1}
    # Both ends of a task across a boundary are known, so that they can be joined.
    for size in (100, 300, 500):
        assert {number: count % 2 for number, count in open_tasks(size).items() if count % 2} == {
            "2": 1
        }


def test_tasks_are_summed_by_stage_and_executor(tmp_path: Path) -> None:
    events = [
        HEAD,
        task(7, 0, 100, 5),
        task(7, 1, 900, 50, executor="2"),
        task(7, 2, 300, 5),
        task(7, 3, 9999, Failed=True),
    ]
    rows = [
        row for row in rows_of(write(tmp_path / "log", events)) if row["event"] == "spark_tasks"
    ]
    assert [
        (r["fields"]["executor"], r["fields"]["tasks"], r["fields"]["total_ms"]) for r in rows
    ] == [
        ("1", "2", "400"),
        ("2", "1", "900"),
    ]
    assert rows[0]["fields"]["failed"] == "1" and rows[0]["fields"]["index"] == "2"


def test_a_batch_is_known_from_the_properties_of_its_jobs(tmp_path: Path) -> None:
    rows = rows_of(write(tmp_path / "log", [HEAD, job(3, [8, 9], 1466086160000)]))
    (found,) = [row for row in rows if row["event"] == "spark_job"]
    assert (found["checkpoint"], found["epoch_ms"]) == (3, 1466086160000)
    assert found["fields"]["stages"] == "[8,9]"


@pytest.mark.parametrize(
    ("exception", "where"),
    [
        (
            (
                "a.SparkException: Job aborted due to stage failure: Task serialization failed: java.lang.OutOfMemoryError: "
                "Java heap space\njava.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf(A.java:1)"
                "\n\tat org.apache.spark.sql.Dataset.collect(Dataset.scala:1)\nCaused by: java.lang.OutOfMemoryError: Java heap "
                "space\n\tat java.base/java.util.Arrays.copyOf(A.java:1)"
            ),
            "driver",
        ),
        (
            (
                "a.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: "
                "Lost task 0.3 in stage 1.0 (TID 9) (worker-1 executor 2): java.lang.OutOfMemoryError: Java heap space\n"
                "\tat java.base/java.util.Arrays.copyOf(A.java:1)\n\nDriver stacktrace:\n\tat "
                "org.apache.spark.scheduler.DAGScheduler.abortStage(D.scala:1)\nCaused by: java.lang.OutOfMemoryError: Java heap "
                "space\n\tat java.base/java.util.Arrays.copyOf(A.java:1)"
            ),
            None,
        ),
    ],
)
def test_the_exception_of_a_query_shows_whose_heap_is_full(
    exception: str, where: str | None, tmp_path: Path
) -> None:
    kind = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent"
    event = {"Event": kind, "id": "7", "runId": "8", "exception": exception}
    start = {"Event": "SparkListenerLogStart", "Spark Version": "3.5.7"}
    [row] = [
        row
        for row in rows_of(write(tmp_path / "log", [start, event]))
        if row["event"] == "spark_query"
    ]
    assert dict(row["fields"]).get("where") == where


def test_a_job_that_lists_files_has_no_stage_of_its_batch(tmp_path: Path) -> None:
    lists, works = job(0, [0], batch=1000), job(1, [1], batch=1000)
    lists["Properties"]["spark.job.description"] = "Listing leaf files and directories for 40 paths"
    rows = rows_of(write(tmp_path / "app-1", [HEAD, lists, works]))
    stages = [row["fields"]["stages"] for row in rows if row["event"] == "spark_job"]
    assert stages == ["[]", "[1]"]


def test_secrets_are_left_out(tmp_path: Path) -> None:
    settings_event = {
        "Event": "SparkListenerEnvironmentUpdate",
        "Spark Properties": {
            "spark.streaming.blockInterval": "50ms",
            "spark.hadoop.fs.s3a.secret.key": "hush",
        },
    }
    rows = rows_of(write(tmp_path / "log", [HEAD, settings_event]))
    (found,) = [row for row in rows if row["event"] == "spark_settings"]
    assert found["fields"] == {"spark.streaming.blockInterval": "50ms"}


def test_a_truncated_last_line_is_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = "\n".join(map(json.dumps, [HEAD, job(0, [0], 4000), job(1, [1], 6000)]))
    path.write_text(whole[:-40])
    rows = rows_of(path)
    assert [row["checkpoint"] for row in rows if row["event"] == "spark_job"] == [0]
    assert rows[-1]["fields"]["not_understood"] == "1"


@pytest.mark.parametrize(
    "line",
    [
        '{"Event":"SparkListenerTaskEnd"}',
        '{"Event":"SparkListenerTaskEnd","Stage ID":"x","Task Info":[]}',
        '{"Event":"SparkListenerJobStart","Job ID":null}',
        '{"Event":"SparkListenerApplicationStart","App ID":{},"Timestamp":"soon"}',
        '{"event":"batch_completed","batch_time":"now"}',
        '{"event":"batch_completed","batch_time":-1}',
        '{"event":"query_progress","progress":[1,2]}',
        '{"Event":"SparkListenerStageCompleted","Stage Info":{"Stage ID":1e99}}',
        "[" * 100_000 + '"SparkListenerJobStart"',
        '{"Event":"SparkListenerJobEnd","Job ID":' + "9" * 400 + "}",
    ],
)
def test_hostile_lines_raise_no_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(json.dumps(HEAD) + "\n" + line + "\n" + json.dumps(job(1, [1], 6000)) + "\n")
    rows = rows_of(path)
    assert [row["checkpoint"] for row in rows if row["event"] == "spark_job"] == [1]


def test_the_listeners_batches(tmp_path: Path) -> None:
    header = {
        "flowdiag_listener": 1,
        "event": "header",
        "time": 1,
        "application_id": "local-1795218462305",
        "application_name": "orders",
        "spark_version": "4.3.0",
        "start_time": 1795218457665,
        "batch_interval_ms": 2000,
        "configuration": {"spark.streaming.blockInterval": "500ms"},
        "dropped": 0,
    }
    batch = {
        "event": "batch_completed",
        "time": 1795218562840,
        "batch_time": 1795218548000,
        "submission_time": 1795218548038,
        "processing_start_time": 1795218558265,
        "processing_end_time": 1795218562831,
        "scheduling_delay": 10227,
        "processing_delay": 4566,
        "num_records": 821,
        "streams": [{"stream_id": 0, "num_records": 821, "description": None}],
        "output_operations": [
            {"id": 0, "name": "x", "start_time": 1, "end_time": 5, "failure_reason": "no"}
        ],
    }
    rows = rows_of(write(tmp_path / "lines", [header, batch, {"event": "dropped", "count": 4}]))
    by_event = {row["event"]: row for row in rows}
    assert by_event["spark_application"]["application"] == "local-1795218462305"
    completed = by_event["spark_batch"]
    assert (completed["epoch_ms"], completed["duration_ms"], completed["utc_us"]) == (
        1795218548000,
        4566,
        1795218562831000,
    )
    assert completed["fields"]["scheduling"] == "10227" and completed["fields"]["failed"] == "1"
    assert by_event["spark_output"]["cause"] == "no"
    assert by_event["spark_dropped"]["fields"]["count"] == "4"


EVENT_LOG_SHAPE: Json = {
    "id": "i",
    "runId": "r",
    "name": None,
    "timestamp": "2020-07-29T10:56:56.015Z",
    "batchId": 0,
    "durationMs": {"triggerExecution": 7109},
    "sources": [
        {
            "description": "KafkaV2[Subscribe[t]]",
            "startOffset": None,
            "endOffset": '{"t":{"0":10,"1":20}}',
            "latestOffset": '{"t":{"0":15,"1":20}}',
            "numInputRows": 3,
            "inputRowsPerSecond": "NaN",
            "processedRowsPerSecond": 0.5,
        }
    ],
    "sink": {"numOutputRows": 1},
}


def test_durations_that_a_log_store_turned_into_text_are_read() -> None:
    row = progress_row(
        {**EVENT_LOG_SHAPE, "durationMs": {"triggerExecution": "12.5", "addBatch": "?"}}
    )
    assert row is not None
    assert (row["duration_ms"], row["fields"]["durations"]) == (12, '{"triggerExecution":12}')


def test_the_oldest_snapshot_of_all_partitions_is_kept() -> None:
    custom = {
        "SnapshotLastUploaded.partition_11_default": 31,
        "SnapshotLastUploaded.partition_2_default": 29,
        "rocksdbGetLatency": 4,
    }
    progress = {**EVENT_LOG_SHAPE, "stateOperators": [{"customMetrics": custom}]}
    row = progress_row(progress)
    assert row is not None
    assert row["fields"]["state"]
    (operator,) = json.loads(row["fields"]["state"])
    assert operator["custom"] == {"SnapshotLastUploaded": 29, "rocksdbGetLatency": 4}


def test_both_shapes_of_progress_give_the_same_row() -> None:
    printed = json.loads(json.dumps(EVENT_LOG_SHAPE))
    source = printed["sources"][0]
    source["endOffset"] = json.loads(source["endOffset"])
    source["latestOffset"] = json.loads(source["latestOffset"])
    del source["inputRowsPerSecond"]
    printed["numInputRows"] = 3
    printed["processedRowsPerSecond"] = 0.5
    del printed["name"]
    row = progress_row(printed)
    assert row is not None and row == progress_row(EVENT_LOG_SHAPE)
    assert json.loads(row["fields"]["sources"])[0]["backlog"] == 5


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["runId", "timestamp", "sources", "durationMs", "endOffset", "name"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_progress_raises(value: object) -> None:
    progress_row(value)
    if isinstance(value, dict):
        progress_row({**value, "runId": "r", "timestamp": "2020-07-29T10:56:56Z"})


def test_event_logs_belong_to_the_other_command(tmp_path: Path) -> None:
    found = discover([str(write(tmp_path / "log", [HEAD]))])
    (source,) = limit_to_engine(found, "flink").sources
    assert (source.kind, source.reason) == (
        "not-read",
        "Spark event log: read by `flowdiag rate`",
    )


def test_a_first_line_longer_than_the_head(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        json.dumps({**HEAD, "Padding": "x" * 400_000}) + "\n" + json.dumps(job(0, [0], 4000))
    )
    assert [row["event"] for row in rows_of(path)][:2] == ["spark_log_started", "spark_job"]


def test_a_copied_task_event_is_a_failure(tmp_path: Path) -> None:
    lost = task(1, 1, 5, Failed=True)
    lost["Task End Reason"] = {
        "Reason": "ExecutorLostFailure",
        "Executor ID": "7",
        "Loss Reason": "Exit status: 137",
    }
    failed = task(1, 2, 5, Failed=True)
    failed["Task End Reason"] = {
        "Reason": "ExceptionFailure",
        "Class Name": "a.b.PriceException",
        "Description": "no price",
    }

    def causes(events: list[Json]) -> list[str]:
        return [row["cause"] for row in rows_of(write(tmp_path / "log", events)) if row["cause"]]

    assert causes([lost, failed]) == ["Exit status: 137", "a.b.PriceException: no price"]
    # In an event log, the jobs show what the failures ended.
    assert causes([job(1, [1]), lost, failed]) == []
