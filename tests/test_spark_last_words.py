"""What ends streaming jobs of Spark's: whose heap was full, who else wrote, what the exception itself recommends.

Written after texts that strangers tried: a driver's console, a ticket, a line of `kubectl logs`. Wording of
Spark 3.3 to 3.5, of its connectors, of Kubernetes 1.27 and of psycopg2.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pastes import Judged
from flowdiag.analyses.report.wire import Finding, Report

ID = "7f3a0b1c-1111-4222-8333-944455556666"
RUN = "0a0b0c0d-1111-4222-8333-944455556666"
INFO = "24/03/03 05:00:00 INFO BlockManagerInfo: Removed broadcast_91_piece0 on 10.0.0.5:33111 in memory\n"
COLLECTED = (
    "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3745)\n"
    "\tat org.apache.spark.sql.execution.SparkPlan.executeCollect(SparkPlan.scala:431)\n"
    "\tat org.apache.spark.sql.Dataset.collectToPython(Dataset.scala:3997)\n"
)
OF_EXECUTOR = "\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:552)\n"
HEAP = "java.lang.OutOfMemoryError: Java heap space\n"
THREAD = f'Exception in thread "stream execution thread for agg [id = {ID}, runId = {RUN}]" '
ABORTED = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 9.0 failed 4 times, "
    "most recent failure: Lost task 3.3 in stage 9.0 (TID 61) (10.2.11.9 executor 4): "
)
DRIVER_STACK = (
    "\nDriver stacktrace:\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)\n"
)
ENDED = (
    f"24/03/03 05:00:01 ERROR MicroBatchExecution: Query agg [id = {ID}, runId = {RUN}] "
    "terminated with error\n"
)


def told(text: str, folder: Path) -> Report:
    asked = Judged(folder, None)
    report = asked.report(asked.inputs(text))
    assert report is not None
    return report


def only(text: str, folder: Path) -> Finding:
    (finding,) = told(text, folder).findings
    return finding


def options(finding: Finding) -> set[str]:
    return {action.option for action in finding.actions if action.option}


def advice(finding: Finding) -> str:
    return " ".join(action.text for action in finding.actions)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (INFO + THREAD + HEAP + COLLECTED, "agg"),
        (THREAD + HEAP + COLLECTED, "agg"),
        (ENDED + HEAP + COLLECTED, "agg"),
        (HEAP + COLLECTED, ""),
    ],
    ids=["thread below a record", "thread alone", "below the query's record", "alone"],
)
def test_a_collect_fills_the_heap_of_the_driver(text: str, query: str, tmp_path: Path) -> None:
    finding = only(text, tmp_path)
    assert (finding.code, finding.cause) == ("RT402", "out-of-memory")
    assert (finding.subject.query or "") == query
    assert options(finding) == {"spark.driver.memory"}
    assert "driver" in finding.explain and "collect" in finding.explain


@pytest.mark.parametrize(
    "text",
    [
        ABORTED + HEAP + OF_EXECUTOR + DRIVER_STACK,
        ABORTED + HEAP + "\tat com.acme.Parse.amount(Parse.scala:19)\n" + DRIVER_STACK,
        ENDED + ABORTED + HEAP + DRIVER_STACK + "Caused by: " + HEAP + OF_EXECUTOR,
    ],
    ids=["task", "task of user code", "below the query's record"],
)
def test_a_task_that_fills_the_heap_is_the_executors(text: str, tmp_path: Path) -> None:
    finding = only(text, tmp_path)
    assert finding.cause == "out-of-memory"
    assert options(finding) == {"spark.executor.memory"}
    assert "driver" not in finding.explain


def test_a_thread_of_somebody_else_ends_no_query(tmp_path: Path) -> None:
    other = 'Exception in thread "metrics-sender" java.lang.OutOfMemoryError: Java heap space\n'
    assert not told(INFO + other + COLLECTED.splitlines()[0] + "\n", tmp_path).findings


# --- two queries ----------------------------------------------------------------------------------

CONCURRENT = (
    "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using "
    "hdfs://nn/chk/orders/offsets/1187\n"
    "\tat org.apache.spark.sql.execution.streaming.HDFSMetadataLog.$anonfun$addNewBatchByStream$2(HDFSMetadataLog.scala:185)\n"
    "Caused by: org.apache.hadoop.fs.FileAlreadyExistsException: Rename destination "
    "hdfs://nn/chk/orders/offsets/1187 already exists.\n"
)


@pytest.mark.parametrize("above", ["", ENDED], ids=["alone", "below a record"])
def test_what_says_why_beats_a_deeper_cause_that_does_not(above: str, tmp_path: Path) -> None:
    finding = only(above + CONCURRENT, tmp_path)
    assert finding.cause == "two-writers"
    assert "Multiple streaming queries are concurrently using" in finding.title


def test_the_deepest_cause_that_says_why_stays_the_cause(tmp_path: Path) -> None:
    full = CONCURRENT + "Caused by: java.io.IOException: No space left on device\n"
    finding = only(ENDED + full, tmp_path)
    assert finding.cause == "storage-failure"
    assert "No space left on device" in finding.title


# --- state ----------------------------------------------------------------------------------------

SCHEMA = (
    "org.apache.spark.sql.execution.streaming.state.StateSchemaNotCompatible: Provided schema doesn't match to the "
    "schema for existing state! Please note that Spark allow difference of field name: check count of fields.\n"
    "- Provided key schema: StructType(StructField(user_id,LongType,true),StructField(country,StringType,true))\n"
    "- Existing key schema: StructType(StructField(user_id,LongType,true))\n"
)
LOST = "24/09/03 02:10:09 WARN TaskSetManager: Lost task 12.0 in stage 41.0 (TID 8213) (10.139.64.11 executor 3): "


@pytest.mark.parametrize("above", ["", LOST, ENDED], ids=["alone", "task", "query"])
def test_a_state_schema_that_changed_has_the_advice_of_spark(above: str, tmp_path: Path) -> None:
    finding = only(above + SCHEMA, tmp_path)
    assert finding.cause == "state-incompatible"
    assert "key and value" in advice(finding)
    assert "POJO" not in advice(finding)
