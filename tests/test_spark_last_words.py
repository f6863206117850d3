"""Tests the failures that end Spark streaming jobs: a full heap, a second writer, advice in the
exception itself.

The texts follow real inputs: a driver's console, a ticket, a line of `kubectl logs`. The wording is
from Spark 3.3 to 3.5, its connectors, Kubernetes 1.27 and psycopg2.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.contract.report import Finding, Report

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
OF_PYTHON = (
    "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    '  File "/opt/app/agg.py", line 8, in grab\n'
    "    rows = batch.collect()\n"
    "py4j.protocol.Py4JJavaError: An error occurred while calling o71.collectToPython.\n"
    ": "
)
DRIVER_STACK = (
    "\nDriver stacktrace:\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)\n"
)
ENDED = (
    f"24/03/03 05:00:01 ERROR MicroBatchExecution: Query agg [id = {ID}, runId = {RUN}] "
    "terminated with error\n"
)


def findings_of(text: str, folder: Path) -> Report:
    judge = PasteJudge(folder, None)
    report = judge.report(judge.inputs(text))
    assert report is not None
    return report


def only(text: str, folder: Path) -> Finding:
    (finding,) = findings_of(text, folder).findings
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
        (ENDED + OF_PYTHON + HEAP + COLLECTED, "agg"),
    ],
    ids=["thread below a record", "thread alone", "below the query's record", "alone", "Python"],
)
def test_a_collect_fills_the_heap_of_the_driver(text: str, query: str, tmp_path: Path) -> None:
    finding = only(text, tmp_path)
    assert (finding.code, finding.cause) == ("RT103", "out-of-memory")
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
def test_a_task_that_fills_the_heap_blames_the_executor(text: str, tmp_path: Path) -> None:
    finding = only(text, tmp_path)
    assert finding.cause == "out-of-memory"
    assert options(finding) == {"spark.executor.memory"}
    assert "driver" not in finding.explain


def test_the_script_repeats_the_exception_of_the_query(tmp_path: Path) -> None:
    deleted = "File file:/ckpt/commits does not exist"
    trace = (
        "\tat org.apache.hadoop.fs.RawLocalFileSystem.getFileStatus(RawLocalFileSystem.java:980)\n"
    )
    script = (
        "Traceback (most recent call last):\n"
        '  File "/opt/app/agg.py", line 7, in <module>\n'
        "    query.awaitTermination()\n"
        "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query "
        f"[id = {ID}, runId = {RUN}] terminated with exception: {deleted} SQLSTATE: XXKST\n"
    )
    text = f"{ENDED}java.io.FileNotFoundException: {deleted}\n{trace}{script}"
    finding = only(text, tmp_path)
    assert (finding.code, finding.cause) == ("RT103", "storage-failure")
    assert "STREAM_FAILED" not in finding.explain


def test_an_unrelated_thread_does_not_end_a_query(tmp_path: Path) -> None:
    other = 'Exception in thread "metrics-sender" java.lang.OutOfMemoryError: Java heap space\n'
    found = findings_of(INFO + other + COLLECTED.splitlines()[0] + "\n", tmp_path).findings
    assert [(finding.code, finding.severity) for finding in found] == [("RT108", "warning")]


# --- two queries ----------------------------------------------------------------------------------

CONCURRENT = (
    "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using "
    "hdfs://nn/chk/orders/offsets/1187\n"
    "\tat org.apache.spark.sql.execution.streaming.HDFSMetadataLog.$anonfun$addNewBatchByStream$2(HDFSMetadataLog.scala:185)\n"
    "Caused by: org.apache.hadoop.fs.FileAlreadyExistsException: Rename destination "
    "hdfs://nn/chk/orders/offsets/1187 already exists.\n"
)


@pytest.mark.parametrize("above", ["", ENDED], ids=["alone", "below a record"])
def test_an_explanatory_cause_wins_over_a_deeper_vague_one(above: str, tmp_path: Path) -> None:
    finding = only(above + CONCURRENT, tmp_path)
    assert finding.cause == "two-writers"
    assert "Multiple streaming queries are concurrently using" in finding.title


def test_the_deepest_explanatory_cause_wins(tmp_path: Path) -> None:
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


# --- advice that fits -----------------------------------------------------------------------------

PYTHON = f"""pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = {ID}, runId = {RUN}] terminated with exception: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/opt/spark/python/lib/py4j-0.10.9.7-src.zip/py4j/clientserver.py", line 617, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/opt/app/stream_job.py", line 61, in upsert_batch
    conn = psycopg2.connect(host=PG_HOST, dbname="dwh", user="etl", password=PW)
  File "/usr/local/lib/python3.10/site-packages/psycopg2/__init__.py", line 122, in connect
    conn = _connect(dsn, connection_factory=connection_factory, **kwasync)
"""
OUTER = """Traceback (most recent call last):
  File "/opt/app/stream_job.py", line 88, in <module>
    query.awaitTermination()
  File "/opt/spark/python/lib/pyspark.zip/pyspark/sql/streaming/query.py", line 221, in awaitTermination
"""
NO_SLOT = (
    'psycopg2.OperationalError: connection to server at "dwh-pg.internal" (10.2.0.14), port 5432 failed: '
    "FATAL:  remaining connection slots are reserved for non-replication superuser connections\n"
)


@pytest.mark.parametrize("above", ["", OUTER, ENDED], ids=["cut", "console", "below a record"])
def test_a_database_without_connections_is_named_with_the_function(
    above: str, tmp_path: Path
) -> None:
    finding = only(above + PYTHON + NO_SLOT, tmp_path)
    assert finding.cause == "no-connection-left"
    assert "upsert_batch(stream_job.py:61)" in advice(finding)
    assert "pool" in advice(finding)


def query_failed(text: str) -> str:
    return (
        f"org.apache.spark.sql.streaming.StreamingQueryException: {text}\n=== Streaming Query ===\n"
        f"Identifier: gold [id = {ID}, runId = {RUN}]\n"
    )


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (
            (
                "Detected deleted data (for example part-00000-2a.snappy.parquet) from streaming source at version 191. "
                "This is currently not supported. If you'd like to ignore deletes, set the option 'ignoreDeletes' to "
                "'true'. The source table can be found at path dbfs:/mnt/lake/silver."
            ),
            "ignoreDeletes",
        ),
        (
            (
                "Detected a data update (for example part-0.parquet) in the source table at version 3. This is currently "
                "not supported. If you'd like to ignore updates, set the option 'skipChangeCommits' to 'true'."
            ),
            "skipChangeCommits",
        ),
    ],
)
def test_an_option_that_the_exception_recommends_is_the_advice(
    text: str, option: str, tmp_path: Path
) -> None:
    finding = only(query_failed(text), tmp_path)
    (action,) = finding.actions
    assert action.option == option
    assert f"{option} to true" in action.text


@pytest.mark.parametrize(
    ("text", "advised"),
    [
        ('java.lang.NumberFormatException: For input string: "n/a"', "tolerant mode"),
        (
            "com.acme.orders.LimitException: the partner's quota is used up",
            'Fix "com.acme.orders.Limit',
        ),
        (
            "java.sql.BatchUpdateException: value too long for type character(8)",
            'Fix "java.sql.Batch',
        ),
    ],
)
def test_tolerant_reading_is_advised_only_for_unreadable_data(
    text: str, advised: str, tmp_path: Path
) -> None:
    assert advised in advice(only(query_failed(text), tmp_path))


# --- Kubernetes -----------------------------------------------------------------------------------

POD = """23/10/04 14:03:27 ERROR TaskSchedulerImpl: Lost executor 7 on 10.40.2.118:{space}
The executor with id 7 exited with exit code 137(SIGKILL{guess}).



The API gave the following container statuses:


\t container name: spark-kubernetes-executor
\t container image: acme/spark:3.4.1
\t container state: terminated
\t exit code: 137
\t termination reason: {reason}
      
23/10/04 14:03:27 WARN TaskSetManager: Lost task 44.0 in stage 812.0 (TID 92233) (10.40.2.118 executor 7): ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: 
"""


@pytest.mark.parametrize("space", [" ", ""], ids=["as logged", "trimmed"])
@pytest.mark.parametrize(
    ("guess", "reason", "cause"),
    [
        (", possible container OOM", "OOMKilled", "out-of-memory"),
        ("", "Error", "executor-lost"),
    ],
)
def test_the_line_below_has_the_reason_why_kubernetes_ended_an_executor(
    space: str, guess: str, reason: str, cause: str, tmp_path: Path
) -> None:
    report = findings_of(POD.format(space=space, guess=guess, reason=reason), tmp_path)
    (lost,) = (finding for finding in report.findings if finding.code == "RT304")
    assert lost.cause == cause
    assert "The executor with id 7 exited with exit code 137" in lost.title
    assert f"termination reason: {reason}" in lost.title
    assert report.summary.cause == cause


def test_an_executor_that_exited_on_its_own_is_not_lost(tmp_path: Path) -> None:
    text = POD.format(space=" ", guess="", reason="Completed")
    text = text.replace("exit code 137(SIGKILL)", "exit code 0(success)").replace(": 137", ": 0")
    assert not findings_of(text[: text.rindex("23/10/04")], tmp_path).findings


STARVED = (
    "23/05/05 09:00:30 WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI to "
    "ensure that workers are registered and have sufficient resources\n"
)
FORBIDDEN = (
    "23/05/05 09:00:52 WARN ExecutorPodsSnapshotsStoreImpl: Exception when notifying snapshot subscriber.\n"
    "io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: "
    "https://kubernetes.default.svc/api/v1/namespaces/spark/pods. Message: pods "
    '"ingest-exec-1" is forbidden: exceeded quota: compute-quota, requested: limits.cpu=2,limits.memory=5632Mi, '
    "used: limits.cpu=31,limits.memory=60Gi, limited: limits.cpu=32,limits.memory=64Gi.\n"
    "\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.requestFailure(OperationSupport.java:671)\n"
)


def test_a_quota_that_forbids_executors_is_named(tmp_path: Path) -> None:
    finding = only(STARVED + FORBIDDEN, tmp_path)
    assert (finding.code, finding.cause) == ("RT313", "no-core-left")
    for text in (
        "exceeded quota: compute-quota",
        "requested limits.cpu=2,limits.memory=5632Mi",
        "used limits.cpu=31,limits.memory=60Gi",
        "limited limits.cpu=32,limits.memory=64Gi",
    ):
        assert text in finding.title
    assert "quota compute-quota" in advice(finding)
    assert "cluster's page" not in advice(finding)


def test_allowed_executors_have_no_quota_finding(tmp_path: Path) -> None:
    finding = only(STARVED, tmp_path)
    assert "quota" not in finding.title + advice(finding)


# --- counts ---------------------------------------------------------------------------------------

POLL = (
    ABORTED
    + "java.util.concurrent.TimeoutException: Cannot fetch record for offset 8812003 in 120000 milliseconds\n"
    "\tat org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer.fetch(KafkaDataConsumer.scala:94)\n"
)


def test_a_poll_that_ended_a_query_is_reported_once(tmp_path: Path) -> None:
    finding = only(POLL + DRIVER_STACK, tmp_path)
    assert (finding.code, finding.cause) == ("RT103", "kafka-timeout")


def test_advice_for_an_unreadable_record_names_options_of_spark(tmp_path: Path) -> None:
    text = (
        ENDED
        + "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file p8.csv.\n"
        "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records "
        "are detected in record parsing: [null].\n"
        'Caused by: java.lang.NumberFormatException: For input string: "x7"\n'
    )
    finding = only(text, tmp_path)
    assert finding.cause == "unreadable-record"
    assert "PERMISSIVE" in advice(finding) and "ignore-parse-errors" not in advice(finding)


# --- consequences ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "TorrentBroadcast: Store broadcast broadcast_0 fail, remove all pieces of the broadcast",
        "FileFormatWriter: Job job_202611271953568729825720707907499_0000 aborted.",
    ],
)
def test_an_error_that_spark_rethrows_is_not_a_second_failure(line: str, tmp_path: Path) -> None:
    report = findings_of(f"{INFO}24/03/03 05:00:02 ERROR {line}\n{ENDED}{SCHEMA}", tmp_path)
    assert [finding.cause for finding in report.findings] == ["state-incompatible"]
