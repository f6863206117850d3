"""Tests mechanisms of the diagnosis of failure texts, each with several texts of the same kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.flink.helpers import Attempt, subtask_name
from flowdiag.parsers.discover import discover
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD
from flowdiag.parsers.lines.traces import read_trace
from flowdiag.parsers.split import parse_on_driver, plan_splits

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report

TASK = "\tat org.apache.flink.streaming.runtime.tasks.StreamTask.invoke(StreamTask.java:781)\n"
PLANNER = (
    "\tat org.apache.flink.table.planner.delegation.PlannerBase.translate(PlannerBase.scala:93)\n"
)


@pytest.fixture
def judge(tmp_path: Path) -> PasteJudge:
    return PasteJudge(tmp_path, None)


def report_on(judge: PasteJudge, text: str) -> Report:
    report = judge.report_on_text(text)
    assert report is not None, "only Spark can measure this text"
    return report


def words_of(report: Report) -> str:
    return " ".join(f"{finding.title} {finding.explain}" for finding in report.findings)


# Times of Spark's logs are whole seconds: the order of the lines shows which came first.
STOPPED = "24/03/01 22:40:00 INFO SparkContext: SparkContext is stopping with exitCode 0.\n"


@pytest.mark.parametrize(
    "error",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "java.lang.StackOverflowError: too deep",
        "java.lang.IllegalStateException: no catalog",
        "org.apache.spark.SparkException: the listener bus lost events",
    ],
)
def test_a_failure_in_the_second_of_the_stop_it_caused(judge: PasteJudge, error: str) -> None:
    above = f"24/03/01 22:40:00 ERROR Utils: uncaught error in thread spark-listener-group-shared, stopping SparkContext\n{error}\n"
    frame = "\tat org.apache.spark.scheduler.AsyncEventQueue.dispatch(AsyncEventQueue.scala:100)\n"
    report = report_on(judge, above + frame + STOPPED)
    assert report.summary.verdict in ("degraded", "failing")
    assert error.rpartition(": ")[2] in words_of(report)


def test_a_context_that_does_not_start_ends_the_application(judge: PasteJudge) -> None:
    error = "org.apache.spark.SparkException: Asked to launch cluster with 700 MiB/worker but requested 1024 MiB/executor\n"
    above = "24/03/01 22:39:57 ERROR SparkContext: Error initializing SparkContext.\n"
    frame = "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)\n"
    report = report_on(judge, above + error + frame + STOPPED)
    assert report.summary.verdict == "failing" and "1024 MiB" in words_of(report)


def test_a_failure_below_the_stop_follows_from_it(judge: PasteJudge) -> None:
    late = "24/03/01 22:40:00 ERROR Utils: closing\njava.lang.IllegalStateException: closed pool\n\tat a.b.C.d(C.java:1)\n"
    assert report_on(judge, STOPPED + late).findings == []


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("org.apache.flink.table.api.TableException: Column 'a' is NOT NULL\n" + TASK, False),
        (
            "org.apache.flink.table.api.ValidationException: bad value\n\tat "
            + "org.apache.flink.table.runtime.operators.sink.SinkOperator.processElement(S.java:4)\n",
            False,
        ),
        (
            "org.apache.flink.table.api.TableException: unsupported\n\tat "
            + "org.apache.flink.table.runtime.generated.GeneratedClass.newInstance(G.java:7)\n",
            False,
        ),
        ("org.apache.flink.table.api.TableException: unsupported node\n" + PLANNER, True),
        ("org.apache.flink.table.api.ValidationException: no such column\n" + PLANNER, True),
    ],
)
def test_a_failure_in_a_task_does_not_come_from_the_planner(
    judge: PasteJudge, text: str, is_sql: bool
) -> None:
    assert (report_on(judge, text).summary.cause == "invalid-sql") is is_sql


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("org.apache.kafka.common.errors.SerializationException: Unknown magic byte!", "unreadable-record"),
        (
            "org.apache.kafka.common.errors.SerializationException: Error deserializing Avro message for id 7",
            "unreadable-record",
        ),
        ("java.io.NotSerializableException: com.acme.Client", "not-serializable"),
        ("java.io.InvalidClassException: com.acme.Price; local class incompatible", "not-serializable"),
    ],
)  # fmt: skip
def test_reading_a_record_is_not_writing_an_object(
    judge: PasteJudge, message: str, cause: str
) -> None:
    text = f"{message}\n\tat com.acme.Job.decode(Job.java:9)\n{TASK}"
    assert report_on(judge, text).summary.cause == cause


@pytest.mark.parametrize(
    "text",
    [
        'psycopg2.errors.InvalidTextRepresentation: invalid input syntax for type integer: "A12"',
        "sqlalchemy.exc.NoSuchTableError: orders",
        "google.api_core.exceptions.NotFound: 404 bucket lake does not exist",
        "redis.exceptions.ResponseError: WRONGTYPE Operation against a key",
        "com.acme.orders.exception.PriceMissing: no price for sku 7",
    ],
)
def test_a_class_in_a_module_of_errors_is_an_error(judge: PasteJudge, text: str) -> None:
    below = '\n  File "/home/etl/job.py", line 19, in run\n'
    report = report_on(judge, text + below)
    assert text.partition(": ")[2] in words_of(report)
    assert "job.py" not in report.findings[0].title  # a frame is no part of the message


@pytest.mark.parametrize(
    "event",
    [
        "Warning  ValidationError  12s   FlinkDeployment     The upgrade needs state.savepoints.dir",
        "Warning  FailedMount  2m (x4 over 9m)   kubelet     MountVolume.SetUp failed for volume conf",
        "Warning  Failed     11s (x4 over 97s)  kubelet   Error: secret keytab not found",
        "Normal   Killing    3m (x3 over 12m)   kubelet  Container main failed liveness probe, will be restarted",
    ],
)
def test_a_kubernetes_event_about_a_failure(judge: PasteJudge, event: str) -> None:
    above = "  Normal   Pulled     40s   kubelet  Container image is present\n"
    report = report_on(judge, f"Events:\n{above}  {event}\n")
    assert report.findings
    assert " ".join(event.split()[-4:]) in words_of(report)


@pytest.mark.parametrize(
    "text",
    [
        "When a task failed, Flink restarts it.\nThe job failed if the strategy gives up.",
        "If a checkpoint failed, raise the timeout.",
        "Stage  Tasks  Succeeded  Failed  Killed\n0      200    200        0       0",
        "25/02/02 11:00:00 INFO ExecutorAllocationManager: Executors 4,7 removed due to idle timeout.",
        "By default, a job failed by the user is not restarted.",
    ],
)
def test_words_without_a_failure(judge: PasteJudge, text: str) -> None:
    report = report_on(judge, text)
    assert [finding.title for finding in report.findings] == []


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("org.apache.kafka.common.errors.ThrottlingQuotaExceededException: The quota is exceeded", None),
        ("org.apache.pulsar.client.api.PulsarClientException$ProducerBlockedQuotaExceededException: backlog", None),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota of /ck is exceeded", "storage-failure"),
        ("java.io.IOException: Disk quota exceeded", "storage-failure"),
    ],
)  # fmt: skip
def test_a_quota_is_not_always_one_of_a_disk(
    judge: PasteJudge, text: str, cause: str | None
) -> None:
    found = report_on(judge, f"{text}\n{TASK}").summary.cause
    assert found == cause if cause else found != "storage-failure"


@pytest.mark.parametrize(
    ("frames", "process"),
    [
        (PLANNER + "\tat com.acme.Job.main(Job.java:9)\n", "main method"),
        ("\tat org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumerator.start(K.java:1)\n", "JobManager"),
        ("\tat org.apache.flink.connector.jdbc.internal.JdbcOutputFormat.flush(J.java:1)\n", "TaskManager"),
        ("\tat org.apache.spark.sql.execution.streaming.StreamMetadata$.read(S.scala:1)\n", "driver"),
        ("\tat org.apache.spark.sql.execution.streaming.state.RocksDB.load(R.scala:1)\n", "executor"),
    ],
)  # fmt: skip
def test_the_frames_show_the_process(judge: PasteJudge, frames: str, process: str) -> None:
    report = report_on(judge, f"java.lang.IllegalStateException: no price for sku 7\n{frames}")
    assert process in words_of(report)


def test_cells_of_an_html_table_are_separate_lines(judge: PasteJudge) -> None:
    text = (
        "<table>\n<tr><td>error</td><td>java.io.IOException: broken block 7</td></tr>\n"
        "<tr><td>trace</td><td>\tat com.acme.Blocks.read(Blocks.java:12)</td></tr>\n</table>\n"
    )
    report = report_on(judge, text)
    assert "broken block 7" in report.findings[0].title
    assert "Blocks.java:12" in words_of(report)


def test_authentication_methods_are_not_secrets() -> None:
    text = "AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]"
    assert clean(text) == text
    assert "hunter2" not in clean("conf [secret, hunter2]")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parallelism.default: 4 as discussed\nparallelism.default: 8 if it grows again\n", False),
        ("parallelism.default: 4\nparallelism.default: 8\nrest.port: 8081\n", True),
    ],
)
def test_notes_about_options_are_not_a_configuration(
    judge: PasteJudge, text: str, found: bool
) -> None:
    codes = [outcome.code for outcome in report_on(judge, text).findings]
    assert ("MM102" in codes) is found


def test_a_text_that_is_not_read_names_its_lines(judge: PasteJudge) -> None:
    (item,) = judge.inputs("Hello all\nhow are you?\n\n```\nrest.port: 8081\n```\n").sources
    assert item.reason == ("text, but it does not look like a log: 4 lines of text, 1 setting")


def test_a_declining_subtask_without_a_name_has_its_place() -> None:
    who = Attempt(job=None, attempt_id="9f1e", taskmanager="tm-4:6122-9c1a", host="tm-4")
    assert subtask_name(who) == "a subtask on tm-4:6122-9c1a"


@pytest.mark.parametrize(
    ("line", "is_spark"),
    [
        ("24/03/01 10:12:45 WARN BlockManager: PendingReconstructionMonitor timed out blk_1073741860_1036", False),
        ("ERROR BlockManager: Error while processing replication queues async", False),
        (
            "2024-03-01 10:12:45,002 ERROR org.apache.hadoop.hdfs.server.blockmanagement.BlockManager: no such replica",
            False,
        ),
        ("24/03/01 10:12:46 ERROR BlockManager: Failed to remove broadcast 7 from the disk store", True),
        ("ERROR BlockManager: Failed to connect to external shuffle server, will retry 2 more times", True),
    ],
)  # fmt: skip
def test_hdfs_has_a_block_manager_as_well(judge: PasteJudge, line: str, is_spark: bool) -> None:
    (item,) = judge.inputs(f"{line}\n").sources
    assert (item.engine == "spark") is is_spark


TICK = "2024-03-01 11:00:00,123 {} heartbeat of the price service, nothing special\n"
TRACE = "java.lang.IllegalStateException: price book 77 is gone\n\tat com.acme.Book.open(Book.java:41)\n"


@pytest.mark.parametrize(
    ("lines", "failure"),
    [
        ("~~ 11.00.00 | flow | org.apache.flink heartbeat, nothing special\n", TRACE),
        ("heartbeat of the price service, nothing special\n", TRACE),
        (TICK.format("INFO"), f"2024-03-01 11:00:00,200 ERROR cannot price\n{TRACE}"),
        (TICK.format("INFO  com.acme.App -"), f"2024-03-01 11:00:00,200 ERROR com.acme.App - cannot price\n{TRACE}"),
        (TICK.format(""), "2024-03-01 11:00:00,200 ERROR price book 77 is gone from the shop\n"),
        (TICK.format("[main] INFO"), "2024-03-01 11:00:00,200 [main] ERROR price book 77 is gone\n"),
    ],
)  # fmt: skip
def test_a_failure_in_the_middle_of_a_large_text(
    judge: PasteJudge, lines: str, failure: str
) -> None:
    half = lines * (600_000 // len(lines))
    report = report_on(judge, f"Welcome\n{half}{failure}{half}")
    assert "price book 77 is gone" in report.findings[0].title
    (place,) = {each.line for each in report.findings[0].evidence}
    at = half.count("\n") + 2
    assert place in (at, at + 1)
    assert report_on(judge, f"Welcome\n{half}{half}").findings == []


IDENTITY = (
    "2024-05-01 09:59:59,000 INFO  org.apache.flink.runtime.taskexecutor.TaskManagerRunner [] - "
    "Starting TaskManager with ResourceID: tm-1\n"
)
PRICED = "2024-05-01 10:00:00,000 INFO  com.acme.Pricing [] - priced 77 orders\n"
UNKNOWN = f"2024-05-01 10:00:01,000 ERROR com.acme.Book [] - cannot price\n{TRACE}"


def test_an_unknown_failure_in_a_large_log_with_known_messages(judge: PasteJudge) -> None:
    half = PRICED * (300_000 // len(PRICED))
    text = f"{IDENTITY}{half}{UNKNOWN}{half}"
    sources = judge.inputs(text).sources
    for target in (None, 100_000, 37_000):
        rows = parse_on_driver(plan_splits(sources, target)).to_pylist()
        (failure,) = (row for row in rows if row["event"] == "failure")
        assert "price book 77 is gone" in failure["cause"]
        assert failure["offset"] == text.index("java.lang.IllegalStateException")


@pytest.mark.parametrize(
    "record",
    [
        "2024-05-01 10:00:01,000 ERROR com.acme.Book [] - cannot price\n",
        f"2024-05-01 10:00:01,000 WARN  com.acme.Book [] - cannot price\n{TRACE}",
        "2024-05-01 10:00:01,000 INFO  com.acme.Book [] - on.ERROR: retry, on.FATAL: stop\n",
    ],
)
def test_handled_errors_in_a_large_log_with_known_messages(judge: PasteJudge, record: str) -> None:
    half = PRICED * (300_000 // len(PRICED))
    sources = judge.inputs(f"{IDENTITY}{half}{record}{half}").sources
    rows = parse_on_driver(plan_splits(sources)).to_pylist()
    assert {row["event"] for row in rows} == {"process_identity", "split"}


ANSWER = """{
    "TxnId": 12,
    "Label": "orders-77",
    "Status": "Fail",
    "Message": "no partition for this row",
    "NumberFilteredRows": 3
}
"""
LOADER = "com.acme.load.LoadFailedException: Failed to load rows, answer:"


@pytest.mark.parametrize(
    "text",
    [
        f"java.lang.RuntimeException: com.acme.load.LoadFailedException: {ANSWER}\tat com.acme.load.Loader.check(Loader.java:33)\n",
        f"{LOADER}\n{' '.join(ANSWER.split())}\n",
        f"`Caused by: {LOADER} `\n```json\n{' '.join(ANSWER.split())}\n```\n",
        f"2024-05-01 10:00:01,000 ERROR com.acme.load.Loader [] - answer: {ANSWER}\n",
        ANSWER,
    ],
)
def test_the_body_of_an_answer_belongs_to_the_failure(judge: PasteJudge, text: str) -> None:
    report = report_on(judge, text)
    assert [
        finding.title for finding in report.findings if "no partition for this row" in finding.title
    ]
    assert not any("TxnId" in finding.title for finding in report.findings)
    fine = text.replace("Fail", "Success").replace("ERROR", "INFO")
    assert text is not ANSWER or report_on(judge, fine).findings == []


JSON_RECORD = (
    '{"@timestamp":"2024-05-01T10:00:00Z","level":"%s","logger":"com.acme.App","message":"%s"}'
)
PRICE = "java.lang.IllegalStateException: price book 77 is gone"


@pytest.mark.parametrize(
    "trace",
    [
        f"{PRICE}\\n\\tat com.acme.Book.open(Book.java:41)",
        f"{PRICE} at com.acme.Book.open(Book.java:41) at com.acme.Book.get(Book.java:7)",
        f"{PRICE}\n\tat com.acme.Book.open(Book.java:41)",
    ],
)
@pytest.mark.parametrize("around", ["", JSON_RECORD % ("INFO", "priced") + "\n"])
def test_a_trace_behind_a_json_record(judge: PasteJudge, trace: str, around: str) -> None:
    report = report_on(
        judge, f"{around}{JSON_RECORD % ('ERROR', 'cannot price')} {trace}\n{around}"
    )
    assert "price book 77 is gone" in report.findings[0].title


@pytest.mark.parametrize(
    "text", ["ERROR price book 77 is gone\n", "INFO opening\nFATAL the price book 77 is gone\n"]
)
def test_a_bare_error_line(judge: PasteJudge, text: str) -> None:
    assert "price book 77 is gone" in report_on(judge, text).findings[0].title


@pytest.mark.parametrize(
    "text",
    [
        "ERROR = red\nWARN = yellow\n",
        "ERROR 0\nWARN 3\n",
        "rootLogger.level = ERROR\nlogger.acme.level = INFO\n",
        "2024-05-01 10:00:00,000 INFO  org.apache.flink.configuration.GlobalConfiguration [] - Loading configuration property: table.exec.sink.not-null-enforcer, ERROR\n",
    ],
)
def test_words_for_errors_without_an_error(judge: PasteJudge, text: str) -> None:
    assert report_on(judge, text).findings == []


@pytest.mark.parametrize(
    ("text", "process"),
    [
        (
            (
                "java.lang.RuntimeException: Failed to fetch next result\n"
                "\tat org.apache.flink.streaming.api.operators.collect.CollectResultIterator.nextResultFromFetcher(CollectResultIterator.java:109)\n"
            ),
            "main method",
        ),
        (
            (
                "java.lang.RuntimeException: cannot run\n"
                "\tat com.ververica.flink.table.gateway.deployment.ProgramDeployer.deploy(ProgramDeployer.java:86)\n"
            ),
            "Flink's SQL gateway",
        ),
    ],
)
def test_results_are_fetched_outside_the_taskmanagers(
    judge: PasteJudge, text: str, process: str
) -> None:
    words = words_of(report_on(judge, text))
    assert process in words
    assert "TaskManager" not in words


def test_an_unknown_schema_is_not_a_serializer_error(judge: PasteJudge) -> None:
    text = (
        "org.apache.kafka.common.errors.SerializationException: Error retrieving Avro schema for id 77\n"
        "Caused by: io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: Subject not found.; error code: 40401\n"
    )
    report = report_on(judge, text)
    assert report.summary.cause == "unrecognised-failure"
    assert "schema registry" in words_of(report)


def test_a_wrapped_frame_is_not_job_code(judge: PasteJudge) -> None:
    text = (
        "org.apache.flink.util.FlinkException: no slot was free\n"
        "at org.apache.flink.runtime.executiongraph.\nFailureHandler.handle(FailureHandler.java:7)\n"
    )
    assert "own code" not in words_of(report_on(judge, text))


def test_a_pyflink_call_is_not_attributed_to_spark(judge: PasteJudge) -> None:
    text = "py4j.protocol.Py4JJavaError: An error occurred while calling o12.executeSql.\n: java.lang.IllegalArgumentException: no bucket\n"
    assert {item.engine for item in judge.inputs(text).sources} == {"flink"}


def test_a_null_in_a_column_is_not_an_invalid_statement(judge: PasteJudge) -> None:
    text = f"org.apache.flink.table.api.TableException: Column 'book' is NOT NULL, however, a null value is being written into it.\n{TASK}"
    report = report_on(judge, text)
    assert report.summary.cause == "constraint-violated"


REFUSED = (
    "2017-05-04 11:20:01,123 INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph - Could not restart the "
    "job Orders (7d0a2e3f4b5c6d7e8f901a2b3c4d5e6f) because the restart strategy prevented it.\n"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (REFUSED, "restart strategy prevented it"),
        (f"{REFUSED}com.acme.PriceGone: no book 77\n\tat com.acme.Book.open(Book.java:4)\n", "no book 77"),
        (f"{REFUSED}java.io.IOException: no book 77\n\tat com.acme.Book.open(Book.java:4)\n", "no book 77"),
        ('The job is down: "restart strategy prevented it". Why?\n', "restart strategy prevented it"),
    ],
)  # fmt: skip
def test_a_job_that_is_not_restarted(judge: PasteJudge, text: str, cause: str) -> None:
    rows = parse_on_driver(plan_splits(judge.inputs(text).sources)).to_pylist()
    (failure,) = (row for row in rows if row["event"] == "failure")
    assert cause in failure["cause"]
    assert dict(failure["fields"])["ended"] == "job"


def test_the_amounts_of_missing_network_memory_are_in_the_title(judge: PasteJudge) -> None:
    pool = "(required (MB): 1280, allocated (MB): 1024, missing (MB): 256). Cause: Direct buffer memory"
    text = f"java.lang.OutOfMemoryError: Could not allocate enough memory segments for NetworkBufferPool {pool}\n"
    title = report_on(judge, text).findings[0].title
    assert "1280 MB required, 1024 MB allocated, 256 MB missing" in title


FAILED_TASK = (
    "Map (1/2)#0 (8a598b4550a1f3c2bc87451351ff8da1_cbc357ccb763df2852fee8c4fc7d55f2_0_0) "
    "switched from RUNNING to FAILED with failure cause:"
)


@pytest.mark.parametrize("end", [r"\n\tat com.acme.Book.open(B.java:4)\n", " at com.acme.Book.open(B.java:4)"])  # fmt: skip
def test_a_known_message_in_a_json_record_with_a_trace_behind_it(
    judge: PasteJudge, end: str
) -> None:
    record = JSON_RECORD.replace("com.acme.App", "org.apache.flink.runtime.taskmanager.Task")
    text = f"{record % ('WARN', FAILED_TASK)} {PRICE}{end}\n"
    rows = parse_on_driver(plan_splits(judge.inputs(text).sources)).to_pylist()
    assert [row["template"] for row in rows] == ["task-state", KNOWN_RECORD, None]
    row = rows[0]
    assert (row["task"], row["cause"]) == ("Map", PRICE)
    assert "com.acme.Book.open(B.java:4)" in str(row["fields"])


@pytest.mark.parametrize(
    "text",
    [
        "level ERROR means that a task failed\n",
        "The word aborted indicates that some batch failed\n",
        "The state FAILED stands for a job that failed for good\n",
    ],
)
def test_definitions_of_errors_are_not_failures(judge: PasteJudge, text: str) -> None:
    assert report_on(judge, text).findings == []


def test_a_restart_is_a_trace_of_a_failure(judge: PasteJudge) -> None:
    record = (
        "2024-06-02 12:11:54,944 INFO org.apache.flink.runtime.executiongraph.ExecutionGraph [] - "
        "Job prices (7c7769847d333438dd9ce845d5a2d980) switched from state %s."
    )
    report = report_on(judge, record % "RUNNING to RESTARTING")
    assert "failure that is not in the input" in report.findings[0].title
    assert report_on(judge, record % "RESTARTING to RUNNING").findings == []


def test_the_exception_of_a_checkpoint_that_was_not_triggered(judge: PasteJudge) -> None:
    text = (
        "[jobmanager-7] INFO org.apache.flink.runtime.checkpoint.CheckpointCoordinator - "
        "Triggering Checkpoint 3 for job 7c7769847d333438dd9ce845d5a2d980 failed due to {}\n"
        "org.apache.flink.runtime.checkpoint.CheckpointException: TaskManager received a checkpoint request for unknown task a_b_1_0\n"
        "\tat org.apache.flink.runtime.taskexecutor.TaskExecutor.triggerCheckpoint(TaskExecutor.java:1061)\n"
    )
    assert "for unknown task" in report_on(judge, text).findings[0].title


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"error": "[DELTA_TABLE_NOT_FOUND] orders", "error_trace": "Traceback (most recent call last):\\n  File \\"/a/job.py\\", line 3\\n    q.start()\\n"}',
            "[DELTA_TABLE_NOT_FOUND] orders",
        ),
        (
            '{"errorClass": "a.b.QueryException", "message": "no batch", "cause": {"errorClass": "a.DiskException", "message": "volume 7 is gone"}}',
            "volume 7 is gone",
        ),
        (
            '{"status": "error", "ename": "AnalysisException", "evalue": "no column price", "traceback": []}',
            "no column price",
        ),
        ('{\n  "error_code": "QUOTA_EXCEEDED",\n  "message": "5 of 5 clusters"\n}', "5 of 5 clusters"),
        (
            '{"level": "ERROR", "timestamp": "2024-03-01T10:00:00Z", "message": "Flow orders has FAILED", "error": {"exceptions": [{"class_name": "a.XException", "message": "first"}, {"class_name": "a.YException", "message": "version 4 is gone"}]}}',
            "version 4 is gone",
        ),
    ],
)  # fmt: skip
def test_a_failure_whose_class_and_message_are_values_of_json(
    judge: PasteJudge, text: str, words: str
) -> None:
    assert words in report_on(judge, text).findings[0].title


def test_a_json_object_without_a_failure_reports_none(judge: PasteJudge) -> None:
    text = '{"name": "orders", "status": "RUNNING", "message": "12 batches", "type": "DailyReport"}'
    assert report_on(judge, text).findings == []


def test_a_cause_alone_does_not_show_that_a_job_ended(judge: PasteJudge) -> None:
    text = "Caused by: a.b.PriceException: no price\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"
    assert report_on(judge, text).summary.verdict == "degraded"
    assert "ended the application" in words_of(report_on(judge, text.removeprefix("Caused by: ")))


def test_the_dated_attempts_of_a_client_belong_to_its_message(judge: PasteJudge) -> None:
    text = (
        "ERROR Executor: Exception in task 3.0 in stage 4.0 (TID 77)\n"
        "org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=35, exceptions:\n"
        "Fri Mar 01 10:00:00 UTC 2024, RpcRetryingCaller{pause=100}, java.net.SocketTimeoutException: callTimeout=60000\n"
        "\tat org.apache.hadoop.hbase.client.RpcRetryingCaller.callWithRetries(RpcRetryingCaller.java:159)\n"
    )
    assert "callTimeout=60000" in words_of(report_on(judge, text))


SPARK_LINE = "24/03/01 22:40:00 INFO BlockManagerInfo: Added broadcast_0_piece0 in memory\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Exception in thread "main" com.acme.PriceException: none\n\tat com.acme.Main.main(Main.java:1)\n', 1),
        ('Traceback (most recent call last):\n  File "/a/j.py", line 3, in <module>\n    run()\nValueError: none\n', 1),
        ("24/03/01 22:40:01 ERROR TaskContextImpl: Error in TaskCompletionListener\njava.io.IOException: gone\n\tat a.B.c(B.java:1)\n", 0),
    ],
)  # fmt: skip
def test_a_large_spark_log_shows_the_failure_that_ended_it(
    tmp_path: Path, text: str, found: int
) -> None:
    path = tmp_path / "driver.log"
    path.write_text(SPARK_LINE * 4000 + text + SPARK_LINE * 2000 + STOPPED)
    (source,) = discover([str(path)]).sources
    rows = parse_on_driver(plan_splits([source])).to_pylist()
    assert sum(row["event"] == "failure" for row in rows) == found


@pytest.mark.parametrize(
    ("text", "fact", "words"),
    [
        ("We get `ORA-01555: snapshot too old: segment 12` from the source, any tips?", "ORA-01555", "Oracle"),
        ("the sink stops at: E11000 duplicate key error collection: shop.orders", "E11000", "MongoDB"),
        ("our sink restarts with  `Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)`  hm", "Code: 252", "ClickHouse"),
        ("Msg 1205, Level 13, State 51, Line 1 Transaction (Process ID 62) was deadlocked", "Msg 1205", "SQL Server"),
        ("it answers UNAVAILABLE: io exception of a channel", "UNAVAILABLE", "gRPC UNAVAILABLE"),
        ("since then EMFILE: too many open files, open '/tmp/12.sst'", "EMFILE", "too many open files"),
        ("rdkafka#producer-1 : Broker: Not enough in-sync replicas", "Broker: Not enough", "Kafka client"),
        ("the proxy says 503 Service Unavailable", "503 Service", "HTTP 503"),
        ("SQL compilation error: Object 'ORDERS' does not exist", "SQL compilation", "Snowflake"),
        ("our job dies with NOT_LEADER_OR_FOLLOWER for orders-3", "our job", "the partition moved"),
    ],
)  # fmt: skip
def test_the_message_of_a_server_needs_no_class(
    judge: PasteJudge, text: str, fact: str, words: str
) -> None:
    report = report_on(judge, f"{text}\n")
    assert report.findings[0].title.startswith(fact)
    assert words in words_of(report)


@pytest.mark.parametrize(
    "text",
    [
        "If the REST API answers 503 Service Unavailable, the JobManager is still starting.",
        "retries on UNAVAILABLE and RESOURCE_EXHAUSTED are enabled; the connector waits 100 ms",
        "Which setting leads to NOT_ENOUGH_REPLICAS, min.insync.replicas or acks?",
        "What does ORA-01555 mean in general?",
    ],
)
def test_the_name_of_an_error_is_not_a_failure(judge: PasteJudge, text: str) -> None:
    assert report_on(judge, f"{text}\n").findings == []


def test_a_path_that_looks_like_the_prefix_of_grep(judge: PasteJudge) -> None:
    report = report_on(judge, "pod/orders-taskmanager-1-3 is in CrashLoopBackOff\n")
    assert "CrashLoopBackOff" in report.findings[0].title


@pytest.mark.parametrize("level", ["", " ERROR", " WARN "])
def test_a_dated_exception_without_a_message_is_not_a_logger(judge: PasteJudge, level: str) -> None:
    report = report_on(judge, f"2024-05-02 10:00:01,123{level} java.lang.OutOfMemoryError\n")
    assert report.summary.cause == "out-of-memory"
    words = words_of(report)
    assert "Flink" not in words and "backend" not in words


@pytest.mark.parametrize("date", ["2024-05-02 10:00:01,123", "24/05/02 10:00:01", "10:00:01"])
def test_two_dated_lines_of_a_stack_trace(judge: PasteJudge, date: str) -> None:
    text = f"{date} com.acme.PriceException: no price\n{date} \tat com.acme.P.get(P.java:1)\n"
    report = report_on(judge, text)
    assert report.findings[0].title == "PriceException: no price"
    assert "com.acme.P.get" in words_of(report)


LEADER = "org.apache.flink.runtime.leaderelection.LeaderElectionException: no selector\n"
NO_AUTH = "Caused by: org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.KeeperException$NoAuthException: KeeperErrorCode = NoAuth for /flink\n"


def test_the_reason_why_there_is_no_leader(judge: PasteJudge) -> None:
    report = report_on(judge, LEADER + NO_AUTH)
    assert report.summary.cause == "unrecognised-failure"
    assert "ZooKeeper" in words_of(report)
    assert report_on(judge, LEADER).summary.cause == "leadership-lost"


@pytest.mark.parametrize(
    ("outer", "target"),
    [
        ("Failed to send data to Pulsar: persistent://public/default/orders-0", "persistent://public/default/orders-0"),
        ("Failed to send data to Kafka topic orders-3", "topic orders-3"),
        ("bulk request to index 'orders' failed", "index orders"),
        ("cannot flush table [orders]", "table orders"),
        ("cannot flush the table of this task", ""),
    ],
)  # fmt: skip
def test_the_target_in_an_outer_exception(judge: PasteJudge, outer: str, target: str) -> None:
    text = f"com.acme.SinkException: {outer}\n\tat com.acme.S.run(S.java:1)\nCaused by: com.acme.SlowException: 9 s\n"
    words = words_of(report_on(judge, text))
    assert ("An outer exception names" in words) == bool(target)
    assert target in words


def test_the_gateway_of_python_runs_in_the_driver(judge: PasteJudge) -> None:
    text = (
        "py4j.protocol.Py4JError: An error occurred while calling None.org.apache.spark.streaming.Duration. Trace:\n"
        "py4j.Py4JException: Constructor org.apache.spark.streaming.Duration([class java.lang.String]) does not exist\n"
        "\tat py4j.Gateway.invoke(Gateway.java:237)\n"
    )
    assert "driver" in words_of(report_on(judge, text))


def test_the_status_of_a_remote_call_follows_on_more_lines(judge: PasteJudge) -> None:
    text = (
        "---------------------------------------------------------------------------\n"
        "SparkConnectGrpcException                 Traceback (most recent call last)\n"
        "----> 3 spark.table('t').toPandas()\n\n"
        "SparkConnectGrpcException: <_MultiThreadedRendezvous of RPC that terminated with:\n"
        "\tstatus = StatusCode.RESOURCE_EXHAUSTED\n"
        '\tdetails = "CLIENT: Received message larger than max (140 vs. 134)"\n>\n'
    )
    assert "larger than max (140 vs. 134)" in report_on(judge, text).findings[0].title


@pytest.mark.parametrize(
    "row",
    [
        '2024-05-02T10:00:01.000Z,orders,ERROR,"com.acme.LockException: no lock on 7"',
        '"2024-05-02T10:00:01.000+0000",main,"host=a","24/05/02 10:00:01 ERROR MicroBatchExecution: Query q terminated with error com.acme.LockException: no lock on 7"',
    ],
)
def test_the_cell_of_an_export_loses_its_quotes(judge: PasteJudge, row: str) -> None:
    assert report_on(judge, f"{row}\n").findings[0].title.startswith("LockException: no lock on 7")


def test_an_option_is_proposed_once(judge: PasteJudge) -> None:
    text = "Container killed by YARN for exceeding memory limits. 2.0 GB of 2 GB physical memory used. Consider boosting spark.yarn.executor.memoryOverhead.\n"
    named = [action.option for action in report_on(judge, text).findings[0].actions]
    assert len(named) == len({option or number for number, option in enumerate(named)})


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_record_in_a_document_does_not_show_that_its_process_continued(
    judge: PasteJudge, level: str
) -> None:
    record = f"2024-03-02 11:04:19,220 {level} [main] com.acme.Client - order 7"
    text = json.dumps(
        {"error": f"{record}\na.b.CException: no lock\n\tat a.B.c(B.java:1)"}, indent=2
    )
    finding = report_on(judge, text).findings[0]
    assert (finding.title, finding.severity) == ("CException: no lock", "warning")


def test_a_python_error_with_an_unusual_name_below_a_record() -> None:
    lines = [
        "java.lang.RuntimeException: Error received from SDK harness for instruction 6: Traceback (most recent call last):",
        '  File "/job/prices.py", line 18, in round_price',
        "    return price.quantize(places)",
        "decimal.InvalidOperation: [<class 'decimal.InvalidOperation'>]",
        "",
        "\tat java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:357)",
    ]
    trace = read_trace(lines)
    assert trace.cause is not None and trace.cause.startswith("decimal.InvalidOperation")


def test_the_dispatcher_only_reports_the_end_of_a_job(judge: PasteJudge) -> None:
    text = (
        "2024-05-02 10:00:01,123 INFO  com.acme.Dispatcher [] - Job 1fcd2ae5b3a7d1be2ce9c7d9cbd1d8b3 reached terminal state FAILED.\n"
        "java.lang.ArithmeticException: / by zero\n\tat com.acme.A.b(A.java:1)\n"
    ).replace("com.acme.Dispatcher", "org.apache.flink.runtime.dispatcher.StandaloneDispatcher")
    rows = parse_on_driver(plan_splits(judge.inputs(text).sources)).to_pylist()
    fields = [dict(row["fields"]) for row in rows if row["event"] == "failure"]
    assert fields and "process" not in fields[0]


def test_late_triggers_that_prove_nothing_are_counted(judge: PasteJudge) -> None:
    late = "24/05/02 10:%02d:12 WARN ProcessingTimeExecutor: Current batch is falling behind. The trigger interval is 10000 milliseconds, but spent 12031 milliseconds\n"
    report = report_on(judge, "".join(late % minute for minute in (0, 5, 11)))
    assert any("3 late triggers" in (topic.reason or "") for topic in report.topics)


def test_the_record_below_shows_the_address_of_a_failed_connection(judge: PasteJudge) -> None:
    error = "java.net.NoRouteToHostException: No route to host"
    text = f"24/05/02 10:00:01 ERROR Client: no answer\n{error}\n\tat com.acme.A.b(A.java:1)\n24/05/02 10:00:01 WARN Client: %s\n"
    repeats = f"Association with [pekko.tcp://flink@10.0.3.7:6123] failed. Caused by: [{error}]"
    assert "10.0.3.7:6123" in report_on(judge, text % repeats).findings[0].title
    assert "10.0.3.7" not in report_on(judge, text % "Connected to 10.0.3.7:6123").findings[0].title


def test_the_exit_code_around_an_exception_is_explained(judge: PasteJudge) -> None:
    text = (
        "22/03/09 16:40:27 INFO Client:\n"
        "\t diagnostics: Application application_1646810001234_0017 failed 2 times due to AM Container for appattempt_1646810001234_0017_000002 exited with  exitCode: -1000\n"
        "java.io.FileNotFoundException: File file:/home/etl/libs.zip does not exist\n"
        "\tat org.apache.hadoop.yarn.util.FSDownload.copy(FSDownload.java:269)\n"
    )
    assert "the container never started" in words_of(report_on(judge, text))
