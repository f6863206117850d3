"""Tests pasted excerpts of a few lines: each has one problem, and the report names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model.finding import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Diagnose = Callable[[str], Report]
JOB: Final = "9e0c7b6a5d4c3b2a1908f7e6d5c4b3a2"
COORDINATOR: Final = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
NOT_FINALIZED: Final = (
    "org.apache.flink.runtime.checkpoint.CheckpointException: Could not finalize the pending checkpoint 55. "
    "Failure reason: Failure to finalize checkpoint.\n"
    "\tat org.apache.flink.runtime.checkpoint.CheckpointCoordinator.completePendingCheckpoint(CheckpointCoordinator.java:1265)\n"
    "Caused by: org.apache.hadoop.ipc.RemoteException: Cannot create file/flink/checkpoints/chk-55/_metadata. "
    "Name node is in safe mode.\n"
)


@pytest.fixture
def diagnose(tmp_path: Path, spark: SparkSession) -> Diagnose:
    """Return the findings on a text."""
    judge = PasteJudge(tmp_path, lambda: spark, all_with_spark=True)

    def report_on(text: str) -> Report:
        report = judge.report(judge.inputs(text))
        assert report is not None
        return report

    return report_on


def record(logger: str, message: str, *, at: str = "10:00:00,001", level: str = "WARN") -> str:
    return f"2023-02-08 {at} {level:5} {logger} [] - {message}\n"


@pytest.mark.parametrize(
    "above",
    [
        record(
            "org.apache.flink.runtime.jobmaster.JobMaster",
            "Error while processing AcknowledgeCheckpoint message",
        ),
        record(COORDINATOR, f"Error while triggering checkpoint 55 for job {JOB}."),
        record(
            "org.apache.flink.runtime.checkpoint.CheckpointFailureManager",
            f"Failed to trigger or complete checkpoint 55 for job {JOB}. (0 consecutive failed attempts so far)",
        ),
    ],
    ids=["processing", "triggering", "counted"],
)
def test_a_checkpoint_that_could_not_be_finalized_is_read_below_any_record(
    above: str, diagnose: Diagnose
) -> None:
    report = diagnose(above + NOT_FINALIZED)
    assert (report.summary.verdict, report.summary.cause) == (Verdict.DEGRADED, "storage-failure")
    first = next(finding for finding in report.findings if finding.code == "CP312")
    assert "is in safe mode" in first.title
    assert "1 checkpoint failed" in first.title
    assert "since checkpoint 55" in (first.explain or "")


STUCK: Final = record(
    "org.apache.flink.runtime.taskmanager.Task",
    "Task 'enrich -> Sink: es (2/8)#0' did not react to cancelling signal - notifying TM; it is stuck for 30 seconds in method:",
) + (
    " java.net.SocketInputStream.socketRead0(Native Method)\n"
    " com.acme.enrich.CrmClient.lookup(CrmClient.java:91)\n"
    " org.apache.flink.streaming.runtime.tasks.StreamTask.processInput(StreamTask.java:514)\n"
)
WATCHDOG: Final = (
    record(
        "org.apache.flink.runtime.taskmanager.Task",
        "Task did not exit gracefully within 180 + seconds.",
        at="10:02:30,001",
        level="ERROR",
    )
    + "org.apache.flink.util.FlinkRuntimeException: Task did not exit gracefully within 180 + seconds.\n"
    "\tat org.apache.flink.runtime.taskmanager.Task$TaskCancelerWatchDog.run(Task.java:1791)\n"
    + record(
        "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
        "Fatal error occurred while executing the TaskManager. Shutting it down...",
        at="10:02:30,010",
        level="ERROR",
    )
)


def test_the_task_that_triggered_the_watchdog_is_the_culprit(diagnose: Diagnose) -> None:
    report = diagnose(STUCK + WATCHDOG)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP310", "task-hangs")
    assert (finding.subject.task, finding.subject.subtask_index) == ("enrich -> Sink: es", 1)
    assert "com.acme.enrich.CrmClient.lookup(CrmClient.java:91)" in finding.title
    assert "the watchdog killed its TaskManager" in finding.title


def test_the_watchdog_alone_names_no_task(diagnose: Diagnose) -> None:
    report = diagnose(WATCHDOG)
    (finding,) = report.findings
    assert (finding.code, finding.cause) == ("CP310", "task-hangs")
    assert finding.subject.task is None
    assert "no record names the task" in finding.title


def test_a_task_that_closes_slowly_is_information(diagnose: Diagnose) -> None:
    report = diagnose(STUCK)
    (finding,) = report.findings
    assert (finding.severity, finding.cause) == ("info", None)


SUSPENDED: Final = record(
    "org.apache.flink.runtime.executiongraph.ExecutionGraph",
    f"Job orders ({JOB}) switched from state RUNNING to SUSPENDED.",
    at="10:00:01,200",
    level="INFO",
)
REVOKED: Final = record(
    "org.apache.flink.runtime.jobmaster.JobMasterServiceLeadershipRunner",
    f"JobMasterServiceLeadershipRunner for job {JOB} was revoked leadership with leader id 00000000-0000-0000-0000-000000000000. Stopping current JobMasterServiceProcess.",
    at="10:00:01,100",
    level="INFO",
)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (
            record(
                "io.fabric8.kubernetes.client.extended.leaderelection.LeaderElector",
                "Exception occurred while renewing lock: Unable to update ConfigMapLock",
                level="ERROR",
            )
            + REVOKED
            + SUSPENDED,
            "Exception occurred while renewing lock",
        ),
        (
            record(
                "org.apache.flink.shaded.curator4.org.apache.curator.framework.state.ConnectionStateManager",
                "Session timeout has elapsed while SUSPENDED. Posting LOST event. Session timeout ms: 60000. Adjustment ms: 0",
            )
            + record(
                "org.apache.flink.runtime.leaderelection.ZooKeeperLeaderElectionDriver",
                "Connection to ZooKeeper lost. The contender LeaderContender: DefaultDispatcherRunner no longer participates in the leader election.",
                at="10:00:00,002",
            )
            + SUSPENDED,
            "Session timeout has elapsed",
        ),
        (
            SUSPENDED
            + "org.apache.flink.util.FlinkException: JobManager is no longer the leader.\n"
            "\tat org.apache.flink.runtime.jobmaster.JobManagerRunnerImpl.revokeJobMasterLeadership(JobManagerRunnerImpl.java:391)\n",
            "JobManager is no longer the leader",
        ),
    ],
    ids=["kubernetes", "zookeeper", "the job alone"],
)
def test_lost_leadership_suspends_the_job(text: str, phrase: str, diagnose: Diagnose) -> None:
    report = diagnose(text)
    assert report.summary.cause == "leadership-lost"
    finding = next(finding for finding in report.findings if finding.code == "ST304")
    assert phrase in finding.title
    assert "job orders was suspended" in finding.title
    assert all(finding.subject.task is None for finding in report.findings)


def test_a_stopping_cluster_gives_up_leadership(diagnose: Diagnose) -> None:
    assert not diagnose(REVOKED + SUSPENDED).findings


def completed(durations: list[int]) -> str:
    return "".join(
        record(
            COORDINATOR,
            f"Completed checkpoint {number} for job {JOB} (1200331 bytes, checkpointDuration={ms} ms, finalizationTime=15 ms).",
            at=f"10:{10 * number:02}:00,000",
            level="INFO",
        )
        for number, ms in enumerate(durations, 1)
    )


@pytest.mark.parametrize(
    ("durations", "codes"),
    [
        ([30_120, 95_001, 265_002, 535_002], {"CP104"}),
        ([30_120, 95_001, 265_002, 275_002], set()),  # none near the timeout
        ([535_002, 265_002, 95_001, 30_120], set()),  # a start that gets faster
        ([30_120, 28_000, 31_000, 535_002], set()),  # a single outlier
    ],
    ids=["climbing", "below half of the timeout", "warming up", "one"],
)
def test_rising_durations_are_slow_from_the_first(
    durations: list[int], codes: set[str], diagnose: Diagnose
) -> None:
    assert {finding.code for finding in diagnose(completed(durations)).findings} == codes


CONTAINER: Final = "container_e31_1625000000000_0412_01_000007"
KILLED: Final = (
    "[2021-07-08 14:22:19.733]Container [pid=28411,containerID={0}] is running 120893440B beyond the "
    "'PHYSICAL' memory limit. Current usage: 8.1 GB of 8 GB physical memory used. Killing container."
)


def terminated(why: str) -> str:
    return record(
        "org.apache.flink.runtime.resourcemanager.active.ActiveResourceManager",
        f"Worker {CONTAINER}(hadoop-dn-12.corp:8041) is terminated. Diagnostics: {why}",
    )


FAILED: Final = (
    record(
        "org.apache.flink.runtime.executiongraph.ExecutionGraph",
        "dedup -> Sink: hbase (14/32) (6c1ff3b1b6d3e7f1c0a2b1d9f8e7a6c5) switched from RUNNING to FAILED on "
        f"{CONTAINER} @ hadoop-dn-12.corp (dataPort=37121).",
        at="10:00:00,120",
        level="INFO",
    )
    + "org.apache.flink.runtime.jobmaster.JobMasterException: TaskManager with id "
    f"{CONTAINER}(hadoop-dn-12.corp:8041) is no longer reachable.\n"
)


def test_a_worker_on_which_a_task_ran_had_registered(diagnose: Diagnose) -> None:
    report = diagnose(terminated(KILLED.format(CONTAINER)) + FAILED)
    assert [story.cause for story in report.summary.stories] == ["out-of-memory"]
    assert "ST202" not in {finding.code for finding in report.findings}


def test_a_worker_without_a_known_start_just_ended(diagnose: Diagnose) -> None:
    report = diagnose(terminated("Container exited with a non-zero exit code 1."))
    titles = [finding.title for finding in report.findings if finding.code == "ST202"]
    assert not any("before registering" in title for title in titles)


FINISHED: Final = (
    f"Failed to trigger checkpoint for job {JOB} since some tasks of job {JOB} has been finished, abort the "
    "checkpoint Failure reason: Not all required tasks are currently running."
)


@pytest.mark.parametrize(
    ("minutes", "causes"), [((14, 15, 16), {"finished-tasks"}), ((14, 15), set())]
)
def test_three_triggers_refused_for_finished_tasks_are_enough(
    minutes: tuple[int, ...], causes: set[str], diagnose: Diagnose
) -> None:
    text = "".join(
        record(COORDINATOR, FINISHED, at=f"10:{minute}:20,114", level="INFO") for minute in minutes
    )
    assert {finding.cause for finding in diagnose(text).findings} == causes


def test_a_fenced_producer_implies_no_gap(diagnose: Diagnose) -> None:
    report = diagnose(
        record(
            "org.apache.flink.runtime.taskmanager.Task",
            "Sink: out: Writer -> Sink: out: Committer (2/4)#5 (ab12cd34ef56ab12cd34ef56ab12cd34_ea632d67b7d595e5b851708ae9ad79d6_1_5) switched from RUNNING to FAILED with failure cause:",
        )
        + "org.apache.flink.util.FlinkRuntimeException: Failed to send data to Kafka billing-events-3@-1\n"
        "\tat org.apache.flink.connector.kafka.sink.KafkaWriter$WriterCallback.throwException(KafkaWriter.java:436)\n"
        "Caused by: org.apache.kafka.common.errors.InvalidProducerEpochException: Producer attempted to produce with an old epoch.\n"
    )
    assert [story.cause for story in report.summary.stories] == ["fenced-transaction"]
    assert not any("0 ms" in (finding.why or "") for finding in report.findings)


def test_the_error_inside_an_operator_event_is_the_headline(diagnose: Diagnose) -> None:
    message = (
        "org.apache.flink.kubernetes.operator.exception.UpgradeFailureException: HA metadata not available to "
        "restore from last state. It is possible that the job has finished or terminally failed, or the "
        "configmaps have been deleted. Manual restore required."
    )
    wrapper = "org.apache.flink.kubernetes.operator.exception.ReconciliationException"
    report = diagnose(
        f'status:\n  error: \'{{"type":"{wrapper}","message":"{message}","throwableList":[]}}\'\n'
        "  jobManagerDeploymentStatus: MISSING\n  lifecycleState: FAILED\n"
    )
    assert report.summary.cause == "deployment-failed"
    assert any(
        "UpgradeFailureException: HA metadata not available to restore from last state"
        in finding.title
        for finding in report.findings
    )
    assert any(
        "initialSavepointPath" in step.text
        for finding in report.findings
        for step in finding.actions
    )


HEAP: Final = (
    "java.lang.OutOfMemoryError: Java heap space\n\tat java.util.Arrays.copyOf(Arrays.java:3332)\n"
)


def test_memory_that_runs_out_during_a_submission_is_one_incident(diagnose: Diagnose) -> None:
    report = diagnose(
        record(
            "org.apache.flink.runtime.dispatcher.StandaloneDispatcher",
            f"Failed to submit job {JOB}.",
            level="ERROR",
        )
        + HEAP
        + record(
            "org.apache.flink.runtime.entrypoint.ClusterEntrypoint",
            "Fatal error occurred in the cluster entrypoint.",
            level="ERROR",
        )
        + HEAP
    )
    assert [story.cause for story in report.stories] == ["out-of-memory"]


def test_the_death_of_a_taskmanager_and_the_lost_connections_are_one_incident(
    diagnose: Diagnose,
) -> None:
    report = diagnose(
        record(
            "org.apache.flink.util.FatalExitExceptionHandler",
            "FATAL: Thread 'enrich (1/2)#0' produced an uncaught exception. Stopping the process...",
            level="ERROR",
        )
        + HEAP
        + record(
            "org.apache.flink.runtime.taskmanager.Task",
            "out (1/2)#0 (0123456789abcdef0123456789abcdef_cbc357ccb763df2852fee8c4fc7d55f2_0_0) switched from "
            "RUNNING to FAILED with failure cause:",
            at="10:00:01,200",
        )
        + "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Connection unexpectedly "
        "closed by remote task manager 'worker-1/10.0.0.11:45881'. This might indicate that the remote task "
        "manager was lost.\n"
    )
    (story,) = report.stories
    assert (story.cause, "Heap memory" in report.findings[0].title) == ("out-of-memory", True)
    assert "container" not in report.findings[0].title


def test_the_second_exception_of_a_pair_is_named(diagnose: Diagnose) -> None:
    """Two tasks fail within a second: the first is the finding, the other is part of its explanation."""
    head = (
        "2026-03-02 10:15:3{} INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph [] - {} "
        "(5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c_cbc357ccb763df2852fee8c4fc7d55f2_0_0) switched from RUNNING to FAILED on {}."
    )
    report = diagnose(
        "\n".join(
            (
                head.format("0,000", "parse (1/2)", "tm-1 @ worker-1 (dataPort=4001)"),
                'java.lang.NumberFormatException: For input string: "n/a"',
                "\tat com.acme.orders.ParseOrder.map(ParseOrder.java:41)",
                head.format("0,200", "totals (2/2)", "tm-2 @ worker-2 (dataPort=4002)"),
                "java.lang.IllegalStateException: no open window for 17",
                "\tat com.acme.orders.Totals.map(Totals.java:12)",
                "",
            )
        )
    )
    finding = report.findings[0]
    assert "NumberFormatException" in finding.title
    assert "totals (2/2): java.lang.IllegalStateException: no open window for 17" in (
        finding.explain or ""
    )


DECODER: Final = (
    "java.lang.OutOfMemoryError: Java heap space\n"
    "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3745)\n"
    "\tat com.acme.orders.Decoder.read(Decoder.java:41)\n"
)


def test_a_heap_error_that_an_exception_handler_logs_is_one_death(diagnose: Diagnose) -> None:
    """The lost process must not be blamed on the container's memory or on the network."""
    handled = record(
        "org.apache.flink.util.FatalExitExceptionHandler",
        "FATAL: Thread 'pool-3-thread-1' produced an uncaught exception. Stopping the process...",
        level="ERROR",
    )
    failed = record(
        "org.apache.flink.runtime.taskmanager.Task",
        f"enrich (1/4)#0 ({JOB}_cbc357ccb763df2852fee8c4fc7d55f2_0_0) switched from RUNNING to FAILED with failure cause:",
        at="10:00:00,200",
    )
    lost = record(
        "org.apache.flink.runtime.executiongraph.ExecutionGraph",
        f"aggregate (2/4) ({JOB}_0a448493b4782967b150582570326227_1_0) switched from RUNNING to FAILED on 10.0.0.4:41001-0a1b2c.",
        at="10:00:01,100",
    )
    closed = (
        "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Connection unexpectedly closed "
        "by remote task manager '10.0.0.5/10.0.0.5:38031'. This might indicate that the remote task manager was lost.\n"
    )
    for text in (
        handled + DECODER,
        handled + DECODER + failed + DECODER,
        failed + DECODER + handled + DECODER,
        handled + DECODER + lost + closed,
    ):
        report = diagnose(text)
        (story,) = report.summary.stories
        assert story.cause == "out-of-memory"
        assert "container" not in story.title


DIRECT: Final = (
    "java.lang.OutOfMemoryError: Direct buffer memory. The direct out-of-memory error has occurred. The task "
    "executor has to be shutdown...\n"
    "\tat java.base/java.nio.Bits.reserveMemory(Bits.java:175)\n"
    "\tat com.acme.orders.Buffers.map(Buffers.java:41)\n"
)


def failed_on(task: str, place: str, at: str) -> str:
    """Return the JobManager's record about a failed task."""
    return record(
        "org.apache.flink.runtime.executiongraph.ExecutionGraph",
        f"{task} ({JOB}_cbc357ccb763df2852fee8c4fc7d55f2_0_0) switched from RUNNING to FAILED on {place}.",
        at=at,
    )


def test_direct_memory_that_runs_out_is_one_death(diagnose: Diagnose) -> None:
    """The JobManager's memory is not at fault, and the lost connections and the ended pod follow."""
    task = failed_on("enrich (1/4)", "tm-1 @ worker-1 (dataPort=4001)", "10:00:00,300") + DIRECT
    closed = (
        failed_on("aggregate (2/4)", "tm-2 @ worker-2 (dataPort=4002)", "10:00:01,100")
        + "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Connection unexpectedly "
        "closed by remote task manager 'worker-1/10.0.0.5:38031'. This might indicate that the remote task manager "
        "was lost.\n"
    )
    ended = record(
        "org.apache.flink.runtime.resourcemanager.active.ActiveResourceManager",
        "Worker tm-1 is terminated. Diagnostics: Pod terminated, container termination statuses: "
        "[flink-main-container(exitCode=239, reason=Error, message=null)]",
        at="10:00:02,100",
    )
    network = (
        record(
            "org.apache.flink.runtime.io.network.netty.CreditBasedPartitionRequestClientHandler",
            "Encountered error while consuming partitions",
            level="ERROR",
        )
        + "org.apache.flink.shaded.netty4.io.netty.util.internal.OutOfDirectMemoryError: failed to allocate "
        "4194304 byte(s) of direct memory (used: 134217728, max: 134217728)\n"
    )
    own = record(
        "org.apache.flink.runtime.taskmanager.Task",
        f"enrich (1/4)#0 ({JOB}_cbc357ccb763df2852fee8c4fc7d55f2_0_0) switched from RUNNING to FAILED with failure cause:",
        at="10:00:00,200",
    )
    for text in (task, task + closed + ended, network + own + DIRECT):
        (story,) = diagnose(text).summary.stories
        assert story.cause == "out-of-memory"
        assert story.title.startswith("Direct memory ran out on")
    (story,) = diagnose(closed + ended).summary.stories
    assert story.cause == "worker-failed"


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: The rpc invocation size 15000000 exceeds the maximum akka framesize.",
        "java.io.IOException: The method submitTask's result size 15000000 exceeds the maximum size 10485760 .",
        (
            "org.apache.pekko.remote.OversizedPayloadException: Discarding oversized payload sent to Actor[pekko.tcp://flink@w"
            "orker-3:45005/user/rpc/taskmanager_0#-2]: max allowed size 10485760 bytes, actual size of encoded class "
            "org.apache.flink.runtime.rpc.messages.RemoteRpcInvocation was 15000000 bytes."
        ),
    ],
)
def test_a_response_of_the_exceptions_endpoint_shows_a_frame_that_is_too_large(
    cause: str, diagnose: Diagnose
) -> None:
    trace = (
        "java.lang.reflect.UndeclaredThrowableException\n\tat com.sun.proxy.$Proxy60.submitTask(Unknown Source)\n"
        f"Caused by: {cause}\n\t... 10 more\n"
    )
    entry: dict[str, object] = {
        "exceptionName": "java.lang.reflect.UndeclaredThrowableException",
        "stacktrace": trace,
    }
    entry |= {"timestamp": 1795710055231, "taskName": None, "location": None}
    body: dict[str, object] = {
        "root-exception": trace,
        "timestamp": 1795710055231,
        "all-exceptions": [],
    }
    body |= {"truncated": False, "exceptionHistory": {"entries": [entry], "truncated": False}}
    report = diagnose(json.dumps(body))
    assert report.summary.cause == "frame-too-large"
    assert [story.cause for story in report.summary.stories] == ["frame-too-large"]
