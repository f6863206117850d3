"""Weekly events of healthy jobs: no finding at warning or above, and no culprit."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from flowdiag.analyses.checkpoints.rules import RULES as CHECKPOINT_RULES
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.finding import Finding, Severity, Verdict
from flowdiag.analyses.report.verdicts import judge

from .judged import outcomes_of
from .workbench import Bench

CANCEL = "java.util.concurrent.CancellationException"
FAILOVER = (
    "org.apache.flink.util.FlinkException: JobManager responsible for "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa lost the leadership."
)


def serious(facts: ClusterFacts) -> list[Finding]:
    return [
        finding
        for outcome in outcomes_of(CHECKPOINT_RULES, facts)
        for finding in outcome.findings
        if finding.severity is not Severity.INFO
    ]


def begin(job: Bench) -> None:
    """Submit the job. The first triggers come before some tasks have started."""
    job.happens("submitted")
    job.happens("started", second=job.now_s + 0.1)
    job.happens("job-running", second=job.now_s + 0.2, text={"to_state": "RUNNING"})
    for number in range(2):
        job.happens(
            "not-triggered",
            second=job.now_s + 0.3 + number * 0.5,
            cause="Checkpoint triggering task Source: orders (1/2) of job x is not being executed "
            "at the moment. Aborting checkpoint. Failure reason: Not all required tasks are "
            "currently running.",
        )
    job.now_s += 5


def first_checkpoints_after_a_start(job: Bench) -> None:
    job.now_s += 30
    job.next_id = 1
    job.run += 1
    begin(job)
    job.completes(4, lasted_s=48)


def catching_up_after_a_restore(job: Bench) -> None:
    """Process a backlog at full speed: barriers wait, and two or three checkpoints expire."""
    job.happens("restored", checkpoint=job.next_id)
    job.expires(3)
    job.completes(5, lasted_s=200)


def rescaling(job: Bench) -> None:
    job.completes(1, lasted_s=20, kind="savepoint")
    job.happens("savepoint")
    job.happens("cancelled", text={"to_state": "CANCELLING"})
    job.aborted("Checkpoint Coordinator is suspending.")
    job.happens("coordinator-stopped")
    job.now_s += 40
    begin(job)
    job.happens("rescaled")
    job.happens("restored")
    job.expires(1)
    job.completes(3, lasted_s=70)


def stop_with_savepoint(job: Bench) -> None:
    job.happens("savepoint")
    job.completes(1, lasted_s=90, kind="stop-with-savepoint")
    job.happens("finished", text={"to_state": "FINISHED"})
    job.happens("coordinator-stopped")


def cancel(job: Bench) -> None:
    job.happens("cancelled", text={"to_state": "CANCELLING"})
    job.fails("Checkpoint Coordinator is suspending.")
    job.happens("decline-ignored", task="enrich", subtask_index=0)
    for task, index in job.everyone("enrich"):
        job.happens("async-failure", task=task, subtask_index=index, cause=CANCEL)
    job.happens("cancelled", text={"to_state": "CANCELED"})
    job.happens("finished", text={"to_state": "CANCELED"})


def jobmanager_failover(job: Bench) -> None:
    job.happens("leadership")
    for task, index in job.everyone("enrich", "aggregate"):
        job.happens("task-failure", task=task, subtask_index=index, cause=FAILOVER)
    job.aborted("CheckpointCoordinator shutdown.")
    job.happens("suspended")
    job.now_s += 45
    job.happens("leadership")
    job.happens("started")
    job.happens("restored")
    job.expires(1)
    job.completes(3, lasted_s=65)


def slow_manual_savepoint(job: Bench) -> None:
    job.happens("savepoint")
    job.completes(1, lasted_s=420, kind="savepoint", size=80_000_000_000)
    job.completes(2, lasted_s=3)


def idle_source(job: Bench) -> None:
    job.completes(30, lasted_s=0.2, size=900)


def bounded_source_finishes(job: Bench) -> None:
    """Finish one source. Up to Flink 1.13, no checkpoint can be triggered after that."""
    for number in range(40):
        job.happens(
            "not-triggered",
            second=job.now_s + 60 * number,
            cause="Some tasks of the job have already finished and checkpointing with finished "
            "tasks is not enabled. Failure reason: Not all required tasks are currently running.",
        )
    job.now_s += 2400
    job.happens("finished", text={"to_state": "FINISHED"})


def one_in_flight_at_the_end(job: Bench) -> None:
    job.in_flight(1)


def one_checkpoint_expires(job: Bench) -> None:
    job.expires(1)
    job.completes(1)


EVENTS = [
    first_checkpoints_after_a_start,
    catching_up_after_a_restore,
    rescaling,
    stop_with_savepoint,
    cancel,
    jobmanager_failover,
    slow_manual_savepoint,
    idle_source,
    bounded_source_finishes,
    one_in_flight_at_the_end,
]
ENDS = {stop_with_savepoint, cancel, bounded_source_finishes, one_in_flight_at_the_end}


@pytest.mark.parametrize("version", ["1.9.3", "1.13.6", "1.20.5", None])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event.__name__))
def test_one_event(event: Callable[[Bench], None], version: str | None) -> None:
    job = Bench(version=version)
    begin(job)
    job.completes(40)
    event(job)
    if event not in ENDS:
        job.completes(40)
    assert serious(job.facts()) == []


@pytest.mark.parametrize("version", ["1.10.3", "1.20.5"])
def test_an_event_right_after_the_start(version: str) -> None:
    """A short log has few other records that could dilute it."""
    for event in (catching_up_after_a_restore, jobmanager_failover, slow_manual_savepoint, cancel):
        job = Bench(version=version)
        begin(job)
        job.completes(3)
        event(job)
        if event not in ENDS:
            job.completes(3)
        assert serious(job.facts()) == [], event.__name__


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_week(seed: int) -> None:
    """A checkpoint per minute with a daily rhythm, and every event at some time."""
    chance = random.Random(seed)
    job = Bench(version=chance.choice(["1.10.3", "1.14.6", "1.20.5", "2.3.0"]))
    begin(job)
    plan = [event for event in EVENTS if event not in ENDS] * 2 + [one_checkpoint_expires] * 3
    chance.shuffle(plan)
    week, pause = 7 * 86_400, 7 * 86_400 / (len(plan) + 1)
    due = pause
    while job.now_s < week:
        hour = job.now_s % 86_400 / 3600
        load = 1 + 0.6 * (1 if 8 < hour < 20 else 0)
        job.completes(
            1,
            lasted_s=load * chance.lognormvariate(0.5, 0.5),
            size=round(2e9 * load * chance.uniform(0.97, 1.03)),
        )
        if plan and job.now_s > due:
            plan.pop()(job)
            due += pause
    cancel(job)
    facts = job.facts()
    assert serious(facts) == []
    assert judge(outcomes_of(CHECKPOINT_RULES, facts)).verdict is Verdict.HEALTHY


def test_a_healthy_job_with_metrics_and_details() -> None:
    job = Bench()
    begin(job)
    for checkpoint in job.completes(20):
        job.acknowledgements(checkpoint, bytes=10_000)
    job.loaded(
        {
            ("aggregate", 2): {"busy": 550.0, "records_in": 2600.0},
            ("Source: orders", None): {"busy": None, "back_pressured": 40.0},
        }
    )
    outcomes = outcomes_of(CHECKPOINT_RULES, job.facts())
    assert [outcome.status for outcome in outcomes] == ["clear"] * len(outcomes)
