"""Tests exceptions without a record above them: every class in every wrapping that people use."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.parsers.discover import discover
from flowdiag.parsers.exceptions import classes, classify, option_keys_in
from flowdiag.parsers.logs.paste_rows import paste_rows
from flowdiag.parsers.logs.pastes import PASTE_BYTES, exceptions_in
from flowdiag.parsers.split import Split, parse_on_driver, parse_split, plan_splits

from .traces import DATED, WRAPPINGS, joined

TABLE: Final[list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[2] / "parsers" / "formats" / "exceptions.toml").read_text()
)["class"]

FLINK: Final = (
    "org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy",
    (
        "org.apache.flink.runtime.executiongraph.failover.flip1.ExecutionFailureHandler.handleFailure"
        "(ExecutionFailureHandler.java:138)"
    ),
    "org.apache.flink.runtime.scheduler.DefaultScheduler.handleTaskFailure(DefaultScheduler.java:252)",
)
SPARK: Final = (
    "org.apache.spark.sql.streaming.StreamingQueryException: the query was stopped",
    "org.apache.spark.sql.execution.streaming.StreamExecution.runStream(StreamExecution.scala:325)",
    "org.apache.spark.sql.execution.streaming.StreamExecution$$anon$1.run(StreamExecution.scala:211)",
)


def trace(failure: str, engine: str) -> list[str]:
    """Return a trace with `failure` as its deepest cause."""
    outer, *frames = SPARK if engine == "spark" else FLINK
    below = [f"\tat {frame}" for frame in frames]
    last = ["\tat java.base/java.lang.Thread.run(Thread.java:829)", "\t... 7 more"]
    return [outer, *below, last[0], f"Caused by: {failure}", *below, last[1]]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file without the `split` row."""
    (source,) = discover([str(path)]).sources
    assert source.kind != "not-read", source.reason
    table = [row for batch in parse_split(Split(source, 0, -1)) for row in batch.to_pylist()]
    for row in table:
        row["fields"] = dict(row["fields"] or ())
    return [row for row in table if row["event"] != "split"]


def pasted(path: Path) -> list[dict[str, Any]]:
    return [row for row in rows_of(path) if row["template"] == "bare-exception"]


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["name"])
def test_every_sample_gives_its_class_and_values(entry: dict[str, Any]) -> None:
    found = classify([entry["sample"]], entry.get("engine"))
    assert found is not None
    assert (found.name, found.kind) == (entry["name"], entry["kind"])
    assert found.values == entry.get("gives", {})


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["name"])
def test_every_class_in_every_wrapping(
    entry: dict[str, Any], wrapping: str, tmp_path: Path
) -> None:
    engine = entry.get("engine", "flink")
    path = tmp_path / "paste"
    path.write_text(WRAPPINGS[wrapping](trace(entry["sample"], engine)))
    (row,) = pasted(path)
    assert row["event"] == ("spark_query" if engine == "spark" else "exception")
    assert row["fields"].get("class") == entry["name"]
    if wrapping != "wrapped":  # a number may be split in two
        assert entry.get("gives", {}).items() <= row["fields"].items()
    failure = entry["sample"].split(":")[0]
    assert (
        failure in " ".join((row["cause"], row["fields"]["exception"]))
        or "Lost task" in entry["sample"]
    )
    if wrapping in DATED:
        assert row["local_us"] == datetime(2023, 11, 8, 12, 40, 56, tzinfo=UTC).timestamp() * 1e6
    else:
        assert row["local_us"] is None and row["utc_us"] is None


def test_every_class_has_a_cause() -> None:
    names = {failure_class.name for failure_class in classes()}
    assert set(CAUSE_OF_CLASS) <= names
    # Classes that only wrap a failure have no cause of their own.
    assert names - set(CAUSE_OF_CLASS) == {
        "checkpoint-failures",
        "checkpoint-expired",
        "query-failed",
    }
    for word, remedies in CAUSE_OF_CLASS.values():
        assert set(remedies) <= set(CAUSES[word].remedies or {})
        assert CAUSES[word].remedies, word


# --- whose trace it is ----------------------------------------------------------------------------

HEADED = "2023-11-08 12:40:56,123 {level} org.example.Orders [] - could not\n"


@pytest.mark.parametrize("level", ["INFO", "WARN"])
def test_a_trace_below_a_record_belongs_to_it(level: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    failure = trace("java.io.IOException: No space left on device", "flink")
    path.write_text(HEADED.format(level=level) + joined(failure))
    assert pasted(path) == []


def test_an_unknown_error_record_reports_its_exception(tmp_path: Path) -> None:
    path = tmp_path / "log"
    failure = joined(trace("java.io.IOException: No space left on device", "flink"))
    path.write_text(HEADED.format(level="ERROR") + failure)
    (row,) = pasted(path)
    assert row["fields"]["class"] == "storage-full"
    assert (
        row["local_us"] == datetime(2023, 11, 8, 12, 40, 56, 123000, tzinfo=UTC).timestamp() * 1e6
    )
    # Only known exceptions are reported, because user code logs exceptions and continues.
    path.write_text(
        HEADED.format(level="ERROR") + joined(trace("org.example.OrderError: x", "flink"))
    )
    assert pasted(path) == []


def test_client_retries_are_not_failures(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for failure in (
        "java.net.ConnectException: Connection refused",
        "java.io.FileNotFoundException: /a",
    ):
        path.write_text(HEADED.format(level="ERROR") + joined(trace(failure, "flink")))
        assert pasted(path) == []


def test_a_trace_before_the_first_record_has_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "log"
    failure = joined(trace("java.io.IOException: No space left on device", "flink")[3:])
    path.write_text(failure + HEADED.format(level="INFO") + failure)
    (row,) = pasted(path)
    # The cited line is the one with the reason.
    assert (row["offset"], row["fields"]["class"]) == (failure.index("Caused by"), "storage-full")


def test_a_date_line_ends_a_record(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    failure = joined(trace("java.net.UnknownHostException: kafka-3.example", "flink"))
    path.write_text("2023-11-08 12:40:56\n" + failure + "\n2023-11-08 13:00:00\n" + failure)
    first, second = pasted(path)
    assert second["local_us"] - first["local_us"] == (19 * 60 + 4) * 1_000_000


def test_two_exceptions_are_two_rows(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    one = joined(trace("java.net.UnknownHostException: kafka-3.example", "flink"))
    other = joined(trace("java.lang.OutOfMemoryError: Metaspace", "flink"))
    path.write_text(one + "\n" + other)
    assert [row["fields"]["class"] for row in pasted(path)] == [
        "service-unreachable",
        "metaspace-full",
    ]


def test_any_split_gives_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    failure = joined(trace("java.io.IOException: No space left on device", "flink"))
    path.write_text(failure + HEADED.format(level="ERROR") + failure)
    (source,) = discover([str(path)]).sources
    edges = [0, 100, 700, -1]
    parts = [
        row["cause"]
        for start, end in pairwise(edges)
        for batch in parse_split(Split(source, start, end))
        for row in batch.to_pylist()
        if row["event"] == "exception"
    ]
    assert parts == [row["cause"] for row in pasted(path)]


@pytest.mark.parametrize(
    "row",
    [
        "2023-11-08 12:40:56\t{}\tSource: orders -> Map (1/4)\tworker-2:40613",
        "| 2023-11-08 12:40:56 | {} | Source: orders -> Map (1/4) | worker-2:40613 |",
        "{}\tSource: orders -> Map (1/4)\tworker-2:40613",
    ],
)
def test_a_row_of_the_table_of_exceptions_names_the_task(row: str, tmp_path: Path) -> None:
    path = tmp_path / "paste"
    failure = "java.lang.NumberFormatException"
    trace_of_it = joined(
        [f'{failure}: For input string: "n/a"', "\tat com.acme.Parse.map(P.java:9)"]
    )
    path.write_text("Time\tException\tName\tLocation\n" + row.format(failure) + "\n" + trace_of_it)
    (found,) = pasted(path)
    assert found["cause"] == f'{failure}: For input string: "n/a"'
    assert (found["task"], found["subtask_index"], found["parallelism"], found["host"]) == (
        "Source: orders -> Map",
        0,
        4,
        "worker-2",
    )
    assert (found["local_us"] is None) is ("2023" not in row)


def test_each_row_of_the_exception_history_is_a_failure(tmp_path: Path) -> None:
    """Check rows without a trace and of an unknown class: the column of tasks marks them as
    failures.
    """
    path = tmp_path / "paste"
    row = "2023-11-08 12:4{}:56\tcom.acme.PriceException: no price\tEnrich (3/8)\tworker-7:40121\n"
    path.write_text("Time\tException\tName\tLocation\n" + row.format(0) + row.format(1))
    found = pasted(path)
    assert [each["cause"] for each in found] == ["com.acme.PriceException: no price"] * 2
    assert {(each["task"], each["subtask_index"], each["host"]) for each in found} == {
        ("Enrich", 2, "worker-7")
    }
    assert len({each["local_us"] for each in found}) == 2


# --- root and consequences ------------------------------------------------------------------------


def test_the_deepest_explanatory_cause_wins() -> None:
    lost = "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Lost connection to task manager 'worker-2/10.0.0.7:35511 [ tm-2 ] '. This indicates that the remote task manager was lost."
    found = classify([FLINK[0], lost, "java.io.IOException: Connection reset by peer"])
    assert found is not None and (found.name, found.link) == ("taskmanager-lost", 1)


def test_a_wrapper_is_not_the_class_of_a_user_exception() -> None:
    used_up = "org.apache.flink.runtime.JobException: Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=10000)"
    assert classify([used_up, "org.example.OrderError: price is negative"]) is None
    found = classify([used_up])
    assert found is not None and found.name == "restarts-used-up"


@pytest.mark.parametrize(
    "before, after, name", [(1500, 20, "offsets-went-back"), (20, 1500, "offsets-gone")]
)
def test_the_numbers_show_the_direction_of_an_offset_change(
    before: int, after: int, name: str
) -> None:
    failure = f"Partition orders-3's offset was changed from {before} to {after}, some data may have been missed"
    found = classify([f"java.lang.IllegalStateException: {failure}"], "spark")
    assert found is not None and found.name == name


def test_the_python_error_is_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    path.write_text(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 8.0 failed 4 times,"
        " most recent failure: Lost task 1.3 in stage 8.0 (TID 44) (worker-3 executor 2):"
        " org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/opt/orders/job.py", line 31, in parse\n'
        "    return float(text)\n"
        "ValueError: could not convert string to float: 'n/a'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.next(PythonRunner.scala:572)\n"
        "Driver stacktrace:\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2785)\n"
    )
    (row,) = pasted(path)
    assert row["cause"] == "ValueError: could not convert string to float: 'n/a'"


def test_a_py4j_error_is_the_java_error(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    path.write_text(
        "Traceback (most recent call last):\n"
        '  File "/opt/orders/job.py", line 12, in <module>\n'
        "    query.awaitTermination()\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o88.awaitTermination.\n"
        f": {SPARK[0]}\n\tat {SPARK[1]}\n"
        "Caused by: java.lang.IllegalStateException: Partition orders-3's offset was changed from 1500 to 20,"
        " some data may have been missed.\n"
    )
    (row,) = pasted(path)
    assert row["event"] == "spark_query"
    assert row["fields"]["class"] == "offsets-went-back"
    assert (row["fields"]["from"], row["fields"]["to"]) == ("1500", "20")


def test_a_spark_exception_names_its_query(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    identity, run = "6a4b3fcd-1d8f-4f39-8f6c-0c8a13d9a111", "0ef5d5a4-7d5e-4c37-92a4-42f87f1f2a22"
    path.write_text(
        f"{SPARK[0]}\n=== Streaming Query ===\nIdentifier: orders [id = {identity}, runId = {run}]\n"
        f"Current State: ACTIVE\n\tat {SPARK[1]}\n"
    )
    (row,) = pasted(path)
    assert row["job_name"] == "orders"
    assert (row["fields"]["id"], row["fields"]["run_id"]) == (identity, run)


def test_the_lost_taskmanager_is_named(tmp_path: Path) -> None:
    path = tmp_path / "paste"
    failure = "java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id tm-7(worker-3:8041) timed out."
    path.write_text(joined(trace(failure, "flink")))
    (row,) = pasted(path)
    assert row["taskmanager"] == "tm-7" == row["fields"]["lost_taskmanager"]


def test_options_in_a_text() -> None:
    text = (
        "You can increase this by setting 'taskmanager.memory.network.fraction' or spark.rpc.askTimeout;"
        " see org.apache.spark.sql.Dataset and s3.example.com, task.java"
    )
    assert option_keys_in(text) == ("taskmanager.memory.network.fraction", "spark.rpc.askTimeout")


QUOTED_IN_A_SENTENCE = {
    'It dies with "org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer with the'
    ' same transactionalId which fences the current one." since the upgrade.': (
        "unknown",  # a class of Kafka's client alone shows no engine
        "fenced-transaction",
    ),
    "bq. java.io.IOException: Insufficient number of network buffers: required 65, but only 41 available.": (
        "flink",
        "network-buffers",
    ),
    "[14:05] Mia: org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire"
    " the minimum required resources.": ("flink", "not-enough-slots"),
    "Message: [STREAM_FAILED] Query [id = 6a4b3fcd-1d8f-4f39-8f6c-0c8a13d9a111, runId ="
    " 0ef5d5a4-7d5e-4c37-92a4-42f87f1f2a22] terminated with exception: Job aborted due to stage failure:"
    " ExecutorLostFailure (executor 4 exited) Reason: Command exited with code 137": (
        "spark",
        "executor-lost",
    ),
}


@pytest.mark.parametrize(
    ("text", "known"), QUOTED_IN_A_SENTENCE.items(), ids=range(len(QUOTED_IN_A_SENTENCE))
)
def test_an_exception_quoted_in_a_sentence(
    text: str, known: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "mail"
    path.write_text(f"Hello,\n\n{text}\n\nWhat can I do?\n")
    (source,) = discover([str(path)]).sources
    (row,) = (
        r for r in parse_on_driver(plan_splits([source])).to_pylist() if r["event"] != "split"
    )
    assert (source.engine, dict(row["fields"])["class"]) == known


def test_a_long_text_about_exceptions_is_not_an_exception() -> None:
    text = "".join(f"{line}\n" for line in QUOTED_IN_A_SENTENCE)
    assert list(exceptions_in((text + "As the manual says. " * 300).encode())) == []


# --- what is no exception -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "We saw an OutOfMemoryError once and raised the heap.\n",
        "taskmanager.memory.process.size: 4g\n# Exception handling\n",
        "public class OrderException extends RuntimeException {\n}\n",
        '"main" #1 prio=5\n\tat java.lang.Thread.run(Thread.java:829)\n',
        "",
    ],
)
def test_prose_about_exceptions_is_not_an_exception(text: str) -> None:
    assert list(exceptions_in(text.encode())) == []


@pytest.mark.parametrize(
    "text",
    [
        "at " * 60_000,
        "> " * 90_000,
        "a." * 90_000,
        '",' * 90_000,
        "Caused by: " * 20_000,
        "\\n\\tat a" * 20_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    began = datetime.now(UTC)
    list(exceptions_in(text[:PASTE_BYTES].encode()))
    assert (datetime.now(UTC) - began).total_seconds() < 3


MARKED = """\
Traceback (most recent call last):
  File "/opt/app/report.py", line 7, in <module>
    print(conf["target_table"])
          ~~~~^^^^^^^^^^^^^^^^
KeyError: 'target_table'
"""


LATE_TRIGGER = (
    "26/11/26 10:46:10 WARN ProcessingTimeExecutor: Current batch is falling behind. The trigger interval is 3000 "
    "milliseconds, but spent 8700 milliseconds\n"
)
PYTHON_GONE = (
    "26/11/26 10:46:11 ERROR MicroBatchExecution: Query [id = 1, runId = 2] terminated with error\n"
    "py4j.Py4JException: Received empty command\n"
)


def test_marks_below_a_line_of_python_are_not_a_code_fence() -> None:
    (found,) = exceptions_in(MARKED.encode())
    assert (found.python, found.python_trace.frame) == (
        "KeyError: 'target_table'",
        "<module>(report.py:7)",
    )


def test_the_line_that_waits_for_a_query_is_not_the_one_that_failed() -> None:
    waits = MARKED.replace('print(conf["target_table"])', "query.awaitTermination()")
    (found,) = exceptions_in(waits.encode())
    assert found.python_trace.frame is None


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ("", "application"),
        (
            "26/11/26 10:46:11 INFO SparkContext: Invoking stop() from shutdown hook\n",
            "application",
        ),
        ("batch 7: 80 rows\n" * 3, None),  # the script handled it
        (f"{LATE_TRIGGER}{PYTHON_GONE}", "application"),
        (f"{LATE_TRIGGER * 3}{PYTHON_GONE}", None),  # the script continued
    ],
)
def test_an_uncaught_exception_of_a_script_ends_the_application(
    more: str, ended: str | None
) -> None:
    row, *_ = paste_rows((MARKED + more).encode(), "spark", 0, whole=True, failed=False)
    assert row["fields"].get("ended") == ended


def test_tasks_that_stop_after_a_failure_are_not_separate_failures() -> None:
    head = "26/11/26 10:46:11 ERROR "
    lines = [
        "DataWritingSparkTask: Aborting commit for partition 1 (task 1, attempt 0, stage 1.0)",
        "DataWritingSparkTask: Aborted commit for partition 1 (task 1, attempt 0, stage 1.0)",
        "WriteToDataSourceV2Exec: Data source write support MicroBatchWrite[epoch: 0] is aborting.",
    ]
    around = (
        f"{head.replace('ERROR', 'INFO')}TaskSetManager: Starting task 0.0 in stage 1.0\n" * 400
    )
    text = around + "".join(f"{head}{line}\n" for line in lines)
    assert [*paste_rows(text.encode(), "spark", 0, whole=True, failed=False)] == []


@pytest.mark.parametrize(
    ("handler", "is_failure"),
    [
        ("runtime.rest.handler.job.JobVertexBackPressureHandler", False),
        ("r.rest.h.j.JobDetailsHandler", False),
        ("runtime.rest.handler.job.savepoints.SavepointHandlers", True),
        ("runtime.taskexecutor.TaskExecutor", True),
    ],
)
def test_a_request_that_the_jobmanager_cannot_answer_is_not_a_job_failure(
    handler: str, is_failure: bool, tmp_path: Path
) -> None:
    prefix = "2026-11-27 03:27:50,419 {} org.apache.flink.{} [] - "
    routine = prefix.format("INFO ", "runtime.blob.BlobServer") + "Created BLOB server storage.\n"
    trace = "java.util.NoSuchElementException: No value present\n\tat java.util.Optional.get(O.java:1)\n"
    failure = prefix.format("ERROR", handler) + "Unhandled exception.\n" + trace
    log = tmp_path / "jobmanager.log"
    log.write_text(60 * routine + failure + routine)
    found = [row for row in rows_of(log) if row["event"] == "failure"]
    assert bool(found) is is_failure
