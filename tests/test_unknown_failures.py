"""Checks that no failure text is silent: any exception, in any wrapping, below any record, is a finding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.knowledge.unknown_failures import Occurrence, failure_groups
from flowdiag.parsers.discover import discover
from flowdiag.parsers.lines.failure_lines import (
    benign_samples,
    failure_line,
    failure_lines,
    short_failure,
)
from flowdiag.parsers.logs.pastes import failures_in
from flowdiag.parsers.split import parse_on_driver, plan_splits

from .archives import FIXTURES, unpacked
from .recordings import is_rare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.contract.report import Report

LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
LAYOUTS: tuple[Callable[[str, str, str], str], ...] = (
    lambda level, logger, text: f"2024-03-02 11:04:19,220 {level:5} {logger} [] - {text}",
    lambda level, logger, text: f"24/03/02 11:04:19 {level} {logger}: {text}",
    lambda level, logger, text: f"2024-03-02 11:04:19.220 [main] {level} {logger} - {text}",
    lambda level, logger, text: f"{level}:{logger}:{text}",
    lambda level, logger, text: f"[2024-03-02, 11:04:19 UTC] {{{logger}.py:12}} {level} - {text}",
    lambda level, logger, text: f"{level} [2024-03-02 11:04:19,220] {logger}: {text}",
    lambda level, logger, text: json.dumps(
        {"time": "2024-03-02T11:04:19Z", "level": level, "logger": logger, "message": text}
    ),
)


def rows_of(text: str, path: Path) -> list[dict[str, object]]:
    path.write_text(text)
    sources = [source for source in discover([str(path)]).sources if source.kind != "not-read"]
    rows = parse_on_driver(plan_splits(sources)).to_pylist()
    return [row for row in rows if row["event"] not in ("split", "marks")]


def texts(rows: list[dict[str, object]]) -> str:
    return " ".join(" ".join(str(row["cause"]).split()) for row in rows)


@pytest.mark.parametrize("line", failure_lines(), ids=lambda line: line.name)
def test_every_kind_of_line_has_a_sample(line: object, tmp_path: Path) -> None:
    sample = line.sample  # type: ignore[attr-defined]
    assert failure_line(sample, weak=True) is line
    assert rows_of(f"{sample}\n", tmp_path / "paste")


ONE_LINERS = {
    "**java.lang.IllegalArgumentException: Invalid lambda deserialization**": "Invalid lambda",
    "`com.acme.PriceException: no price`": "no price",
    "> com.acme.PriceException: no price": "no price",
    '2024-05-02T10:00:01Z,ERROR,"java.sql.SQLException: ORA-12514, TNS:listener does not know"': "ORA-12514",
    '{"severity":"ERROR","text":"sink\\ncom.acme.ZkException: no lock\\n\\tat com.acme.Zk.lock(Zk.java:12)"}': "no lock",
    "ERROR:__main__:batch 91 could not be written": "batch 91",
    "enrich -> Sink: out (21/128) switched from RUNNING to FAILED.": "",
    "ava.lang.RuntimeException: no serializer\n\tat com.acme.Snap.make(Snap.java:9)": "no serializer",
    "com.acme.OutOfStock: none left\n\tat com.acme.Snap.make(Snap.java:9)": "none left",
    "a.b.CException: x at a.b.C.run(C.java:1) at a.b.D.run(D.java:2) Caused by: a.b.E: deep": "deep",
    "...ystemException: Hadoop is not in the classpath.\n\tat a.b.C.d(C.java:1)\n\tat a.b.C.e(C.java:2)": "Hadoop is not",
    'pyarrow.lib.ArrowInvalid: offset overflow\n  File "/opt/agg.py", line 7, in total\n    x()': "offset overflow",
    '{"level":"warning","msg":"Failed to reconcile resource a/b: status 404","ts":"2024-07-04T06:08:35Z"}': "404",
    "Error in SQL statement: AmazonKinesisException: Rate exceeded for shard 3": "Rate exceeded",
    "LIVY_JOB_STATE_DEAD: Livy session has failed. Session state: Dead.": "Session state: Dead",
    "! com.acme.PriceException: no price\n! at com.acme.P.get(P.java:1)": "no price",
}


@pytest.mark.parametrize("text", ONE_LINERS)
def test_a_short_text(text: str, tmp_path: Path) -> None:
    rows = rows_of(f"{text}\n", tmp_path / "paste")
    assert rows
    assert ONE_LINERS[text] in texts(rows)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # Other rules report these records only with more input.
        (
            "24/03/02 11:04:19 ERROR ReceiverTracker: Deregistered receiver for stream 0: Error starting receiver 0 - no x",
            "no x",
        ),
        (
            LAYOUTS[0](
                "INFO",
                "org.apache.flink.yarn.YarnResourceManagerDriver",
                "Worker container_1_0001_01_000002 is terminated. Diagnostics: Container was preempted",
            ),
            "Container was preempted",
        ),
    ],
)
def test_a_record_that_no_other_rule_reports(
    text: str, shown: str, tmp_path: Path, spark: SparkSession
) -> None:
    found = report_on(text, tmp_path, spark).findings
    assert [shown in finding.title for finding in found] == [True]


@pytest.mark.parametrize(
    "line",
    [
        "WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin-java classes",
        "WARN BLAS: Failed to load implementation from: com.github.fommil.netlib.NativeSystemBLAS",
        "WARN InstanceBuilder: Failed to load implementation from:dev.ludovic.netlib.blas.JNIBLAS",
        "WARN Utils: Service 'SparkUI' could not bind on port 4040. Attempting port 4041.",
        "WARN DAGScheduler: Failed to cancel job group 8651bcfa-0dc4. Cannot find active jobs for it.",
        "WARN ProcfsMetricsGetter: Exception when trying to compute pagesize, as a result reporting of ProcessTree metrics is stopped",
        "WARN AppInfoParser: Error registering AppInfo mbean",
    ],
)
def test_warnings_of_healthy_processes_are_not_failures(line: str, tmp_path: Path) -> None:
    assert rows_of(f"26/11/26 06:57:21 {line}\n", tmp_path / "paste") == []


def test_errors_of_a_normal_stop_do_not_count_in_a_log(tmp_path: Path) -> None:
    info = "24/03/02 11:04:19 INFO com.acme.Client: order seven\n"
    stop = "24/03/02 11:04:19 ERROR CoarseGrainedExecutorBackend: RECEIVED SIGNAL TERM\n"
    assert rows_of(info * 100 + stop, tmp_path / "paste") == []


BEYOND = (
    "Container [pid=3,containerID=container_1612345678901_0042_01_000003] is running beyond physical memory limits. "
    "Current usage: 5.6 GB of 5.5 GB physical memory used; 7 GB of 11 GB virtual memory used. Killing container.\n"
)
DUMP = (
    "Dump of the process-tree for container_1612345678901_0042_01_000003 :\n"
    "\t|- 3 1 3 3 (java) 1 1 1 1 /usr/bin/java -Xmx4g org.apache.spark.executor.YarnCoarseGrainedExecutorBackend\n"
)
EXITS = (
    "Container killed on request. Exit code is 143\n",
    "Container exited with a non-zero exit code 143\n",
)


@pytest.mark.parametrize(
    "text",
    [BEYOND + "".join(EXITS), EXITS[0] + BEYOND, BEYOND + DUMP + "".join(EXITS)],
    ids=["in order", "reversed", "of Spark"],
)
def test_a_container_that_yarn_kills_for_its_memory(
    text: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Its exit code follows, and no record shows that it was a TaskManager."""
    report = report_on(text, tmp_path, spark)
    assert report.summary.cause == "out-of-memory"
    (finding,) = report.findings
    assert "5.6 GB of 5.5 GB physical memory used" in finding.title
    assert "TaskManager" not in finding.title
    options = [action.option for action in finding.actions if action.option]
    assert options == (["spark.executor.memoryOverhead"] if DUMP in text else [])


@pytest.mark.parametrize(
    "wrapper",
    [
        "airflow.exceptions.AirflowException: Cannot execute: spark-submit job.py. Error code is: 1.",
        "subprocess.CalledProcessError: Command '['spark-submit']' returned non-zero exit status 1.",
        "Container exited with a non-zero exit code 143.",
        "Exit code: 143",
    ],
)
def test_a_launcher_and_an_exit_status_only_repeat_another_failure(wrapper: str) -> None:
    cause = Occurrence(failure="java.lang.IllegalStateException: no price")
    status = Occurrence(failure=wrapper, text={"ended": "application"})
    groups = failure_groups([status, cause])
    assert [(group.title, group.ended) for group in groups] == [
        ("IllegalStateException: no price", "application")
    ]
    assert len(failure_groups([status])) == 1
    assert len(failure_groups([status], ["Exit status: 137 of another container"])) == (
        "143" in wrapper
    )


def test_a_title_keeps_the_numbers_of_a_long_report() -> None:
    text = (
        "AM Container for appattempt_1_0099_000002 exited with exitCode: -104 Container [pid=4242] is running beyond "
        "physical memory limits. Current usage: 1.5 GB of 1.5 GB physical memory used; 3.4 GB of 3.1 GB virtual memory used."
    )
    assert short_failure(text) == (
        "Container of the application master killed: 1.5 GB of 1.5 GB physical memory used, "
        "3.4 GB of 3.1 GB virtual memory used"
    )
    assert short_failure("Reason: OOMKilled Exit Code: 137 Started: Mon Name: orders-tm-1") == (
        "Container killed: OOMKilled, exit code 137, pod orders-tm-1"
    )


def test_an_exception_without_a_message_has_the_record_above_as_its_title() -> None:
    one = Occurrence(failure="a.b.TimeoutException: null", text={"message": "Error while scaling"})
    assert failure_groups([one])[0].title == "Error while scaling: TimeoutException"


ENTRYPOINT = "org.apache.flink.runtime.entrypoint.ClusterEntrypoint"
RECORDS = {
    "a fatal error": (
        ("ERROR", ENTRYPOINT, "Fatal error occurred in the cluster entrypoint."),
        "Fatal error in the cluster entrypoint",
    ),
    "an exit status": (
        (
            "INFO",
            ENTRYPOINT,
            "Terminating cluster entrypoint process StandaloneSessionClusterEntrypoint with exit code 1443.",
        ),
        "exit code 1443",
    ),
    "a snapshot": (
        (
            "INFO",
            "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable",
            (
                "enrich (2/4)#0 - asynchronous part of checkpoint 17 could not be completed.\n"
                "com.acme.QuotaException: quota of tenant 7 is used up\n\tat com.acme.Store.put(Store.java:3)"
            ),
        ),
        "quota of tenant 7",
    ),
    "a snapshot without an exception": (
        (
            "WARN",
            "org.apache.flink.streaming.runtime.tasks.SubtaskCheckpointCoordinatorImpl",
            "Could not complete snapshot 17 for operator out (2/4)#0. Failure reason: Checkpoint was declined.",
        ),
        "checkpoint 17 failed: Checkpoint was declined",
    ),
    "the recovery of a job": (
        (
            "ERROR",
            ENTRYPOINT,
            (
                "Fatal error occurred in the cluster entrypoint.\n"
                "org.apache.flink.util.FlinkException: Could not recover job with job id 1fcd2ae5b3a7d1be2ce9c7d9cbd1d8b3.\n"
                "Caused by: com.acme.LeaseException: lease of leader 7 was taken over"
            ),
        ),
        "lease of leader 7",
    ),
    "the autoscaler": (
        (
            "ERROR",
            "org.apache.flink.autoscaler.JobAutoScalerImpl",
            "Error while scaling job\njava.util.concurrent.TimeoutException\n\tat a.b.C.d(C.java:8)",
        ),
        "Error while scaling job: TimeoutException",
    ),
    "a delegation token": (
        (
            "WARN",
            "org.apache.hadoop.ipc.Client",
            "token (token for svc: HDFS_DELEGATION_TOKEN owner=svc, renewer=yarn) can't be found in cache",
        ),
        "HDFS_DELEGATION_TOKEN",
    ),
}


def report_on(text: str, folder: Path, session: SparkSession) -> Report:
    judge = PasteJudge(folder, lambda: session)
    report = judge.report(judge.inputs(text))
    assert report is not None
    return report


MALFORMED = (
    '[CAST_INVALID_INPUT] The value \'abc\' of the type "STRING" cannot be cast to "INT" because it is malformed. '
    "Correct the value as per the syntax, or change its target type."
)


@pytest.mark.parametrize(
    ("reported", "failure", "number"),
    [
        (f"org.apache.spark.SparkNumberFormatException: {MALFORMED}", MALFORMED, 0),
        (
            "java.io.IOException: No space left on device",
            "Exception occurred while manually close the output stream to file /tmp/a, No space left on device",
            0,
        ),
        ("java.io.IOException: No space left on device", "java.io.IOException: closed", 1),
        ("java.io.IOException: closed", "The stream of order 7 was closed", 1),
    ],
)
def test_a_message_without_its_class_repeats_a_reported_failure(
    reported: str, failure: str, number: int
) -> None:
    assert len(failure_groups([Occurrence(failure=failure)], [reported])) == number


@pytest.mark.parametrize("name", RECORDS)
def test_a_single_record_is_a_finding(name: str, tmp_path: Path, spark: SparkSession) -> None:
    record, shown = RECORDS[name]
    found = report_on(LAYOUTS[0](*record), tmp_path, spark).findings
    assert any(shown in finding.title for finding in found), [finding.title for finding in found]
    assert all(finding.severity != "info" for finding in found)


def test_a_normal_stop_of_a_cluster_is_not_a_failure(tmp_path: Path, spark: SparkSession) -> None:
    text = (
        "Shutting KubernetesSessionClusterEntrypoint down with application status UNKNOWN. "
        "Diagnostics Cluster entrypoint has been closed externally.."
    )
    ended = "Terminating cluster entrypoint process KubernetesSessionClusterEntrypoint with exit code 1445."
    lines = [LAYOUTS[0]("INFO", ENTRYPOINT, line) for line in (text, ended)]
    assert not report_on("\n".join(lines), tmp_path, spark).findings


def test_both_exceptions_of_a_pair_are_findings(tmp_path: Path, spark: SparkSession) -> None:
    text = (
        "java.lang.OutOfMemoryError: Metaspace\n\tat org.apache.flink.runtime.taskmanager.Task.run(Task.java:1)\n\n"
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]\n"
    )
    titles = " ".join(finding.title for finding in report_on(text, tmp_path, spark).findings)
    assert "Metaspace" in titles
    assert "[orders]" in titles


def test_a_single_response_about_back_pressure_shows_the_wait(
    tmp_path: Path, spark: SparkSession
) -> None:
    ratios = [
        {"subtask": number, "ratio": 0.97, "idleRatio": 0, "busyRatio": 0.03} for number in (0, 1)
    ]
    text = json.dumps(
        {
            "status": "ok",
            "backpressureLevel": "high",
            "end-timestamp": 1_700_000_000_000,
            "subtasks": ratios,
        }
    )
    report = report_on(text, tmp_path, spark)
    assert [topic.reason for topic in report.topics if "waits 97%" in (topic.reason or "")]


# Reported by healthy clusters: a commit of offsets that the next one replaces, and controllers of Kafka that start.
REPORTED = ("Failed to commit consumer offsets", "Failed to trigger checkpoint", "[RaftManager")
HEALTHY = tuple(
    sorted(path.parent for path in FIXTURES.glob("recordings/*/*/*healthy*/truth.json"))
)


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(recording, marks=pytest.mark.full if is_rare(str(recording)) else ())
        for recording in HEALTHY
        if recording.parts[-3] in ("flink", "neighbours")
    ],
    ids=lambda one: f"{one.parent.name}/{one.name}",
)
def test_records_of_healthy_clusters_are_not_failures(recording: Path) -> None:
    lines = {}
    for path in unpacked(recording).rglob("*.log*"):
        for line in path.read_bytes().splitlines():
            if b" INFO " in line[:60] or b" WARN " in line[:60]:
                lines[re.sub(rb"[0-9a-f]{6,}|\d+", b"#", line)] = line
    found = {
        failure.chain[0]
        for line in lines.values()
        for failure in failures_in(line)
        if failure.chain
    }
    assert [text for text in found if not text.startswith(REPORTED)] == []


@pytest.mark.parametrize(
    "line",
    [
        "INFO org.apache.kafka.clients.consumer.internals.ConsumerCoordinator [] - Group coordinator kafka-2:9092 (id: 7 rack: null) is unavailable or invalid. Rediscovery will be attempted.",
        "WARN ClientCnxn [] - SASL configuration failed: javax.security.auth.login.LoginException: No JAAS configuration section named 'Client' was found. Will continue connection to Zookeeper server without SASL authentication.",
        "ERROR org.apache.curator.ConnectionState [] - Authentication failed",
        "WARN org.apache.flink.runtime.util.HadoopUtils [] - Could not find Hadoop configuration via any of the supported methods (Flink configuration, environment variables).",
        "WARN ObjectStore [] - Failed to get database global_temp, returning NoSuchObjectException",
        "WARN KafkaDataConsumer [] - KafkaDataConsumer is not running in UninterruptibleThread. It may hang when its methods are interrupted because of KAFKA-1894",
        "INFO PluginConfig [] - The plugins directory [plugins] does not exist.",
    ],
)
def test_records_about_handled_errors_are_not_failures(line: str, tmp_path: Path) -> None:
    assert rows_of(f"2024-03-02 11:04:19,220 {line}\n", tmp_path / "paste") == []


TRACE = "a.b.ProbeException: no such thing\n\tat a.b.C.d(C.java:1)\n"


@pytest.mark.parametrize(
    ("trace", "sample"),
    [(trace, sample) for trace in ("", TRACE) for sample in benign_samples(bool(trace))],
)
def test_a_record_of_a_healthy_process_is_not_a_failure(
    sample: str, trace: str, tmp_path: Path
) -> None:
    level, logger, text = re.fullmatch(r"(\w+) ([\w.$]+): (.*)", sample).groups()  # type: ignore[union-attr]
    for layout in LAYOUTS[:3]:
        lines = f"{layout(level, logger, text)}\n{trace}"
        assert rows_of(lines, tmp_path / "paste") == []
        # The same message of another program counts as ever.
        other = f"{layout('ERROR', 'com.acme.Client', 'it failed')}\n{trace}"
        assert rows_of(lines + other, tmp_path / "paste")


def test_an_exception_below_a_record_of_a_healthy_process_is_not_a_failure(tmp_path: Path) -> None:
    text = "24/03/02 11:04:19 WARN AppInfoParser: Error registering AppInfo mbean\n"
    trace = "javax.management.InstanceAlreadyExistsException: kafka.consumer:type=app-info\n\tat a.b.C.d(C.java:1)\n"
    assert rows_of(text + trace, tmp_path / "paste") == []
    assert rows_of(text.replace("AppInfo mbean", "handler") + trace, tmp_path / "paste")


@pytest.mark.parametrize(
    ("record", "harmless", "grave"),
    [
        (
            "INFO org.apache.flink.runtime.taskexecutor.TaskExecutor [] - Close ResourceManager connection 3ebc",
            "org.apache.flink.util.FlinkException: New ResourceManager leader found under: null(null)",
            "org.apache.flink.util.FlinkException: The ResourceManager has no room",
        ),
        (
            "WARN org.apache.flink.streaming.runtime.tasks.StreamTask [] - Error while canceling task.",
            "org.apache.flink.streaming.connectors.kafka.internal.Handover$ClosedException: null",
            "java.lang.NumberFormatException: For input string: x",
        ),
    ],
)
def test_only_some_exceptions_below_a_record_are_harmless(
    record: str, harmless: str, grave: str, tmp_path: Path
) -> None:
    for exception, is_failure in ((harmless, False), (grave, True)):
        text = f"2024-03-02 11:04:19,220 {record}\n{exception}\n\tat a.b.C.d(C.java:1)\n"
        assert bool(rows_of(text, tmp_path / "paste")) is is_failure


def test_the_answer_of_kubernetes_below_a_python_error_is_its_message(tmp_path: Path) -> None:
    text = """Traceback (most recent call last):
  File "/dags/orders.py", line 41, in submit
    raise ApiException(http_resp=r)
kubernetes.client.exceptions.ApiException: (422)
Reason: Unprocessable Entity
HTTP response headers: HTTPHeaderDict({'Audit-Id': '7a'})
HTTP response body: {"kind":"Status","message":"spec.flinkVersion: Unsupported value: \\"v2_0\\"","code":422}
"""
    (row,) = rows_of(text, tmp_path / "paste")
    assert (
        row["cause"]
        == 'kubernetes.client.exceptions.ApiException: HTTP 422 Unprocessable Entity: spec.flinkVersion: Unsupported value: "v2_0"'
    )


def test_a_pod_that_cannot_be_configured_is_a_failure(tmp_path: Path) -> None:
    pods = """NAME                     READY   STATUS    RESTARTS   AGE
orders-taskmanager-1-1   1/1     Running   0          41s
"""
    event = """
Events:
  Type     Reason  Age                From     Message
  ----     ------  ----               ----     -------
  Warning  Failed  11s (x4 over 40s)  kubelet  Error: container has runAsNonRoot and image will run as root
"""
    for text, is_failure in ((pods, False), (pods + event, True)):
        (tmp_path / "paste").write_text(text)
        assert (discover([str(tmp_path / "paste")]).sources[0].kind == "log") is is_failure


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
def test_a_python_traceback_may_be_indented(indent: str, tmp_path: Path) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/jobs/a.py", line 6, in f',
        "    return d[1]",
        "KeyError: 1",
    ]
    text = "".join(f"{indent}{line}\n" for line in lines)
    (row,) = rows_of(text, tmp_path / "paste")
    assert row["cause"] == "KeyError: 1"


PREFIXES: dict[str, Callable[[int, str], str]] = {
    "grep": lambda number, line: f"{number}:{line}",
    "grep of files": lambda number, line: f"logs/job-1.log:{number}:{line}",
    "file names": lambda _, line: f"job-1.log:{line}",
    "cat": lambda number, line: f"{number:6}\t{line}",
    "stream": lambda _, line: f"stderr: {line}",
    "syslog": lambda number, line: f"Mar 04 11:02:{number:02} node7 app[812]: {line}",
    "CI": lambda number, line: f"2024-07-08T12:30:{number:02}.1240012Z {line}",
    "Airflow": lambda number, line: (
        f"[2024-04-11, 06:00:{number:02} UTC] {{subprocess.py:93}} INFO - {line}"
    ),
    "blank lines": lambda _, line: f"{line}\n",
}


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_of_all_lines_is_no_part_of_a_trace(name: str, tmp_path: Path) -> None:
    lines = [
        "com.acme.QuotaException: plan allows 100 calls",
        "a minute",
        "\tat com.acme.Client.send(Client.java:201)",
        "\tat org.apache.flink.A.b(A.java:1)",
        "Caused by: com.acme.ServerException: 101 made",
        "\tat com.acme.Server.count(Server.java:7)",
    ]
    text = "".join(f"{PREFIXES[name](n, line)}\n" for n, line in enumerate(lines, 1))
    (row,) = rows_of(text, tmp_path / "paste")
    fields = dict(row["fields"])  # type: ignore[call-overload]
    assert row["cause"] == "com.acme.ServerException: 101 made"
    assert fields["exception"] == "com.acme.QuotaException: plan allows 100 calls a minute"
    assert fields["own_frame"] == "com.acme.Server.count(Server.java:7)"
    assert (row["local_us"] is not None) is (name in ("syslog", "CI", "Airflow"))


@pytest.mark.parametrize(
    ("line", "is_failure"),
    [
        ("|java.lang.OutOfMemoryError |search |1    |", False),
        ("Caused by: java.lang.OutOfMemoryError", True),
    ],
)
def test_a_cell_of_printed_rows_is_no_failure_of_the_process(
    line: str, is_failure: bool, tmp_path: Path
) -> None:
    (tmp_path / "paste").write_text(f"2024-07-08T12:30:01Z {line}\n")
    found = parse_on_driver(plan_splits(discover([str(tmp_path / "paste")]).sources))
    assert ("out-of-memory" in found.column("template").to_pylist()) is is_failure


def test_numbers_before_tabs_that_do_not_count_lines_count_exceptions(tmp_path: Path) -> None:
    rows = rows_of(
        "4\ta.b.CException: x\n9\ta.b.DException: y\n12\ta.b.EException: z\n", tmp_path / "paste"
    )
    assert [row["cause"] for row in rows] == [
        "a.b.CException: x",
        "a.b.DException: y",
        "a.b.EException: z",
    ]


def test_the_lines_of_a_failed_test_have_dates(tmp_path: Path) -> None:
    text = """2024-05-29T08:22:10.1270209Z E   TypeError: cannot pickle '_thread.RLock' object
2024-05-29T08:22:10.1280145Z =========================== short test summary info ===========================
2024-05-29T08:22:10.1290333Z FAILED tests/test_scoring.py::test_rows - TypeError: cannot pickle '_thread.RLock' object
"""
    causes = [row["cause"] for row in rows_of(text, tmp_path / "paste")]
    assert causes[0] == "TypeError: cannot pickle '_thread.RLock' object"


def test_a_label_in_brackets_keeps_its_brackets(tmp_path: Path) -> None:
    text = """com.aliyun.oss.OSSException: The key does not exist.
[ErrorCode]: InvalidAccessKeyId
\tat com.aliyun.oss.A.b(A.java:1)
"""
    (row,) = rows_of(text, tmp_path / "paste")
    assert str(row["cause"]).endswith("The key does not exist. [ErrorCode]: InvalidAccessKeyId")


def test_a_record_shows_the_whole_message_of_its_exception(tmp_path: Path) -> None:
    text = """2022-01-17 16:20:00,912 WARN  org.apache.flink.runtime.taskmanager.Task [] - Sink: rows (3/6)#0 (aa31) switched from RUNNING to FAILED.
java.io.IOException: Error while sending value.
 Row error for primary key="u8812", status=Not found
\tat a.b.C.d(C.java:1)
"""
    row = rows_of(text, tmp_path / "paste")[0]
    assert row["cause"] == (
        'java.io.IOException: Error while sending value. Row error for primary key="u8812", status=Not found'
    )


def test_an_object_that_refers_to_another_failure_is_not_the_deepest() -> None:
    task = {
        "state": {
            "result_state": "FAILED",
            "state_message": "Task load failed with message: Workload failed, see run output for details.",
        },
        "error": "Query orders [id = 7, runId = 8] terminated with exception: no topic",
    }
    found = list(failures_in(json.dumps(task).encode()))
    assert "no topic" in found[-1].cause(None, outer=False)[0]


START = [
    "WARN  akka.remote.transport.netty.NettyTransport [] - Remote connection to [null] failed with java.net.ConnectException: Connection refused: jm/10.0.0.2:6123",
    "INFO  org.apache.flink.runtime.taskexecutor.TaskExecutor [] - Successful registration at resource manager akka.tcp://flink@jm:6123",
]
STOP = [
    "INFO  YarnCoarseGrainedExecutorBackend [] - Driver commanded a shutdown",
    "ERROR CoarseGrainedExecutorBackend [] - RECEIVED SIGNAL TERM",
]


PROBE = [
    "DEBUG com.acme.Probe [] - no native code\njava.lang.UnsatisfiedLinkError: no probe in path\n\tat com.acme.P.a(P.java:1)",
    "INFO  com.acme.Probe [] - order seven",
]
LISTED = [
    "WARN  com.acme.Lister [] - Exception while listing jobs\njava.util.concurrent.TimeoutException\n\tat com.acme.P.a(P.java:1)",
    "INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - Completed checkpoint 8 for job 5d (1 bytes)",
]
RECONNECTED = [
    "WARN  com.acme.Client [] - Connection to db:5432 was lost, reconnecting",
    "INFO  com.acme.Client [] - Reconnected to db:5432",
]


@pytest.mark.parametrize("records", [START, STOP])
def test_handled_errors_and_requested_stops_are_not_failures(
    records: list[str], tmp_path: Path
) -> None:
    lines = [f"2024-03-02 11:04:{second:02},220 {text}\n" for second, text in enumerate(records)]
    assert rows_of("".join(lines), tmp_path / "paste") == []
    assert rows_of("".join(reversed(lines)), tmp_path / "paste")  # the order decides


@pytest.mark.parametrize("records", [PROBE, LISTED, RECONNECTED])
def test_a_handled_error_is_a_note(records: list[str], tmp_path: Path) -> None:
    def severities(records: list[str]) -> list[str]:
        lines = [
            f"2024-03-02 11:04:{second:02},220 {text}\n" for second, text in enumerate(records)
        ]
        report = PasteJudge(tmp_path, None).report_on_text("".join(lines))
        assert report is not None
        return [str(finding.severity) for finding in report.findings]

    assert severities(records) == ["info"]
    assert severities([*records, records[0]]) == ["warning"]  # it happens again
    error = "ERROR com.acme.Client [] - order seven is bad"
    assert "warning" in severities([*records, error])


@pytest.mark.parametrize("level", ["WARN", "ERROR"])
def test_an_error_that_ends_a_job_is_not_a_note_although_the_job_recovers(
    level: str, tmp_path: Path
) -> None:
    trace = "a.b.JobExecutionException: Job execution failed.\nCaused by: a.b.PriceException: no price\n\tat a.P.a(P.java:1)"
    first = LAYOUTS[0](level, "com.acme.Client", f"it failed\n{trace}")
    rows = rows_of(f"{first}\n2024-03-02 11:05:00,220 {LISTED[1]}\n", tmp_path / "paste")
    (row,) = failures(rows)
    assert "no price" in str(row["cause"])
    assert "survived" not in dict(row["fields"])  # type: ignore[call-overload]


def test_a_kubernetes_event_that_is_resolved_is_not_a_failure(tmp_path: Path) -> None:
    events = (
        "  Warning  FailedMount  61s   kubelet  MountVolume.SetUp failed for volume conf : configmap conf not found\n"
        "  Normal   Started      58s   kubelet  Started container driver\n"
    )
    assert rows_of(events, tmp_path / "paste") == []
    assert rows_of(events.partition("\n")[0] + "\n", tmp_path / "paste")


def failures(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        row for row in rows if "failure" in str(row["event"]) or "exception" in str(row["event"])
    ]


def test_a_task_whose_retry_succeeded_is_not_a_failure(tmp_path: Path) -> None:
    def seen(retried: str) -> list[str]:
        text = (
            "24/03/02 11:04:19 WARN TaskSetManager: Lost task 1.0 in stage 9.0 (TID 14) (h executor 1): a.b.HubException: busy\n"
            f"24/03/02 11:04:20 INFO TaskSetManager: Finished task {retried} in stage 9.0 (TID 15) in 902 ms on h (executor 1) (4/4)\n"
        )
        report = PasteJudge(tmp_path, None).report_on_text(text)
        assert report is not None
        return [str(finding.severity) for finding in report.findings]

    assert seen("1.1") == ["info"]
    assert seen("2.1") == ["warning"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "PERMISSION_DENIED: User lacks USE SCHEMA on 'main.bronze'.",
            "User lacks USE SCHEMA on 'main.bronze'.",
        ),
        ("pyspark.errors.exceptions.connect.AnalysisException: [X_Y] no such table", "[X_Y] no"),
    ],
)
def test_the_message_above_the_stack_trace_of_the_jvm(
    text: str, message: str, tmp_path: Path
) -> None:
    trace = "com.acme.AccessException\n\tat com.acme.Catalog.get(Catalog.scala:56)\n"
    rows = rows_of(f"{text}\n\nJVM stacktrace:\n{trace}", tmp_path / "paste")
    assert message in str(rows[-1]["cause"])


def test_fields_of_an_alert_do_not_continue_a_message(tmp_path: Path) -> None:
    text = "com.acme.PriceException: no price\nRunbook: restart it if the error is a timeout\n"
    assert "timeout" not in texts(rows_of(text, tmp_path / "paste"))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            "If you get `java.lang.IllegalStateException: no price here`, restart the cluster.",
            False,
        ),
        ("A full disk may lead to com.acme.PriceException: no price here", False),
        ("When I start the job I get `java.lang.IllegalStateException: no price here`", True),
    ],
)
def test_a_sentence_explains_or_reports_an_exception(
    text: str, reported: bool, tmp_path: Path
) -> None:
    assert ("no price" in texts(rows_of(f"{text}\n", tmp_path / "paste"))) == reported


@pytest.mark.parametrize("later", [True, False], ids=["tasks run on", "the log ends"])
def test_an_error_that_the_code_of_a_task_handles_is_a_note(
    later: bool, tmp_path: Path, spark: SparkSession
) -> None:
    logs = unpacked(FIXTURES / "recordings" / "flink" / "1.20.5" / "healthy") / "logs"
    lines = (logs / "flink-flink-taskexecutor-0-worker-1.log").read_text().splitlines()
    dated = (n for n, line in enumerate(lines) if re.match(r"\d{4}-\d\d-\d\d \d\d:", line))
    place = next(n for n in dated if n > len(lines) // 2)
    error = [
        f"{lines[place][:23]} ERROR com.acme.orders.Enricher [] - could not parse order 17",
        'java.lang.NumberFormatException: For input string: "x1"',
        "\tat com.acme.orders.Enricher.map(Enricher.java:31)",
    ]
    text = "\n".join([*lines[:place], *error, *(lines[place:] if later else [])])
    found = [f for f in report_on(text, tmp_path, spark).findings if "NumberFormat" in f.title]
    assert [finding.severity for finding in found] == (["info"] if later else ["warning"])
    assert ("kept running" in found[0].explain) == later


@pytest.mark.parametrize(
    ("record", "exception"),
    [
        (
            "WriteToDataSourceV2Exec: Data source write support M@5d aborted.",
            "org.apache.spark.SparkException: Writing job failed.\nCaused by: org.apache.kafka.common.KafkaException: no such factor",
        ),
        (
            "TransportRequestHandler: Error while invoking RpcHandler#receive() for one-way message.",
            "java.io.InvalidClassException: org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence; local class incompatible",
        ),
    ],
)
def test_some_records_are_only_harmless_without_an_exception(
    record: str, exception: str, tmp_path: Path
) -> None:
    line = f"24/07/30 11:11:11 ERROR {record}"
    stop = "org.apache.spark.SparkException: Could not find CoarseGrainedScheduler."
    for harmless in (line, f"{line}\n{stop}\n\tat a.b.C.d(C.java:1)"):
        assert failures(rows_of(harmless, tmp_path / "alone")) == []
    [row] = failures(rows_of(f"{line}\n{exception}", tmp_path / "with"))
    assert str(row["cause"]).split(":")[0] in exception


TASK_RUNS = """\
2026-03-02 10:00:00,100 INFO  org.apache.flink.runtime.taskexecutor.TaskManagerRunner      [] - Starting TaskManager with ResourceID: 10.0.0.7:36407-72366f
2026-03-02 10:00:09,200 INFO  org.apache.flink.runtime.taskmanager.Task                    [] - enrich (1/1)#0 (4e1cccf72dfd67b54c9523c64bf45646_0a448493b4782967b150582570326227_0_0) switched from CREATED to DEPLOYING.
2026-03-02 10:00:09,900 INFO  org.apache.flink.runtime.taskmanager.Task                    [] - enrich (1/1)#0 (4e1cccf72dfd67b54c9523c64bf45646_0a448493b4782967b150582570326227_0_0) switched from INITIALIZING to RUNNING.
"""
TASK_ENDS = """\
2026-03-02 10:04:39,000 INFO  org.apache.flink.runtime.taskmanager.Task                    [] - enrich (1/1)#0 (4e1cccf72dfd67b54c9523c64bf45646_0a448493b4782967b150582570326227_0_0) switched from RUNNING to {state}.
"""
SIGNAL = """\
2026-03-02 10:04:39,005 INFO  org.apache.flink.runtime.taskexecutor.TaskManagerRunner      [] - RECEIVED SIGNAL 15: SIGTERM. Shutting down as requested.
"""
EXIT = """\
2026-03-02 10:04:39,010 INFO  org.apache.flink.runtime.state.TaskExecutorStateChangelogStoragesManager [] - Shutting down TaskExecutorStateChangelogStoragesManager.
2026-03-02 10:04:39,014 INFO  org.apache.flink.runtime.taskexecutor.TaskExecutor           [] - Stopping TaskExecutor pekko.tcp://flink@10.0.0.7:36407/user/rpc/taskmanager_0.
2026-03-02 10:04:39,019 INFO  org.apache.flink.runtime.taskexecutor.TaskExecutor           [] - Close JobManager connection for job 11a3b28f662db4e815e32c6c82bb162f.
"""


@pytest.mark.parametrize(
    "before", ["", SIGNAL, TASK_ENDS.format(state="FINISHED"), TASK_ENDS.format(state="CANCELED")]
)
def test_a_taskmanager_that_ends_without_a_signal_while_tasks_run(
    before: str, tmp_path: Path, spark: SparkSession
) -> None:
    report = report_on(TASK_RUNS + before + EXIT, tmp_path, spark)
    lost = [finding for finding in report.findings if finding.cause == "taskmanager-lost"]
    assert len(lost) == (not before)
    if lost:
        assert lost[0].subject.taskmanager == "10.0.0.7:36407-72366f"
        assert any("System.exit" in action.text for action in lost[0].actions)


DECLINED = "Discarding checkpoint 7 of job 1fcd2ae5b3a7d1be2ce9c7d9cbd1d8b3 because: com.acme.QuotaException: tenant 7"


def test_advice_about_a_failed_checkpoint_quotes_its_cause(
    tmp_path: Path, spark: SparkSession
) -> None:
    logger = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    found = report_on(LAYOUTS[0]("INFO", logger, DECLINED), tmp_path, spark).findings
    texts = [action.text for finding in found for action in finding.actions]
    assert any('"com.acme.QuotaException: tenant 7"' in text for text in texts)
    assert not any("stack trace" in text for text in texts)
