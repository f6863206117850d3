"""The rules of `flowdiag startup` on hand-written facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.flink.failures.linkage import linkage
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.model.finding import Finding, Severity, State
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.startup.facts import (
    HeavyCollection,
    Initialization,
    JobStarts,
    Restore,
    Trouble,
)
from flowdiag.analyses.startup.lost_processes import RULE as HEARTBEATS
from flowdiag.analyses.startup.rules.class_loading_failed import RULE as CLASSES
from flowdiag.analyses.startup.rules.frame_too_large import RULE as FRAMES
from flowdiag.analyses.startup.rules.missing_workers import RULE as WORKERS
from flowdiag.analyses.startup.rules.operator_refusal import RULE as OPERATOR
from flowdiag.analyses.startup.rules.rpc_trouble import RULE as RPC
from flowdiag.analyses.startup.rules.slow_initialization import RULE as SLOW
from flowdiag.analyses.startup.rules.submission_failed import RULE as SUBMISSION
from tests.analyses import startup_workbench as w

LOST = "The heartbeat of TaskManager with id tm-1 timed out"


def _lost(at: float = 60.0) -> Incident:
    return w.incident(
        "taskmanager-lost", at, LOST, taskmanager="tm-1", text={"template": "heartbeat-timed-out"}
    )


# --- heartbeats ----------------------------------------------------------------------------------


def test_a_paused_taskmanager_notices_the_timeout_late() -> None:
    own = w.trouble(
        "master-heartbeat-lost", 85, taskmanager="tm-1", values={"master": "JobManager"}
    )
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(_lost(),)), troubles=(own,))
    (finding,) = w.findings(HEARTBEATS, seen)
    assert (finding.cause, finding.subject.taskmanager) == ("process-paused", "tm-1")
    assert [vote.signal for vote in finding.votes] == ["noticed-late"]


def test_timeouts_on_both_sides_at_once_blame_the_network() -> None:
    own = w.trouble("master-heartbeat-lost", 62, taskmanager="tm-1")
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(_lost(),)), troubles=(own,))
    (finding,) = w.findings(HEARTBEATS, seen)
    assert finding.cause == "network"


def test_cancelled_tasks_show_when_a_taskmanager_noticed() -> None:
    """TaskManagers of 1.12 log no missed heartbeat, but cancel their tasks."""
    late = w.task(0, own_ended_us=w.BEGIN + 90 * w.SECOND)
    (finding,) = w.findings(HEARTBEATS, w.facts(w.job(w.start(late), incidents=(_lost(),))))
    assert finding.cause == "process-paused"


def test_tasks_of_the_next_process_with_the_same_name_are_ignored() -> None:
    later = w.task(0, at=63, own_ended_us=w.BEGIN + 90 * w.SECOND)
    (finding,) = w.findings(HEARTBEATS, w.facts(w.job(w.start(later), incidents=(_lost(),))))
    assert (finding.cause, finding.votes) == ("taskmanager-lost", ())


def test_garbage_collection_explains_a_pause() -> None:
    minute = HeavyCollection(
        taskmanager="tm-1",
        host=None,
        first_us=w.BEGIN + 30 * w.SECOND,
        last_us=w.BEGIN + 90 * w.SECOND,
        gc_ms=45_000,
        span_ms=60_000,
    )
    own = w.trouble("master-heartbeat-lost", 85, taskmanager="tm-1")
    seen = w.facts(
        w.job(w.start(w.task(0)), incidents=(_lost(),)), troubles=(own,), collecting=(minute,)
    )
    (finding,) = w.findings(HEARTBEATS, seen)
    assert finding.cause == "garbage-collection"
    assert finding.votes[0].text == "garbage collection took 75% of a minute"


def test_a_container_that_exited_explains_the_loss() -> None:
    gone = w.worker("tm-1", ended_us=w.BEGIN + 55 * w.SECOND, diagnostics="OOMKilled")
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(_lost(),)), workers=(gone,))
    (finding,) = w.findings(HEARTBEATS, seen)
    assert (finding.cause, finding.votes[0].signal) == ("taskmanager-lost", "container-ended")


def test_without_a_taskmanager_log_the_reason_is_unknown() -> None:
    (finding,) = w.findings(HEARTBEATS, w.facts(w.job(w.start(w.task(0)), incidents=(_lost(),))))
    assert finding.votes == ()
    assert "do not show why" in finding.title


def test_taskmanagers_that_leave_after_the_job_are_not_reported() -> None:
    over = w.incident("cancelled", 30)
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(over, _lost(60)), cancelled=True))
    assert w.findings(HEARTBEATS, seen) == []


def test_a_jobmanager_that_all_taskmanagers_lose() -> None:
    names = ("tm-1", "tm-2", "tm-3")
    seen = w.facts(
        w.job(w.start(w.task(0))),
        workers=tuple(w.worker(name) for name in names),
        troubles=tuple(
            w.trouble("master-heartbeat-lost", 60, taskmanager=n, values={"master": "JobManager"})
            for n in names
        ),
    )
    (finding,) = w.findings(HEARTBEATS, seen)
    assert (finding.cause, finding.subject.kind) == ("jobmanager-lost", "process")


def _restarted(*jobs: JobStarts) -> Finding:
    again = w.trouble("jobmanager-restarted", 100, role="jobmanager")
    (finding,) = w.findings(HEARTBEATS, w.facts(*jobs, troubles=(again,)))
    return finding


def test_a_restarted_jobmanager() -> None:
    """A job that returns under the same id was recovered; under another id it was submitted again."""
    cut = w.job(w.start(w.task(0)))
    cut = replace(cut, job=replace(cut.job, first_us=w.BEGIN))
    old = replace(cut, job=replace(cut.job, last_us=w.BEGIN + 95 * w.SECOND))
    new = replace(
        cut,
        job=replace(
            cut.job, key=JobKey(cluster="c", job_id="cd" * 16), first_us=w.BEGIN + 110 * w.SECOND
        ),
    )
    for finding, resubmitted in ((_restarted(cut), False), (_restarted(old, new), True)):
        assert (finding.cause, finding.severity) == ("jobmanager-lost", Severity.WARNING)
        assert finding.subject.kind == "process"
        assert ("resubmitted" in finding.explain) is resubmitted


def test_a_jobmanager_restart_between_jobs_is_mentioned() -> None:
    over = replace(w.job(w.start(w.task(0))), ended="FINISHED")
    over = replace(over, job=replace(over.job, first_us=w.BEGIN))
    assert _restarted(over).severity is Severity.INFO


# --- RPC -----------------------------------------------------------------------------------------


def _oversized() -> Trouble:
    return w.trouble(
        "rpc-oversized", size=15_000_000, values={"allowed": "10485760", "message": "class a.B"}
    )


def test_a_frame_that_is_too_large() -> None:
    held = w.start(w.task(0, running_us=None), held="deployment")
    (finding,) = w.findings(FRAMES, w.facts(w.job(held), troubles=(_oversized(),)))
    assert (finding.severity, finding.cause) == (Severity.CRITICAL, "frame-too-large")
    assert (finding.option, finding.actions[0].proposed) == ("pekko.framesize", "41943040b")


def test_the_exception_of_a_task_shows_an_oversized_frame() -> None:
    """Up to Flink 1.14, the sender receives the error, and the task fails with it."""
    text = "java.io.IOException: The rpc invocation size 95074 exceeds the maximum akka framesize."
    failed = w.incident("task-failure", 3, text)
    (finding,) = w.findings(FRAMES, w.facts(w.job(w.start(), incidents=(failed,))))
    assert finding.measurements[0].value == 95_074


def test_calls_without_an_answer() -> None:
    slow = w.trouble("rpc-ask-timed-out", count=2, peer="host-tm-1", values={"timeout_ms": "10000"})
    running = w.job(w.start(w.task(0)))
    (finding,) = w.findings(RPC, w.facts(running, troubles=(slow,)))
    assert finding.severity is Severity.INFO
    (finding,) = w.findings(
        RPC, w.facts(running, troubles=(w.trouble("rpc-ask-timed-out", count=9),))
    )
    assert finding.severity is Severity.WARNING
    # Messages that were never sent have no response either.
    assert w.findings(RPC, w.facts(running, troubles=(slow, _oversized()))) == []


def test_unanswered_calls_name_the_taskmanager_at_their_address() -> None:
    running = w.job(w.start(w.task(0)))
    workers = tuple(
        replace(w.worker(name), host=host)
        for name, host in (("a:41-x", "a"), ("a:42-y", "a"), ("pod-1", "b"))
    )
    for peer, address, name in (
        ("a", "a:42", "a:42-y"),
        ("a", "a:43", None),
        ("b", "b:6122", "pod-1"),
        ("b", None, "pod-1"),
    ):
        slow = w.trouble("rpc-ask-timed-out", count=9, peer=peer, address=address)
        (finding,) = w.findings(RPC, w.facts(running, workers=workers, troubles=(slow,)))
        assert finding.subject.taskmanager == name


def test_a_quarantine() -> None:
    seen = w.facts(
        w.job(w.start(w.task(0))),
        workers=(w.worker("tm-1"),),
        troubles=(w.trouble("remote-quarantined", peer="host-tm-1"),),
    )
    (finding,) = w.findings(RPC, seen)
    assert finding.subject.taskmanager == "tm-1"
    assert (
        w.findings(RPC, w.facts(w.job(w.start(w.task(0))), troubles=(w.trouble("remote-gated"),)))
        == []
    )


# --- submissions ------------------------------------------------------------------------------------


def test_a_client_that_could_not_submit() -> None:
    failed = w.trouble("client-failed", cause="java.net.ConnectException: refused", source=3)
    (finding,) = w.findings(SUBMISSION, w.facts(troubles=(failed,)))
    assert (finding.cause, finding.state) == ("submission-failed", State.ONGOING)
    assert "ConnectException" in finding.title


def test_a_client_that_waited_for_its_job() -> None:
    failed = w.trouble("client-failed", 50, cause="java.lang.IllegalStateException: x", source=3)
    ran = w.job(w.start(w.task(0)))
    seen = w.facts(ran, troubles=(failed,), accepted_us={3: w.BEGIN})
    assert w.findings(SUBMISSION, seen) == []
    trouble = w.trouble("client-failed", cause="JobExecutionException: Job execution failed.")
    assert w.findings(SUBMISSION, w.facts(ran, troubles=(trouble,))) == []


def test_yarn_reports_its_largest_container() -> None:
    failed = w.trouble("client-failed", cause="YarnDeploymentException: x")
    queue = w.trouble("yarn-queue-missing", values={"queue": "nightly", "queues": "default"})
    (finding,) = w.findings(SUBMISSION, w.facts(troubles=(failed, queue)))
    assert "queue 'nightly' does not exist" in finding.title


def test_a_rejected_job() -> None:
    refused = w.job(
        w.start(), ended="FAILED", ended_us=w.BEGIN + w.SECOND,
        ended_cause="java.io.FileNotFoundException: Cannot find checkpoint or savepoint file",
    )  # fmt: skip
    (finding,) = w.findings(SUBMISSION, w.facts(refused))
    assert finding.actions[0].option == "execution.savepoint.path"
    # A job that ran and failed was not rejected.
    assert w.findings(SUBMISSION, w.facts(w.job(w.start(w.task(0)), ended="FAILED"))) == []


def test_a_job_is_rejected_if_the_jobmanager_cannot_reach_its_store() -> None:
    reason = (
        "java.net.ConnectException: Connection refused (Connect to s3-1.example:9009 "
        "[s3-1.example/10.0.0.4] failed)"
    )
    refused = w.job(
        w.start(), ended="FAILED", ended_us=w.BEGIN + w.SECOND, ended_cause=reason
    )  # fmt: skip
    (finding,) = w.findings(SUBMISSION, w.facts(refused))
    assert finding.cause == "service-unreachable" and "s3-1.example:9009" in finding.title


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.lang.ClassNotFoundException: com.acme.Price", "missing"),
        ("StreamTaskException: Cannot load user class: com.acme.Price", "missing"),
        ("java.lang.NoSuchMethodError: 'void a.B.c()'", "conflict"),
        ("java.io.InvalidClassException: a.B; local class incompatible", "conflict"),
        ("java.lang.UnsupportedClassVersionError: a/B has been compiled by a more recent", "java"),
        ("java.lang.IllegalArgumentException: class", None),
    ],
)
def test_linkage_errors(text: str, kind: str | None) -> None:
    found = linkage(text)
    assert (found[0] if found else None) == kind


def test_a_missing_class_is_one_finding() -> None:
    failures = tuple(
        w.incident("task-failure", 3 + n, "java.lang.NoClassDefFoundError: a/B") for n in range(5)
    )
    (finding,) = w.findings(CLASSES, w.facts(w.job(w.start(), incidents=failures)))
    assert (finding.count, finding.cause, finding.severity) == (
        5,
        "class-loading",
        Severity.CRITICAL,
    )
    assert finding.title == "a/B is not found"


# --- the operator --------------------------------------------------------------------------------


def _trouble(kind: str, at: float, **values: str) -> Trouble:
    return w.trouble(kind, at, resource="default/orders", values=values)


def test_failures_of_the_operator() -> None:
    crash = _trouble(
        "operator-event-warning", 5, reason="IMAGEPULLBACKOFF", said="[main] pull failed"
    )
    (finding,) = w.findings(OPERATOR, w.facts(troubles=(crash,)))
    assert (finding.severity, finding.subject.job_name) == (Severity.CRITICAL, "orders")
    assert "image" in finding.actions[0].text
    better = _trouble("operator-status", 60, state="STABLE", said="stable")
    (finding,) = w.findings(OPERATOR, w.facts(troubles=(crash, better)))
    assert (finding.severity, finding.state) == (Severity.WARNING, State.RECOVERED)


def test_an_operator_without_problems() -> None:
    fine = _trouble("operator-event", 5, reason="SUBMIT", said="Starting deployment")
    assert w.findings(OPERATOR, w.facts(troubles=(fine,))) == []


# --- workers -------------------------------------------------------------------------------------


def test_requested_and_available_resources() -> None:
    large = w.trouble(
        "yarn-request-too-large",
        values={"asked": "<memory:12288, vCores:4>", "offered": "<memory:8192, vCores:4>"},
    )
    waiting = w.job(w.start(w.task(0, deploying_us=None, running_us=None), held="slots"))
    seen = w.facts(waiting, troubles=(large,), requested_workers=2, first_request_us=w.BEGIN)
    (finding,) = w.findings(WORKERS, seen)
    assert finding.cause == "no-container"
    assert "<memory:12288, vCores:4> requested, but the largest allowed container is" in (
        finding.why or ""
    )


@pytest.mark.parametrize(("ran_at", "state"), [(70, "recovered"), (30, "ongoing")])
def test_a_dead_worker_is_recovered_once_the_job_ran_without_it(ran_at: int, state: str) -> None:
    ran = w.start(w.task(0, running_us=w.BEGIN + ran_at * w.SECOND))
    stopped = w.start(w.task(0, running_us=None), number=1, at=100, held="back-off")
    dead = replace(
        w.worker("tm-9", requested_us=w.BEGIN, ended_us=w.BEGIN + 40 * w.SECOND), registered_us=None
    )
    (finding,) = w.findings(WORKERS, w.facts(w.job(ran, stopped), workers=(dead,)))
    assert (finding.cause, finding.state.value) == ("worker-failed", state)


# --- restores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("download_s", "rebuild_s", "text", "first"),
    [(17, 1, "downloading state of 1 GiB", "local"), (1, 17, "rebuilding the store", "ingest")],
)
def test_the_span_splits_a_restore(download_s: int, rebuild_s: int, text: str, first: str) -> None:
    slow = w.task(0, running_us=w.BEGIN + 21 * w.SECOND)
    parts = Initialization(
        download_ms=download_s * 1000, rebuild_ms=rebuild_s * 1000, bytes=1 << 30
    )
    start = w.start(slow, w.task(1), number=1, restored=True, initialization=parts)
    (finding,) = w.findings(SLOW, w.facts(w.job(start)))
    assert finding.cause == "slow-restore"
    assert text in (finding.why or "")
    assert first in (finding.actions[0].option or "")


def test_a_span_without_reading_is_slow_code() -> None:
    slow = w.task(0, running_us=w.BEGIN + 21 * w.SECOND)
    start = w.start(slow, w.task(1), restored=True, initialization=Initialization(download_ms=100))
    assert [found.cause for found in w.findings(SLOW, w.facts(w.job(start)))] == ["slow-open"]


@pytest.mark.parametrize(("read_s", "cause"), [(18, "slow-restore"), (1, "slow-open")])
def test_the_taskmanager_log_distinguishes_reading_from_opening(read_s: int, cause: str) -> None:
    slow = w.task(0, running_us=w.BEGIN + 21 * w.SECOND)
    fast = [w.task(n, taskmanager="tm-2") for n in (1, 2, 3)]
    begun = w.BEGIN + w.SECOND
    restore = Restore(
        taskmanager="tm-1",
        host=None,
        started_us=begun,
        finished_us=begun + read_s * w.SECOND,
        handles=1,
    )
    start = w.start(slow, *fast, number=1, restored=True, restores=(restore,))
    (finding,) = w.findings(SLOW, w.facts(w.job(start)))
    assert finding.cause == cause
    assert finding.subject.subtask_index == 0
