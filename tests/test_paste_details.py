"""Tests details of the answers to pasted failures: severity, the quoted advice, the frame, the first step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.parsers.split import Split, parse_split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Case(NamedTuple):
    """A text, its verdict and cause, and words that its report must or must not contain."""

    text: str
    verdict: str
    cause: str
    shows: tuple[str, ...]
    never: tuple[str, ...] = ()


CASES: Final = {
    "a fatal error ends the JobManager": Case(
        "2024-05-02 10:12:01,220 ERROR org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] - Fatal error occurred in the "
        "cluster entrypoint.\norg.apache.flink.runtime.leaderelection.LeaderElectionException: Could not start leader election\n"
        "\tat com.acme.Election.start(Election.java:11)\n",
        "failing", "leadership-lost", ("The failure ended the JobManager's process.",),
    ),
    "an exception in the middle gives advice": Case(
        "org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy\n"
        "Caused by: org.apache.flink.util.FlinkRuntimeException: No client. Set the option 'acme.mode' to 'compat' for servers "
        "before 5.0.\n\tat com.acme.flink.Client.open(Client.java:40)\n"
        "Caused by: com.acme.client.ProtocolException: unsupported frame 0x41\n\tat com.acme.client.Wire.read(Wire.java:88)\n",
        "failing", "task-failure", ("Set the option 'acme.mode' to 'compat'", "unsupported frame 0x41"),
    ),
    "another AWS service is not S3": Case(
        "com.amazonaws.services.sqs.model.AmazonSQSException: Access to the resource https://sqs/orders is denied. (Service: "
        "AmazonSQS; Status Code: 403; Error Code: AccessDenied; Request ID: 8b1f)\n"
        "\tat org.apache.flink.streaming.api.operators.StreamSink.processElement(StreamSink.java:54)\n",
        "degraded", "unrecognised-failure", ("get-caller-identity",), ("S3", "bucket"),
    ),
    "a JDBC driver is missing": Case(
        "java.sql.SQLException: No suitable driver found for jdbc:mysql://db:3306/shop\n"
        "\tat java.sql.DriverManager.getConnection(DriverManager.java:689)\n"
        "\tat org.apache.flink.connector.jdbc.internal.JdbcOutputFormat.open(JdbcOutputFormat.java:145)\n",
        "degraded", "unrecognised-failure", ("JAR of the database's JDBC driver",), ("Run the statement by hand",),
    ),
    "Flink's main class is missing": Case(
        "org.apache.flink.client.program.ProgramInvocationException: The program's entry point class 'com.acme.Job' was not "
        "found in the jar file.\n\tat org.apache.flink.client.program.PackagedProgram.loadMainClass(PackagedProgram.java:479)\n"
        "Caused by: java.lang.ClassNotFoundException: com.acme.Job\n\tat java.net.URLClassLoader.findClass(URLClassLoader.java:387)\n",
        "failing", "class-loading", ("Correct the name of the main class",), ("two versions",),
    ),
    "Spark's main class is missing": Case(
        "java.lang.ClassNotFoundException: com.acme.Job\n\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)\n"
        "\tat org.apache.spark.util.Utils$.classForName(Utils.scala:218)\n"
        "\tat org.apache.spark.deploy.SparkSubmit.org$apache$spark$deploy$SparkSubmit$$runMain(SparkSubmit.scala:936)\n",
        "failing", "class-loading", ("Correct the name of the main class",), ("--packages",),
    ),
    "Python raises a second exception": Case(
        'Traceback (most recent call last):\n  File "/app/job.py", line 31, in read_conf\n    return conf["topic"]\n'
        "KeyError: 'topic'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/app/job.py", line 80, in <module>\n    main()\n'
        '  File "/app/job.py", line 60, in main\n    raise ConfigError("no topic")\napp.errors.ConfigError: no topic of orders\n',
        "failing", "unrecognised-failure", ("KeyError: 'topic'", "ConfigError: no topic of orders", "read_conf(job.py:31)"),
    ),
    "executors collect garbage": Case(
        "Executor ID\tAddress\tStatus\tRDD Blocks\tTask Time (GC Time)\tInput\n"
        "driver\t10.0.0.1:40101\tActive\t0\t0.0 ms (0.0 ms)\t0.0 B\n1\t10.0.0.2:38771\tActive\t12\t1.2 h (2 s)\t12 GiB\n"
        "2\t10.0.0.3:38772\tActive\t12\t1.2 h (41 min)\t12 GiB\n",
        "degraded", "gc-pressure", ("Executor 2 spends 57%",),
    ),
    "an exception whose message is JSON": Case(
        "24/08/19 12:41:00 ERROR Executor: Exception in task 4.2 in stage 33.0 (TID 902)\n"
        'com.acme.client.RateException: {"innerErrorMessage":"rate is large","statusCode":429}\n'
        "\tat com.acme.Writer.put(Writer.scala:512)\n",
        "degraded", "failing-batches", ("rate is large",),
    ),
    "letters of a screenshot": Case(
        "java.lang.lllegalStateException: No pooled slot avai1able and request to ResourceManager for new slot fai1ed\n"
        "  at org.apache.flink.runtime.jobmaster.slotpool.SlotPoollmpl.requestSlot(SlotPoolImpl.java:34O)\n",
        "failing", "not-enough-slots", ("No pooled slot available",),
    ),
    "an exception of the driver": Case(
        "org.apache.spark.SparkException: Cannot broadcast the table that is larger than 8GB: 9 GB\n"
        "\tat org.apache.spark.sql.execution.exchange.BroadcastExchangeExec.$anonfun$run$1(BroadcastExchangeExec.scala:103)\n",
        "failing", "failing-batches", ("driver's log",), ("log of the executor",),
    ),
    "a pod that used its local storage": Case(
        "Name:             orders-taskmanager-1-4\nNamespace:        prod\nStatus:           Failed\nReason:           Evicted\n"
        "Message:          Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.\n",
        "degraded", "taskmanager-lost", ("10Gi",), ("RocksDB",),
    ),
    "a vague exception of a task has the message around it": Case(
        "24/05/05 10:00:01 ERROR Executor: Exception in task 3.0 in stage 12.0 (TID 99)\n"
        "com.acme.MarkerException: Failed to create marker /lake/7.marker\n\tat com.acme.Marks.put(Marks.scala:9)\n"
        "Caused by: java.net.SocketTimeoutException: Read timed out\n\tat java.net.SocketInputStream.read(SocketInputStream.java:1)\n",
        "degraded", "service-unreachable", ("Read timed out (Failed to create marker /lake/7.marker)",),
    ),
    "a stage failure names the executor": Case(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 88.0 failed 4 times, most recent "
        "failure: Lost task 3.3 in stage 88.0 (TID 1290) (10.0.0.5 executor 2): java.lang.IllegalStateException: no price\n"
        "\tat com.acme.Price.check(Price.scala:12)\n",
        "failing", "failing-batches", ("executor 2 on 10.0.0.5",),
    ),
    "a process killed by the kernel": Case(
        "[812345.1] Memory cgroup out of memory: Killed process 23119 (java) total-vm:9876543kB, anon-rss:4190012kB\n",
        "failing", "out-of-memory", ("23119",), ("TaskManager",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_report_of_a_text(case: Case, tmp_path: Path) -> None:
    report = PasteJudge(tmp_path, None).report_on_text(case.text)
    assert report is not None
    assert (report.summary.verdict, report.summary.cause) == (case.verdict, case.cause)
    text = " ".join(
        [
            *(f"{f.title} {f.explain}" for f in report.findings),
            *(action.text for f in report.findings for action in f.actions),
            *(suggestion.text for suggestion in report.summary.suggestions),
        ]
    )
    assert [words for words in case.shows if words not in text] == []
    assert [words for words in case.never if words in text] == []


ERROR_IN_LOG: Final = (
    "2023-06-18 23:44:41,500 ERROR com.acme.Sync [] - sync failed\njava.lang.IllegalStateException: no such table\n"
    "\tat com.acme.Sync.run(Sync.java:8)\n"
    "2023-06-18 23:44:42,010 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - Triggering checkpoint 92 "
    "(type=CHECKPOINT) @ 1687131882008 for job 5c01d2e3f4a5b6c7d8e9f0a1b2c3d4e5.\n"
)
COMPLETION: Final = (
    "2023-06-18 23:44:43,010 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - Completed checkpoint 92 for "
    "job 5c01d2e3f4a5b6c7d8e9f0a1b2c3d4e5 (77121 bytes, checkpointDuration=1002 ms, finalizationTime=10 ms).\n"
)


@pytest.mark.parametrize(
    ("after", "titles"), [("", ["IllegalStateException: no such table"]), (COMPLETION, [])]
)
def test_an_error_counts_until_a_checkpoint_completes(
    after: str, titles: list[str], tmp_path: Path, spark: SparkSession
) -> None:
    report = PasteJudge(tmp_path, lambda: spark).report_on_text(ERROR_IN_LOG + after)
    assert report is not None
    assert [finding.title for finding in report.findings] == titles


def test_the_end_of_a_snapshot_is_no_failure_at_any_level(
    tmp_path: Path, spark: SparkSession
) -> None:
    report = PasteJudge(tmp_path, lambda: spark).report_on_text(
        "2024-06-06 06:06:16,330 INFO  org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable [] - Sink: alerts (1/1)#0 - "
        "finished asynchronous part of checkpoint 2. Asynchronous duration: 4 ms\n"
    )
    assert report is not None
    assert list(report.findings) == []


def test_the_diagnostics_of_a_worker_have_its_exit_code(tmp_path: Path) -> None:
    found = PasteJudge(tmp_path, None).inputs(
        "2023-03-03 03:03:01,100 INFO  org.apache.flink.runtime.resourcemanager.active.ActiveResourceManager [] - Worker "
        "container_e17_1_0042_01_000007 is terminated. Diagnostics: [2023-03-03 03:03:00.812]Exception from container-launch.\n"
        "Container id: container_e17_1_0042_01_000007\nExit code: 239\n"
    )
    rows = [row for b in parse_split(Split(found.sources[0], 0, -1)) for row in b.to_pylist()]
    causes = [row["cause"] for row in rows if row["event"] == "worker"]
    assert causes == ["[2023-03-03 03:03:00.812]Exception from container-launch. Exit code: 239"]
