"""Reasons, failures and lost peers, in the wording of each version."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.flink.failures import failure_kind, is_consequence, lost_peer, reason_kind

REASONS = {
    "Checkpoint expired before completing.": "expired",
    "The checkpoint expired before triggering was complete": "expired",
    "Checkpoint was declined.": "declined",
    "Checkpoint was declined (tasks not ready)": "not_running",
    "Checkpoint was declined because one input stream is finished": "finished",
    "Checkpoint was declined (task's operators partially closed)": "finished",
    "Checkpoint was declined (task is closing)": "finished",
    "Checkpoint was canceled because a barrier from newer checkpoint was received.": "superseded",
    "Task received cancellation from one of its inputs": "cancelled",
    "The checkpoint alignment phase needed to buffer more than the configured maximum bytes": (
        "declined"
    ),
    "Task does not support checkpointing": "declined",
    "Checkpoint has been subsumed.": "subsumed",
    "CheckpointCoordinator shutdown.": "shutdown",
    "Checkpoint coordinator is shut down.": "shutdown",
    "Periodic checkpoint scheduler is shut down.": "shutdown",
    "Checkpoint Coordinator is suspending.": "suspended",
    "Not all required tasks are currently running.": "not_running",
    "The maximum number of concurrent checkpoints is exceeded": "postponed",
    "The maximum number of queued checkpoint requests exceeded": "postponed",
    "The minimum time between checkpoints is still pending. Checkpoint will be triggered after": (
        "postponed"
    ),
    "Another checkpoint request has already been queued.": "postponed",
    "Blocking output edge exists in running tasks.": "postponed",
    "An Exception occurred while triggering the checkpoint.": "trigger_io",
    "An Exception occurred while triggering the checkpoint. IO-problem detected.": "trigger_io",
    "Trigger checkpoint failure.": "trigger_io",
    "Asynchronous task checkpoint failed.": "async",
    "The checkpoint was aborted due to exception of other subtasks sharing the ChannelState file.": (
        "async"
    ),
    "Failure to finalize checkpoint.": "finalize",
    "The job has failed.": "task_failure",
    "FailoverRegion is restarting.": "task_failure",
    "Task has failed.": "task_failure",
    "Task local checkpoint failure.": "task_failure",
    "Unknown task for the checkpoint to notify.": "task_failure",
}


@pytest.mark.parametrize(("text", "kind"), REASONS.items())
def test_reason(text: str, kind: str) -> None:
    assert reason_kind(text) == kind
    assert reason_kind(f"org.apache.flink.runtime.checkpoint.CheckpointException: {text}") == kind
    assert reason_kind(f"Some context. Failure reason: {text}") == kind


def test_reasons_by_their_names() -> None:
    assert reason_kind("CHECKPOINT_EXPIRED") == "expired"
    assert reason_kind("CHECKPOINT_DECLINED_INPUT_END_OF_STREAM") == "finished"
    assert reason_kind("IO_EXCEPTION") == "trigger_io"


def test_unknown_reasons_stay_unknown() -> None:
    assert reason_kind("") is None
    assert reason_kind("Checkpoint duration exceeded the configured budget") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "java.io.IOException: Insufficient number of network buffers: required 5, but only 2",
            "network-buffers",
        ),
        ("java.lang.OutOfMemoryError: Metaspace. The metaspace out-of-memory", "out-of-memory"),
        ("Pod terminated, [main(exitCode=137, reason=OOMKilled, message=null)]", "out-of-memory"),
        ("Container [pid=1] is running 5B beyond the 'PHYSICAL' memory limit.", "out-of-memory"),
        (
            "o.a.f.r.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum",
            "no-resource",
        ),
        ("TaskManager with id tm-1(h:1) is no longer reachable.", "taskmanager-lost"),
        ("The heartbeat of TaskManager with id tm-1  timed out.", "taskmanager-lost"),
        ("The heartbeat of JobManager with id a timed out.", "jobmanager-lost"),
        ("JobManager with id a is no longer reachable.", "jobmanager-lost"),
        (
            "RemoteTransportException: Connection unexpectedly closed by remote task manager 'h/i:1'",
            "taskmanager-lost",
        ),
        ("org.apache.kafka.common.errors.ProducerFencedException: There is", "transaction"),
        (
            "Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to "
            + "Checkpoint expired before completing., view",
            "expired",
        ),
        (
            "FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold.",
            "checkpoint-failures",
        ),
        ("java.io.IOException: Could not perform checkpoint 5 for operator a (1/2)#0.", "snapshot"),
        ("java.io.IOException: No space left on device", "storage"),
        ("java.util.concurrent.CancellationException", "cancelled"),
        ("o.a.f.runtime.execution.CancelTaskException: Buffer pool destroyed", "cancelled"),
        ("java.lang.RuntimeException: price is negative", "user-code"),
        ("KeyError: 'price'", "user-code"),
        ("all is well", None),
        ("", None),
    ],
)
def test_failure(text: str, kind: str | None) -> None:
    assert failure_kind(text) == kind


def test_consequences_are_not_causes() -> None:
    for text in (
        "Checkpoint Coordinator is suspending.",
        "java.util.concurrent.CancellationException",
        "Not all required tasks are currently running.",
        "Exceeded checkpoint tolerable failure threshold.",
        "The heartbeat of JobManager with id a timed out.",
    ):
        assert is_consequence(text), text
    for text in (
        "Checkpoint expired before completing.",
        "Asynchronous task checkpoint failed.",
        "java.lang.RuntimeException: boom",
        "TaskManager with id tm-1 is no longer reachable.",
        "",
    ):
        assert not is_consequence(text), text


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        (
            "Connecting to remote task manager + 'worker-2/10.0.0.7:35511' has failed. This might",
            (None, "worker-2"),
        ),
        (
            "Connecting to remote task manager 'worker-2/10.0.0.7:35511 [ tm-2(node:1) ] ' has",
            ("tm-2", "worker-2"),
        ),
        ("Lost connection to task manager '/10.0.0.7:35511 [ tm-2 ] '.", ("tm-2", "10.0.0.7")),
        ("Lost connection to task manager 'worker-2/10.0.0.7:35511'.", (None, "worker-2")),
        (
            "Connection unexpectedly closed by remote task manager 'w/1.2.3.4:5 [ c_1_2 ] '. This",
            ("c_1_2", "w"),
        ),
        ("Sending the partition request to 'w/1.2.3.4:5 [tm-2] (#0)' failed.", ("tm-2", "w")),
        ("Sending the partition request to 'w/1.2.3.4:5' failed.", (None, "w")),
        ("The heartbeat of TaskManager with id c_1_2(node:8041) timed out.", ("c_1_2", None)),
        ("Heartbeat of TaskManager with id c_1_2  timed out.", ("c_1_2", None)),
        ("TaskManager with id h.example:1-ab is no longer reachable.", ("h.example:1-ab", None)),
        ("Connection reset by peer (connection to 'w/1.2.3.4:5 [tm-2]')", ("tm-2", "w")),
        (
            "to recipient [Actor[akka.tcp://flink@w2:41/user/rpc/taskmanager_0]], because the",
            (None, "w2"),
        ),
        ("JobManager with id a is no longer reachable.", (None, None)),
        ("java.lang.RuntimeException: Lost connection to database 'x/y:1'", (None, None)),
        ("", (None, None)),
    ],
)
def test_lost_peer(text: str, peer: tuple[str | None, str | None]) -> None:
    assert lost_peer(text) == peer


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    reason_kind(text)
    failure_kind(text)
    is_consequence(text)
    lost_peer(text)


def test_long_texts_are_fast() -> None:
    for part in ("Lost connection to task manager '", "TaskManager with id a", "Exception", "' [ "):
        text = part * (1_000_000 // len(part))
        begun = time.process_time()
        failure_kind(text)
        reason_kind(text)
        lost_peer(text)
        assert time.process_time() - begun < 1.0
