"""CP202 and CP301 to CP311 on hand-written facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.rules import (
    RULES as CHECKPOINT_RULES,
)
from flowdiag.analyses.checkpoints.rules import checkpoint_threshold_exceeded as threshold_exceeded
from flowdiag.analyses.checkpoints.rules import (
    jobmanager_stalled,
    lost_transactions,
    no_source_acknowledged,
    restart_loop,
    skewed_taskmanager,
    stuck_task,
    task_failure,
)
from flowdiag.analyses.checkpoints.rules import slow_checkpoint_storage as storage_throttled
from flowdiag.analyses.checkpoints.rules import slow_finalization as metadata_write
from flowdiag.analyses.flink.advice.unrecognized import (
    handled_spans,
    occurrence_of,
    open_errors,
    restarts_of,
)
from flowdiag.analyses.flink.failures.crises import crises
from flowdiag.analyses.flink.helpers import jobs_of
from flowdiag.analyses.flink.job import ClusterFacts, Incident, Setting
from flowdiag.analyses.flink.rules import out_of_memory, process_lost, unrecognised_failure
from flowdiag.analyses.knowledge.unknown_failures import Occurrence, failure_groups
from flowdiag.analyses.model.finding import (
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.model.keys import Process, Ref
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.report.verdicts import judge
from flowdiag.analyses.stacks import Stack

from .judged import cases_of, outcomes_of, results_of
from .workbench import SECOND, T0, Bench

LOST = (
    "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Connection "
    "unexpectedly closed by remote task manager 'host-tm-2/10.0.0.2:41000 [ tm-2 ] '. This might "
    "indicate that the remote task manager was lost."
)
SLOTS = (
    "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire "
    "the minimum required resources."
)
CANCELLED = "java.util.concurrent.CancellationException"
USER = "java.lang.IllegalStateException: cannot parse amount of order 7"


def findings(rule: Rule, facts: ClusterFacts) -> list[Finding]:
    results = list(results_of(rule, facts))
    assert all(isinstance(item, Finding) for item in results), results
    return [item for item in results if isinstance(item, Finding)]


def only_finding(rule: Rule, facts: ClusterFacts) -> Finding:
    (found,) = findings(rule, facts)
    return found


def fails(job: Bench, second: float, task: str, index: int, cause: str, **text: str) -> Incident:
    return job.happens(
        "task-failure",
        second=second,
        task=task,
        subtask_index=index,
        parallelism=dict(job.tasks)[task],
        taskmanager=job.manager_of(task, index),
        host=f"host-{job.manager_of(task, index)}",
        cause=cause,
        text={"to_state": "FAILED", **text},
    )


def restarts(job: Bench, second: float) -> None:
    job.happens("job-restarting", second=second)
    job.happens("job-running", second=second + 2)


def test_user_code_in_a_restart_loop() -> None:
    job = Bench()
    job.completes(10)
    start = job.now_s
    for number in range(6):
        fails(job, start + 12 * number, "enrich", 1, USER)
        restarts(job, start + 12 * number + 1)
    job.happens("cancelled", second=start + 80)
    found = only_finding(task_failure.RULE, job.facts())
    assert (found.severity, found.state, found.cause) == (
        Severity.CRITICAL,
        State.ONGOING,
        "task-failure",
    )
    assert (found.subject.task, found.subject.subtask_index) == ("enrich", 1)
    assert found.confidence is Confidence.HIGH
    assert "cannot parse amount" in (found.why or "")
    loop = only_finding(restart_loop.RULE, job.facts())
    assert loop.severity is Severity.CRITICAL and loop.why is None
    assert loop.title.startswith("6 failures within 1 min without a completed checkpoint")


def test_one_past_failure_is_information() -> None:
    job = Bench()
    job.completes(300)
    fails(job, job.now_s, "enrich", 1, USER)
    restarts(job, job.now_s + 1)
    job.now_s += 20
    job.completes(300)
    found = only_finding(task_failure.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.INFO, State.RECOVERED)
    assert findings(restart_loop.RULE, job.facts()) == []


def test_snapshot_exception_as_a_task_failure() -> None:
    """From Flink 1.11 on, an exception in the synchronous part fails the task."""
    job = Bench()
    job.completes(5)
    for number in range(4):
        fails(
            job,
            job.now_s + 10 * number,
            "aggregate",
            1,
            "java.lang.IllegalStateException: quota exceeded",
            exception="java.io.IOException: Could not perform checkpoint 5 for operator aggregate "
            "(2/6)#0.",
        )
    found = only_finding(task_failure.RULE, job.facts())
    assert found.cause == "snapshot-exception"
    assert found.title.startswith(
        "aggregate (2/6) throws an exception during a snapshot, 4 restarts"
    )


def test_declines_of_one_subtask_with_its_cause() -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.declined(6):
        job.refuses(
            checkpoint,
            "aggregate",
            2,
            "org.apache.flink.util.SerializedThrowable: java.io.IOException: No space left on device",
        )
    found = only_finding(task_failure.RULE, job.facts())
    assert (found.cause, found.subject.subtask_index) == ("snapshot-exception", 2)
    assert (
        found.why
        == "aggregate (3/6): java.io.IOException: No space left on device (6 of 6 failed checkpoints)"
    )
    assert found.confidence is Confidence.HIGH


def test_declines_of_all_subtasks_name_no_single_culprit() -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.declined(6):
        for task, index in job.everyone("enrich", "aggregate"):
            job.refuses(
                checkpoint, task, index, "java.lang.IllegalStateException: no such currency"
            )
    found = only_finding(task_failure.RULE, job.facts())
    assert found.subject.kind == "job"


def test_declines_on_one_machine() -> None:
    job = Bench()
    job.completes(5)
    here = [who for who in job.on("tm-2") if who[0] in ("enrich", "aggregate")]
    for checkpoint in job.declined(6):
        for task, index in here:
            job.refuses(checkpoint, task, index, "java.io.IOException: No space left on device")
    found = only_finding(task_failure.RULE, job.facts())
    assert (found.subject.kind, found.subject.taskmanager) == ("taskmanager", "tm-2")


def test_a_decline_without_a_reason_uses_the_taskmanagers_log() -> None:
    job = Bench(version="1.10.3")
    job.completes(5)
    for checkpoint in job.declined(3):
        job.refuses(checkpoint, "enrich", 0, "")
        job.happens(
            "snapshot-failed", task="enrich", subtask_index=0, checkpoint=checkpoint.id, cause=USER
        )
    job.declines = [replace(d, reason=None) for d in job.declines]
    found = only_finding(task_failure.RULE, job.facts())
    assert found.cause == "snapshot-exception" and "cannot parse" in (found.why or "")


def test_a_subtask_that_never_acknowledged_is_the_decliner() -> None:
    job = Bench()
    job.completes(5)
    for number, checkpoint in enumerate(job.declined(4, reason="Checkpoint was declined.")):
        job.acknowledgements(checkpoint, [("enrich", 3), ("aggregate", number)])
    found = only_finding(task_failure.RULE, job.facts())
    assert (found.subject.task, found.subject.subtask_index) == ("enrich", 3)
    assert found.confidence is Confidence.MEDIUM


def test_snapshots_that_failed_by_a_taskmanager_alone() -> None:
    job = Bench()
    for number in range(4):
        job.happens(
            "async-failure",
            second=3 * number,
            task="aggregate",
            subtask_index=1,
            parallelism=6,
            checkpoint=number,
            cause="java.io.IOException: No space left on device",
        )
        job.happens("async-failure", task="enrich", subtask_index=0, cause=CANCELLED)
    found = only_finding(task_failure.RULE, job.facts(has_jobmanager_log=False))
    assert (found.subject.task, found.cause) == ("aggregate", "snapshot-exception")


def test_declines_of_closing_sources_have_no_culprit() -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.declined(2, reason="Checkpoint was declined (task is closing)"):
        job.refuses(checkpoint, "Source: orders", 0, "Checkpoint was declined (task is closing)")
    assert findings(task_failure.RULE, job.facts()) == []


@pytest.mark.parametrize("named", ["heartbeat", "exception", "host-only"])
def test_the_lost_taskmanager_is_the_peer(named: str) -> None:
    """The first FAILED task runs on a survivor."""
    job = Bench()
    job.completes(10)
    now = job.now_s
    text = {"lost_taskmanager": "tm-2", "lost_host": "host-tm-2"}
    if named == "host-only":
        text = {"lost_taskmanager": "", "lost_host": "host-tm-2.flink.example"}
    if named == "heartbeat":
        text = {"lost_taskmanager": "null", "lost_host": "null"}
        job.happens(
            "taskmanager-lost",
            second=now + 12,
            taskmanager="tm-2",
            cause="The heartbeat of TaskManager with id tm-2 timed out",
        )
    fails(job, now, "enrich", 0, LOST, **text)
    fails(job, now, "aggregate", 5, LOST, **text)
    restarts(job, now + 13)
    job.now_s += 30
    job.completes(10)
    found = only_finding(process_lost.RULE, job.facts())
    assert (found.subject.taskmanager, found.subject.host) == ("tm-2", "host-tm-2")
    assert (found.severity, found.state, found.cause) == (
        Severity.WARNING,
        State.RECOVERED,
        "taskmanager-lost",
    )
    assert found.confidence is Confidence.HIGH
    assert findings(task_failure.RULE, job.facts()) == []


def test_a_taskmanager_that_shuts_down_is_the_lost_one() -> None:
    job = Bench()
    job.completes(10)
    gone = "org.apache.flink.util.FlinkException: The TaskExecutor is shutting down."
    for task, index in job.on("tm-3"):
        fails(job, job.now_s, task, index, gone)
    fails(job, job.now_s + 0.1, "enrich", 1, LOST, lost_taskmanager="tm-3", lost_host="host-tm-3")
    restarts(job, job.now_s + 1)
    job.now_s += 20
    job.completes(5)
    found = only_finding(process_lost.RULE, job.facts())
    assert found.subject.taskmanager == "tm-3"
    assert {vote.signal for vote in found.votes} == {"shut-down", "named-peer"}
    assert found.severity is Severity.WARNING
    # In reactive mode, a job is scaled down by removing a TaskManager.
    mode = Setting(job=None, key="scheduler-mode", value="reactive", source="log")
    facts = job.facts()
    jobs = tuple(replace(each, settings=(*each.settings, mode)) for each in facts.jobs)
    assert only_finding(process_lost.RULE, replace(facts, jobs=jobs)).severity is Severity.INFO


@pytest.mark.parametrize(("after_s", "lost"), [(1.0, False), (60.0, True)])
def test_the_shutdown_of_a_cluster_loses_no_taskmanager(after_s: float, lost: bool) -> None:
    """Scripts that stop a cluster stop the TaskManagers shortly before the JobManager."""
    job = Bench()
    job.completes(10)
    gone = "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down."
    fails(job, job.now_s, "enrich", 1, gone)
    job.happens("job-restarting", second=job.now_s)
    stop = {"template": "signal-received", "role": "jobmanager"}
    job.happens("process-stopped", second=job.now_s + after_s, text=stop)
    assert bool(findings(process_lost.RULE, job.facts())) is lost


def stops(job: Bench, manager: str, **text: str) -> None:
    address = "pekko.tcp://flink@host-tm-2:4213/user/rpc/taskmanager_0"
    known = {"template": "taskmanager-stopping", "role": "taskmanager", "address": address}
    job.happens("process-stopped", taskmanager=manager, text=known | text)


@pytest.mark.parametrize(
    "explained",
    [
        None,
        {"template": "signal-received", "role": "taskmanager"},
        {"template": "fatal-cluster-error", "role": "taskmanager"},
        {"template": "signal-received", "role": "jobmanager"},
    ],
)
def test_a_taskmanager_that_stops_without_a_signal_ended_itself(
    explained: dict[str, str] | None,
) -> None:
    job = Bench()
    if explained is not None:
        manager = "tm-2" if explained["role"] == "taskmanager" else None
        job.happens("process-stopped", taskmanager=manager, text=explained)
    job.now_s += 0.1
    stops(job, "tm-2")
    found = findings(process_lost.RULE, job.facts())
    if explained is not None:
        assert found == []
        return
    assert [(one.subject.taskmanager, one.cause) for one in found] == [("tm-2", "taskmanager-lost")]
    assert (found[0].severity, found[0].state) == (Severity.WARNING, State.ONGOING)
    assert "intercept-user-system-exit" in found[0].actions[0].text
    job.completes(3)
    assert only_finding(process_lost.RULE, job.facts()).state is State.RECOVERED


def test_a_taskmanager_without_tasks_or_in_a_local_cluster_does_not_end_itself() -> None:
    idle = Bench()
    stops(idle, "tm-77")
    local = Bench()
    stops(local, "tm-2", address="akka://flink/user/taskmanager_0")
    assert findings(process_lost.RULE, idle.facts()) == []
    assert findings(process_lost.RULE, local.facts()) == []


def test_the_log_of_a_lost_taskmanager_shows_that_it_ended_itself() -> None:
    job = Bench()
    job.completes(10)
    stops(job, "tm-3")
    gone = "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down."
    for task, index in job.on("tm-3"):
        fails(job, job.now_s, task, index, gone)
    restarts(job, job.now_s + 1)
    job.now_s += 20
    job.completes(5)
    found = only_finding(process_lost.RULE, job.facts())
    assert found.subject.taskmanager == "tm-3" and "ended on its own" in found.title
    assert {vote.signal for vote in found.votes} == {"ended-itself"}
    assert "System.exit" in found.actions[0].text


REFUSED_ROW = (
    "org.postgresql.util.PSQLException: ERROR: duplicate key value violates unique constraint"
)
UNREACHABLE = "java.net.ConnectException: Connection to db-1:5432 refused"
CLOSED = "java.lang.NullPointerException: Cannot invoke PreparedStatement.setLong"


def ends_by_fatal_error(job: Bench, manager: str, error: str) -> Incident:
    """End a TaskManager by an exception that escapes the error handling of a task."""
    fatal = {"template": "fatal-cluster-error", "role": "taskmanager", "component": "executing"}
    record = job.happens("process-stopped", taskmanager=manager, cause=error, text=fatal)
    job.now_s += 0.1
    stops(job, manager)
    stops(job, manager, template="taskmanager-terminating")
    gone = "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down."
    for task, index in job.on(manager):
        fails(job, job.now_s, task, index, gone)
    return record


def test_a_fatal_error_is_the_reason_for_the_loss_of_its_taskmanager() -> None:
    job = Bench()
    job.completes(10)
    record = ends_by_fatal_error(job, "tm-3", REFUSED_ROW)
    found = only_finding(process_lost.RULE, job.facts())
    assert "ended after a fatal error" in found.title and REFUSED_ROW[:40] in found.title
    assert found.rank is Rank.CONSEQUENCE  # IO204 reports the database that refused the row
    assert {vote.signal for vote in found.votes} == {"fatal-error"}
    assert record.ref is not None and found.evidence[0] == Evidence(*record.ref)
    assert not any("exit code" in action.text for action in found.actions)


def test_a_fatal_error_without_a_known_cause_is_the_root() -> None:
    job = Bench()
    job.completes(10)
    ends_by_fatal_error(job, "tm-3", CLOSED)
    found = only_finding(process_lost.RULE, job.facts())
    assert (found.rank, found.cause) == (Rank.ROOT_CAUSE, "taskmanager-lost")
    assert CLOSED in found.actions[0].text or "stack trace" in found.actions[0].text
    assert findings(unrecognised_failure.RULE, job.facts()) == []


def test_a_task_that_fails_before_the_fatal_error_is_the_root() -> None:
    job = Bench()
    job.completes(10)
    task, index = job.on("tm-3")[0]
    fails(job, job.now_s, task, index, UNREACHABLE)
    job.now_s += 0.1
    record = ends_by_fatal_error(job, "tm-3", CLOSED)
    facts = job.facts()
    root = only_finding(task_failure.RULE, facts)
    assert (root.subject.task, root.cause) == (task, "service-unreachable")
    lost = only_finding(process_lost.RULE, facts)
    assert (lost.rank, lost.cause) == (Rank.CONSEQUENCE, None)
    assert record.ref is not None and Evidence(*record.ref) in lost.evidence
    answer = judge(outcomes_of(CHECKPOINT_RULES, facts))
    assert answer.cause == "service-unreachable"


def test_each_taskmanager_that_ended_is_judged_alone() -> None:
    job = Bench()
    job.completes(10)
    task, index = job.on("tm-3")[0]
    fails(job, job.now_s, task, index, UNREACHABLE)
    job.now_s += 0.1
    ends_by_fatal_error(job, "tm-3", CLOSED)
    job.now_s += 1
    ends_by_fatal_error(job, "tm-2", "java.lang.IllegalStateException: no such channel")
    lost = findings(process_lost.RULE, job.facts())
    assert [(each.subject.taskmanager, each.rank) for each in lost] == [
        ("tm-2", Rank.ROOT_CAUSE),
        ("tm-3", Rank.CONSEQUENCE),
    ]


GONE_FILE = "java.io.FileNotFoundException: No such file or directory: s3://flink/checkpoints/chk-8/a4fa1616"
NO_KEY = "java.lang.IllegalStateException: no key in <order/>"


def fails_again(job: Bench, cause: str, times: int) -> None:
    """Add failures of a task, with a restart after each."""
    for _ in range(times):
        fails(job, job.now_s, "enrich", 1, cause)
        restarts(job, job.now_s + 4)
        job.now_s += 5


@pytest.mark.parametrize(("times", "cause"), [(1, "taskmanager-lost"), (4, "storage-failure")])
def test_restarts_that_fail_for_their_own_reason_outrank_the_loss_before(
    times: int, cause: str
) -> None:
    job = Bench()
    job.completes(10)
    fails(job, job.now_s, "enrich", 0, LOST, lost_taskmanager="tm-2", lost_host="host-tm-2")
    restarts(job, job.now_s + 4)
    job.now_s += 5
    fails_again(job, GONE_FILE, times)
    assert judge(outcomes_of(CHECKPOINT_RULES, job.facts())).cause == cause


@pytest.mark.parametrize(("timeouts", "named"), [(4, "Kafka"), (1, "no key")])
def test_the_root_of_a_restart_loop_is_its_most_frequent_exception(
    timeouts: int, named: str
) -> None:
    job = Bench()
    job.completes(10)
    fails_again(job, NO_KEY, 2)
    kafka = "org.apache.kafka.common.errors.TimeoutException: Kafka is not reachable"
    fails_again(job, kafka, timeouts)
    fails_again(job, NO_KEY, 2)
    found = only_finding(task_failure.RULE, job.facts())
    assert named in found.title


def test_an_error_of_memory_is_not_the_fatal_error_of_a_lost_taskmanager() -> None:
    job = Bench()
    job.completes(10)
    ends_by_fatal_error(job, "tm-3", "java.lang.OutOfMemoryError: Java heap space")
    assert not any("fatal error" in one.title for one in findings(process_lost.RULE, job.facts()))


def test_all_taskmanagers_that_end_themselves_in_one_crisis_are_named() -> None:
    job = Bench()
    job.completes(10)
    stops(job, "tm-3")
    stops(job, "tm-2")
    gone = "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down."
    for task, index in job.on("tm-3"):
        fails(job, job.now_s, task, index, gone)
    found = only_finding(process_lost.RULE, job.facts())
    assert found.subject.taskmanager == "tm-3"
    assert "ended on its own (so did tm-2)" in found.title


def test_a_taskmanager_that_is_lost_before_the_shutdown_of_its_cluster_is_lost() -> None:
    job = Bench()
    job.completes(10)
    fails(job, job.now_s, "enrich", 1, LOST, lost_taskmanager="tm-3", lost_host="host-tm-3")
    stop = {"template": "signal-received", "role": "jobmanager"}
    job.happens("process-stopped", second=job.now_s + 5, text=stop)
    assert only_finding(process_lost.RULE, job.facts()).subject.taskmanager == "tm-3"


def test_a_loss_without_slots_to_restart() -> None:
    job = Bench()
    job.completes(10)
    now = job.now_s
    fails(job, now, "enrich", 0, LOST, lost_taskmanager="tm-2", lost_host="host-tm-2")
    for number in range(5):
        job.happens(
            "job-failing", second=now + 20 + 15 * number, cause=SLOTS, text={"to_state": "FAILING"}
        )
    job.happens("cancelled", second=now + 400)
    facts = job.facts()
    found = only_finding(process_lost.RULE, facts)
    assert (found.severity, found.state) == (Severity.CRITICAL, State.ONGOING)
    assert found.subject.taskmanager == "tm-2"
    assert findings(task_failure.RULE, facts) == []
    answer = judge(outcomes_of(CHECKPOINT_RULES, facts))
    assert (answer.verdict, answer.cause) == ("failing", "taskmanager-lost")
    assert answer.culprits[0].subject.taskmanager == "tm-2"


@pytest.mark.parametrize(
    ("cause", "kind", "option"),
    [
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "heap",
            "taskmanager.memory.task.heap.size",
        ),
        (
            "java.lang.OutOfMemoryError: Metaspace. The metaspace out-of-memory error has occurred.",
            "metaspace",
            "taskmanager.memory.jvm-metaspace.size",
        ),
        (
            "java.lang.OutOfMemoryError: Direct buffer memory. The direct out-of-memory error",
            "direct",
            "taskmanager.memory.task.off-heap.size",
        ),
        (
            "Container [pid=1] is running 12MB beyond the 'PHYSICAL' memory limit. Current usage",
            "container",
            "taskmanager.memory.jvm-overhead.fraction",
        ),
    ],
)
def test_memory_outranks_the_loss_that_follows(cause: str, kind: str, option: str) -> None:
    job = Bench()
    job.completes(10)
    now = job.now_s
    job.happens("out-of-memory", second=now, taskmanager="tm-2", host="host-tm-2", cause=cause)
    fails(job, now + 1, "enrich", 0, LOST, lost_taskmanager="tm-2", lost_host="host-tm-2")
    restarts(job, now + 5)
    job.now_s += 30
    job.completes(5)
    facts = job.facts()
    found = only_finding(out_of_memory.RULE, facts)
    assert found.option == option
    assert found.subject.taskmanager == "tm-2"
    assert found.measurements[0].population == kind
    assert findings(process_lost.RULE, facts) == []
    assert judge(outcomes_of(CHECKPOINT_RULES, facts)).cause == "out-of-memory"


@pytest.mark.parametrize(("calm", "state"), [(3, State.ONGOING), (60, State.RECOVERED)])
def test_failures_at_short_intervals_are_ongoing_although_checkpoints_complete(
    calm: int, state: State
) -> None:
    job = Bench()
    job.completes(10)
    for _ in range(4):
        fails(job, job.now_s, "enrich", 1, USER)
        restarts(job, job.now_s + 1)
        job.now_s += 4
        job.completes(2)
    job.completes(calm)
    assert only_finding(task_failure.RULE, job.facts()).state is state


def test_errors_without_a_message_belong_to_the_memory_that_ran_out_there() -> None:
    job = Bench()
    for cause in ("java.lang.OutOfMemoryError: Java heap space", "java.lang.OutOfMemoryError"):
        job.completes(10)
        now = job.now_s
        job.happens("out-of-memory", second=now, taskmanager="tm-2", host="host-tm-2", cause=cause)
        fails(job, now + 1, "enrich", 0, LOST, lost_taskmanager="tm-2", lost_host="host-tm-2")
        restarts(job, now + 5)
        job.now_s += 30
    job.completes(5)
    found = only_finding(out_of_memory.RULE, job.facts())
    assert (
        found.title.startswith("Heap memory ran out on tm-2") and found.measurements[0].value == 2
    )


def test_threshold_is_a_consequence() -> None:
    job = Bench()
    job.completes(5)
    job.expires(1)
    job.happens(
        "job-failing",
        cause="org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure "
        "threshold.",
        text={"to_state": "FAILING"},
    )
    found = only_finding(threshold_exceeded.RULE, job.facts())
    assert found.why is None and found.cause is None
    assert "before: 1 expired" in found.title


def test_most_heartbeats_lapse_together() -> None:
    job = Bench(managers=5)
    job.completes(20)
    now = job.now_s
    for number in range(5):
        job.happens(
            "taskmanager-lost",
            second=now + number,
            taskmanager=f"tm-{number + 1}",
            cause=f"The heartbeat of TaskManager with id tm-{number + 1} timed out",
        )
    fails(job, now + 5, "enrich", 0, "The heartbeat of TaskManager with id tm-1 timed out")
    for number in range(5):
        job.happens("taskmanager-registered", second=now + 30, taskmanager=f"tm-{number + 1}")
    job.now_s += 60
    job.completes(20)
    facts = job.facts()
    found = only_finding(jobmanager_stalled.RULE, facts)
    assert found.cause == "jobmanager-stalled"
    assert found.confidence is Confidence.HIGH
    assert judge(outcomes_of(CHECKPOINT_RULES, facts)).cause == "jobmanager-stalled"


def test_an_expiry_that_comes_too_late() -> None:
    job = Bench(timeout_s=60)
    job.completes(20)
    job.expires(1)
    late = replace(
        job.checkpoints[-1],
        ended_us=(job.checkpoints[-1].ended_us or 0) + 140_000_000,
        duration_ms=200_000,
    )
    job.checkpoints[-1] = late
    job.now_s += 140
    job.completes(20)
    found = only_finding(jobmanager_stalled.RULE, job.facts())
    assert found.title == (
        "The JobManager paused: a checkpoint expired after 3 min 20 s, with a timeout of 1 min"
    )
    assert found.confidence is Confidence.MEDIUM


def test_two_lost_of_five_are_not_the_jobmanager() -> None:
    job = Bench(managers=5)
    job.completes(5)
    for number in range(2):
        job.happens(
            "taskmanager-lost",
            taskmanager=f"tm-{number + 1}",
            cause="The heartbeat of TaskManager timed out",
        )
    assert findings(jobmanager_stalled.RULE, job.facts()) == []


def test_slow_storage_everywhere() -> None:
    job = Bench()
    for checkpoint in job.completes(4, lasted_s=45):
        job.acknowledgements(checkpoint, end_to_end_ms=40_000, async_ms=39_000, bytes=5_000_000)
    found = only_finding(storage_throttled.RULE, job.facts())
    assert (found.cause, found.subject.kind) == ("slow-checkpoint-storage", "storage")


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([[("enrich", 0)], [("enrich", 3), ("aggregate", 1)], [("aggregate", 4)], []], True),
        ([[("enrich", 0)], [], [], []], False),  # one checkpoint
        ([[("enrich", 0)], [("enrich", 0)], [("enrich", 0), ("enrich", 1)], []], False),
        ([[("enrich", 0)], [("enrich", 1)], [("enrich", 0)], [("enrich", 1)]], False),
    ],
)
def test_storage_that_is_slow_for_some_requests(
    turns: list[list[tuple[str, int]]], found: bool
) -> None:
    job = Bench()
    slow = {"async_ms": 12_000, "end_to_end_ms": 12_100}
    # A slow checkpoint long before, and healthy ones since then, change nothing.
    turns = [[("enrich", 2)], *([[]] * 6), *turns]
    for checkpoint, turn in zip(job.completes(len(turns), lasted_s=13), turns, strict=True):
        job.acknowledgements(checkpoint, special=dict.fromkeys(turn, slow), bytes=10**6)
    causes = [each.cause for each in findings(storage_throttled.RULE, job.facts())]
    assert causes == (["slow-checkpoint-storage"] if found else [])


def waits_for_s3(second: float, **more: Any) -> Stack:
    values: dict[str, Any] = {
        "dump": f"dump at {second}",
        "thread": "jobmanager-io-thread-2",
        "kind": "checkpoint",
        "component": "s3a",
        "time_us": T0 + round(second * SECOND),
        "ref": Ref(0, round(second)),
    }
    return Stack(**(values | more))


@pytest.mark.parametrize(
    ("stacks", "found"),
    [
        ([waits_for_s3(310), waits_for_s3(312)], "jobmanager-io-thread-2 of the JobManager"),
        ([waits_for_s3(310, taskmanager="tm-1"), waits_for_s3(890, taskmanager="tm-1")], "of tm-1"),
        ([waits_for_s3(310), waits_for_s3(890, taskmanager="tm-1")], None),  # one dump of each
        ([waits_for_s3(310), waits_for_s3(310)], None),  # two threads in one dump
        ([waits_for_s3(10), waits_for_s3(12)], None),  # during a checkpoint that completed
        ([waits_for_s3(310, kind="idle"), waits_for_s3(312, kind="idle")], None),
    ],
)
def test_threads_that_wait_for_the_storage_while_no_source_acknowledges(
    stacks: list[Stack], found: str | None
) -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.expires(2):
        job.acknowledgements(checkpoint, job.everyone())
    job.loaded()
    facts = job.facts(jobs=(job.job(stacks=tuple(stacks)),))
    slow, silent = (
        findings(rule.RULE, facts) for rule in (storage_throttled, no_source_acknowledged)
    )
    assert [one.cause for one in slow] == (["slow-checkpoint-storage"] if found else [])
    assert all((found or "") in (one.why or "") for one in slow)
    assert [one.cause for one in silent] == ([] if found else ["checkpoint-lock-held"])


@pytest.mark.parametrize(("later", "state"), [(0, State.ONGOING), (3, State.RECOVERED)])
def test_a_wait_for_the_storage_is_over_once_a_later_checkpoint_completes(
    later: int, state: State
) -> None:
    job = Bench()
    job.completes(5)
    job.expires(2)
    job.completes(later)
    stacks = (waits_for_s3(310), waits_for_s3(312))
    (found,) = findings(storage_throttled.RULE, job.facts(jobs=(job.job(stacks=stacks),)))
    assert found.state is state
    assert ("did not" in found.title) is (state is State.RECOVERED)


def test_slow_storage_on_one_host() -> None:
    job = Bench()
    slow = {who: {"async_ms": 30_000, "end_to_end_ms": 30_100} for who in job.on("tm-3")}
    for checkpoint in job.completes(4, lasted_s=31):
        job.acknowledgements(checkpoint, special=slow, bytes=5_000_000)
    found = only_finding(storage_throttled.RULE, job.facts())
    assert (found.cause, found.subject.taskmanager) == ("slow-taskmanager", "tm-3")


def test_fast_storage_and_one_slow_subtask_are_neither() -> None:
    job = Bench()
    for checkpoint in job.completes(4):
        job.acknowledgements(checkpoint, special={("enrich", 1): {"async_ms": 30_000}}, bytes=10**6)
    assert findings(storage_throttled.RULE, job.facts()) == []


def test_slow_finalization() -> None:
    job = Bench()
    job.completes(20, finalization_ms=12)
    job.completes(4, finalization_ms=9_000)
    found = only_finding(metadata_write.RULE, job.facts())
    assert found.cause == "slow-metadata-writes" and found.count == 4


@pytest.mark.parametrize(
    ("template", "gap_s", "severity"),
    [
        ("producer-fenced", 60, Severity.WARNING),
        ("producer-fenced", 1200, Severity.CRITICAL),
        ("transaction-fenced", 60, Severity.CRITICAL),
    ],
)
def test_lost_transactions(template: str, gap_s: float, severity: Severity) -> None:
    job = Bench()
    job.completes(5)
    job.now_s += gap_s
    job.happens(
        "external-failure",
        cause="org.apache.kafka.common.errors.ProducerFencedException: newer producer",
        text={"template": template},
    )
    job.completes(5)
    found = only_finding(lost_transactions.RULE, job.facts())
    assert (found.severity, found.state) == (severity, State.RECOVERED)


def test_committed_before_a_restore_is_expected() -> None:
    job = Bench()
    job.completes(5)
    job.happens("external-failure", text={"template": "transaction-recovery-skipped"})
    assert findings(lost_transactions.RULE, job.facts()) == []


def test_source_that_holds_the_lock() -> None:
    job = Bench()
    for checkpoint in job.expires(3):
        job.acknowledgements(checkpoint, job.everyone())
    job.loaded({("Source: orders", None): {"busy": None, "back_pressured": 20.0}}, busy=5.0)
    found = only_finding(no_source_acknowledged.RULE, job.facts())
    assert (found.cause, found.subject.task) == ("checkpoint-lock-held", "Source: orders")
    job.loaded({("Source: orders", None): {"busy": None, "back_pressured": 980.0}})
    assert findings(no_source_acknowledged.RULE, job.facts()) == []
    job.loads.clear()
    (answer,) = results_of(no_source_acknowledged.RULE, job.facts())
    assert isinstance(answer, Inconclusive)


def late_source(**source: float | None) -> Bench:
    """Slow checkpoints that complete as soon as the first source begins with them."""
    job = Bench(interval_s=5.0)
    job.completes(4, lasted_s=0.1)
    for checkpoint in job.completes(5, lasted_s=14):
        late = {who: {"end_to_end_ms": 13_990} for who in job.everyone()}
        late[("Source: orders", 1)] = {"end_to_end_ms": 100}
        job.acknowledgements(checkpoint, special=late)
    quiet = {"busy": None, "back_pressured": 20.0} | source
    job.loaded({("Source: orders", None): quiet}, busy=5.0)
    return job


def test_source_that_holds_the_lock_for_a_while() -> None:
    found = only_finding(no_source_acknowledged.RULE, late_source().facts())
    assert (found.cause, found.subject.task, found.subject.subtask_index, found.state) == (
        "checkpoint-lock-held",
        "Source: orders",
        0,
        State.ONGOING,
    )
    assert found.severity is Severity.WARNING
    for load in ({"back_pressured": 700.0}, {"busy": 900.0}):
        assert findings(no_source_acknowledged.RULE, late_source(**load).facts()) == []
    without = late_source()
    without.loads.clear()
    assert findings(no_source_acknowledged.RULE, without.facts()) == []


def test_slow_source_snapshots_do_not_imply_a_held_lock() -> None:
    job = Bench(interval_s=5.0)
    job.completes(4, lasted_s=0.1)
    for checkpoint in job.completes(5, lasted_s=14):
        job.acknowledgements(checkpoint, end_to_end_ms=13_990, async_ms=13_000)
    job.loaded({("Source: orders", None): {"busy": None, "back_pressured": 20.0}}, busy=5.0)
    assert findings(no_source_acknowledged.RULE, job.facts()) == []


def test_stuck_task_names_its_method() -> None:
    job = Bench()
    job.completes(5)
    for number in range(3):
        job.happens(
            "task-stuck",
            second=job.now_s + 30 * number,
            task="enrich",
            subtask_index=2,
            parallelism=4,
            cause="java.base/java.net.SocketInputStream.socketRead0(Native Method)\n at b\n",
        )
    found = only_finding(stuck_task.RULE, job.facts())
    assert found.severity is Severity.WARNING
    assert found.why == (
        "enrich (3/4): stuck in java.base/java.net.SocketInputStream.socketRead0(Native Method)"
    )


def test_a_single_slow_close_is_information() -> None:
    job = Bench()
    job.completes(5)
    job.happens("task-stuck", task="enrich", subtask_index=2, cause="a.b.c")
    assert only_finding(stuck_task.RULE, job.facts()).severity is Severity.INFO


def test_skewed_taskmanager_needs_ratio_and_p() -> None:
    job = Bench(tasks=(("map", 9), ("reduce", 9)), timeout_s=10)
    job.completes(20)
    for checkpoint in job.expires(2):
        for task, index in job.on("tm-2"):
            job.is_late(checkpoint, task, index)
    found = only_finding(skewed_taskmanager.RULE, job.facts())
    assert (found.subject.taskmanager, found.cause) == ("tm-2", "slow-taskmanager")
    assert found.title == "6 late subtasks on tm-2 @ host-tm-2, 2 expected"
    small = Bench(timeout_s=10)
    small.completes(5)
    for checkpoint in small.expires(2):
        small.is_late(checkpoint, "enrich", 1)
    assert findings(skewed_taskmanager.RULE, small.facts()) == []


def test_a_crisis_ends_with_a_completed_checkpoint() -> None:
    job = Bench()
    job.completes(5)
    fails(job, job.now_s, "enrich", 1, USER)
    job.now_s += 10
    job.completes(5)
    fails(job, job.now_s, "enrich", 1, USER)
    fails(job, job.now_s + 0.4, "enrich", 2, "java.util.concurrent.CancellationException")
    found = crises(job.job())
    assert [(c.bursts, c.state) for c in found] == [(1, State.RECOVERED), (1, State.ONGOING)]
    assert all(c.root.incident.subtask_index == 1 for c in found)


def with_limits(rule: Rule, facts: ClusterFacts, **changed: float) -> list[Finding]:
    """Return the findings of a rule with other limits."""
    limits = rule.limits.with_settings(changed)
    results = [item for job in cases_of(facts) for item in rule.judge(job, limits)]
    return [item for item in results if isinstance(item, Finding)]


def test_the_lookback_of_the_threshold_is_a_limit() -> None:
    job = Bench()
    job.completes(5)
    job.expires(3)
    job.happens(
        "job-failing",
        cause="org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure "
        "threshold.",
        text={"to_state": "FAILING"},
    )
    (found,) = with_limits(threshold_exceeded.RULE, job.facts(), listed=2)
    assert "before: 2 expired" in found.title


def test_a_failure_without_a_message_is_a_hint() -> None:
    job = Bench()
    job.completes(5)
    job.happens("task-failure", task="enrich", subtask_index=1, parallelism=4)
    found = only_finding(task_failure.RULE, job.facts())
    assert next((vote.signal, vote.weight) for vote in found.votes) == ("no-exception", 1)
    assert found.confidence is Confidence.LOW


def test_three_declines_without_a_message_count() -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.declined(3):
        job.refuses(checkpoint, "enrich", 1, "")
    job.declines = [replace(decline, reason=None) for decline in job.declines]
    found = only_finding(task_failure.RULE, job.facts())
    assert [(vote.signal, vote.weight) for vote in found.votes] == [("repeated-declines", 2)]
    assert with_limits(task_failure.RULE, job.facts(), repeated=4) == []


def test_the_allowed_lateness_of_an_expiry_is_a_limit() -> None:
    job = Bench(timeout_s=60)
    job.completes(20)
    job.expires(1)
    job.checkpoints[-1] = replace(
        job.checkpoints[-1], ended_us=(job.checkpoints[-1].ended_us or 0) + 140_000_000
    )
    job.now_s += 140
    (found,) = with_limits(jobmanager_stalled.RULE, job.facts())
    published = {signal.name: signal.weight for signal in jobmanager_stalled.RULE.signals}
    assert {(vote.signal, vote.weight) for vote in found.votes} <= set(published.items())
    assert found.votes[0].signal == "expiry-overdue"
    assert with_limits(jobmanager_stalled.RULE, job.facts(), **{"overdue-share": 3.0}) == []


@pytest.mark.parametrize(("limit", "value"), [("subtasks", 99), ("agreement", 1.1)])
def test_the_number_of_slow_writers_is_a_limit(limit: str, value: float) -> None:
    job = Bench()
    for checkpoint in job.completes(4, lasted_s=45):
        job.acknowledgements(checkpoint, end_to_end_ms=40_000, async_ms=39_000, bytes=5_000_000)
    assert with_limits(storage_throttled.RULE, job.facts())
    assert with_limits(storage_throttled.RULE, job.facts(), **{limit: value}) == []


def paused_jobmanager(caught_up: int, pause_s: float = 40.0) -> Bench:
    """Return a job without triggers for a while, then with all due triggers at once."""
    job = Bench(interval_s=3)
    job.completes(20, lasted_s=0.1)
    job.now_s += pause_s
    job.interval_s = 0.05
    job.completes(caught_up, lasted_s=0.04)
    job.interval_s = 3
    job.completes(20, lasted_s=0.1)
    return job


def test_a_burst_of_missed_triggers_proves_a_stalled_jobmanager() -> None:
    job = paused_jobmanager(13)
    found = only_finding(jobmanager_stalled.RULE, job.facts())
    assert (found.cause, found.state, found.severity, found.confidence) == (
        "jobmanager-stalled",
        State.RECOVERED,
        Severity.WARNING,
        Confidence.HIGH,
    )
    assert found.first_us == job.at(57.1)
    assert "no checkpoint was triggered for 42.9 s, then 14 within" in found.title
    outcomes = outcomes_of(CHECKPOINT_RULES, job.facts())
    assert [c.code for c in judge(outcomes).culprits] == ["CP305"]


def test_a_burst_of_missed_triggers_needs_no_known_interval() -> None:
    """Many short gaps do not prove a short interval."""
    facts = paused_jobmanager(13).facts()
    (job,) = facts.jobs
    quartile = Setting(job=job.key, key="observed.interval_ms", value="50", source="observed")
    unknown = replace(facts, jobs=(replace(job, settings=(quartile,)),))
    assert only_finding(jobmanager_stalled.RULE, unknown).cause == "jobmanager-stalled"


@pytest.mark.parametrize(("caught_up", "pause_s"), [(0, 40.0), (1, 40.0), (3, 40.0), (1, 3.0)])
def test_a_pause_without_a_catch_up_is_not_a_stall(caught_up: int, pause_s: float) -> None:
    assert findings(jobmanager_stalled.RULE, paused_jobmanager(caught_up, pause_s).facts()) == []


@pytest.mark.parametrize(("earlier", "number"), [(True, 0), (False, 1)])
def test_an_error_that_the_job_outlived_before_is_handled(earlier: bool, number: int) -> None:
    """The last records of a log show no later success, but the same error before them does."""
    job = Bench()
    error = {"level": "ERROR", "exception": "a.b.StateException: no customer for k1"}

    def logs(second: float, customer: int) -> None:
        cause = f"a.b.StateException: no customer for k{customer}"
        job.happens("failure", second=second, cause=cause, text=error)

    job.completes(3)
    if earlier:
        logs(job.now_s, 7)
    job.completes(3)
    logs(job.now_s + 1, 40)
    facts = job.facts()
    jobs = jobs_of(facts)
    assert len(open_errors(jobs, [one for each in jobs for one in each.incidents])) == number


def test_many_errors_that_the_tasks_handle_are_a_note() -> None:
    handled = Occurrence(failure="a.b.StateException: x", text={"survived": "tasks"})
    other = replace(handled, text={})
    (group,) = failure_groups([handled] * 60 + [other])
    assert group.severity is Severity.INFO
    (group,) = failure_groups([other] * 60)
    assert group.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("kind", "survived"),
    [("failure", "tasks"), ("commit-failed", "tasks"), ("task-failure", None)],
)
def test_tasks_survive_failures_that_are_not_their_own(kind: str, survived: str | None) -> None:
    """Kafka's source commits its offsets again with the next checkpoint."""
    cause = "org.apache.kafka.common.errors.CoordinatorNotAvailableException: not available."
    incident = Bench().happens(kind, second=5, cause=cause)
    assert incident.ref is not None and incident.time_us is not None
    span = (incident.time_us - 1, incident.time_us + 1)
    found = occurrence_of(incident, {incident.ref.source: span})
    assert found.text.get("survived") == survived


@pytest.mark.parametrize(
    ("count", "apart_s", "handled"), [(20, 1, True), (20, 0, False), (5, 4, False)]
)
def test_an_exception_that_is_logged_again_and_again_shows_running_tasks(
    count: int, apart_s: int, handled: bool
) -> None:
    """The last lines of a log contain no start of a task."""
    job = Bench()
    for number in range(count):
        text = {"exception": "a.b.X: no customer for k1", "own_frame": "Enrich.map(Enrich.java:9)"}
        cause = f"a.b.X: no customer for k{number}"
        job.happens("failure", second=10 + number * apart_s, cause=cause, text=text)
    process = Process(
        source=0, label=None, role="taskmanager", cluster="", last_us=T0 + 1000 * SECOND
    )
    facts = replace(job.facts(processes=(process,)), has_jobmanager_log=False)
    facts = replace(facts, jobs=tuple(replace(one, attempts=()) for one in facts.jobs))
    assert bool(handled_spans(facts)) is handled


@pytest.mark.parametrize(("after_s", "count"), [(1, 0), (60, 1)])
def test_a_restart_right_before_the_jobmanager_is_stopped_is_no_failure(
    after_s: int, count: int
) -> None:
    job = Bench()
    restart = job.happens("job-restarting", second=5)
    stop = {"template": "signal-received", "role": "jobmanager"}
    signal = job.happens("process-stopped", second=5 + after_s, text=stop)
    assert len(restarts_of([restart, signal])) == count


def only_taskmanagers(job: Bench, until_s: float) -> ClusterFacts:
    """Return the facts of a job from the logs of two TaskManagers."""
    last = T0 + round(until_s * SECOND)
    processes = tuple(
        Process(source=n, label=None, role="taskmanager", cluster="", last_us=last) for n in (0, 1)
    )
    facts = job.facts(processes=processes, has_jobmanager_log=False)
    jobs = tuple(replace(one, checkpoints=(), last_us=last) for one in facts.jobs)
    return replace(facts, jobs=jobs)


@pytest.mark.parametrize(
    ("failures_s", "until_s", "state"),
    [
        ((30, 35), 120, State.RECOVERED),
        ((30, 35), 80, State.ONGOING),
        ((30, 90, 150), 260, State.ONGOING),  # it fails once a minute
    ],
)
def test_tasks_that_run_on_in_the_logs_of_taskmanagers_show_a_recovery(
    failures_s: tuple[int, ...], until_s: float, state: State
) -> None:
    job = Bench()
    for second in failures_s:
        fails(job, second, "enrich", 1, "java.lang.IllegalStateException: no price")
        restarts(job, second + 1)
    facts = only_taskmanagers(job, until_s)
    began = T0 + (failures_s[-1] + 2) * SECOND
    again = tuple(replace(one, deployed_us=began) for one in facts.jobs[0].attempts)
    jobs = (replace(facts.jobs[0], attempts=again),)
    (crisis,) = crises(jobs[0], replace(facts, jobs=jobs))
    assert crisis.state is state


@pytest.mark.parametrize(("apart_s", "count"), [(2, 0), (120, 1)])
def test_failures_when_all_taskmanagers_are_stopped_are_no_crisis(apart_s: int, count: int) -> None:
    job = Bench()
    gone = "org.apache.flink.util.FlinkException: Disconnect from JobManager responsible for 7f."
    stop = {"template": "signal-received", "role": "taskmanager"}
    for second in (30, 30 + apart_s):
        job.happens("process-stopped", second=second, text=stop)
        fails(job, second + 0.1, "enrich", 1, gone)
    facts = only_taskmanagers(job, 31 + apart_s)
    assert len(crises(facts.jobs[0], facts)) == count
