"""CP101 to CP107 on hand-written facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.rules import (
    RULES as CHECKPOINT_RULES,
)
from flowdiag.analyses.checkpoints.rules import (
    checkpoint_declined,
    checkpoint_expired,
    checkpoint_never_completes,
    checkpoint_not_triggered,
    growing_checkpoint,
    late_acknowledgement,
    slow_checkpoint,
)
from flowdiag.analyses.flink.assemble.settings import observed_settings
from flowdiag.analyses.flink.helpers import jobs_of
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.model.finding import Finding, Inconclusive, Severity, State
from flowdiag.analyses.model.rule import Rule

from .judged import results_of
from .workbench import Bench


def results(rule: Rule, facts: ClusterFacts) -> list[Finding | Inconclusive]:
    return list(results_of(rule, facts))


def finding(rule: Rule, facts: ClusterFacts) -> Finding:
    found = results(rule, facts)
    assert len(found) == 1, found
    assert isinstance(found[0], Finding)
    return found[0]


def value(found: Finding, name: str) -> Any:
    return next(m.value for m in found.measurements if m.name == name)


def test_expired_at_the_end_is_critical() -> None:
    job = Bench()
    job.completes(20)
    job.expires(3)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.CRITICAL, State.ONGOING)
    assert found.title == "3 of 23 checkpoints expired; none of the last 3 completed"
    assert value(found, "unsuccessful-at-the-end") == 3
    assert value(found, "timeout") == 600_000
    assert [e.offset for e in found.evidence] == [
        c.end_ref.offset for c in job.checkpoints[-3:] if c.end_ref
    ]
    # Without a culprit, no other option is known to help.
    assert [a.option for a in found.actions] == [None, "execution.checkpointing.timeout"]
    assert [a.proposed for a in found.actions] == [None, None] and found.actions[1].measure


def test_one_expiry_at_the_end_is_a_warning() -> None:
    job = Bench()
    job.completes(200)
    job.expires(1)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.WARNING, State.ONGOING)


def test_isolated_and_recovered_is_information() -> None:
    job = Bench()
    job.completes(150)
    job.expires(1)
    job.completes(150)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.INFO, State.RECOVERED)


def test_recovered_but_frequent_is_a_warning() -> None:
    job = Bench()
    for _ in range(10):
        job.completes(20)
        job.expires(1)
    job.completes(5)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.WARNING, State.RECOVERED)
    assert value(found, "episodes") == 10


def test_a_finished_job_has_recovered() -> None:
    job = Bench()
    job.completes(500)
    job.expires(2)
    job.happens("finished", text={"to_state": "FINISHED"})
    assert finding(checkpoint_expired.RULE, job.facts()).severity is Severity.INFO


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("1.9.3", {None, "CheckpointConfig.setCheckpointTimeout(…)"}),
        ("1.12.5", {None, "execution.checkpointing.timeout"}),
    ],
)
def test_actions_name_the_options_of_the_version(version: str, keys: set[str | None]) -> None:
    job = Bench(version=version)
    job.expires(2)
    assert {a.option for a in finding(checkpoint_expired.RULE, job.facts()).actions} == keys


def test_no_input_shows_how_checkpoints_ended() -> None:
    job = Bench()
    facts = job.facts(has_jobmanager_log=False, has_rest=False)
    (answer,) = results(checkpoint_expired.RULE, facts)
    assert isinstance(answer, Inconclusive)
    assert "jobmanager-log" in answer.checks


def test_late_acknowledgements_name_no_culprit() -> None:
    job = Bench(timeout_s=10)
    job.completes(10)
    for checkpoint in job.expires(2):
        job.is_late(checkpoint, "aggregate", 3, after_s=22.1)
    for checkpoint in job.declined(1):
        job.is_late(checkpoint, "enrich", 1)
    found = finding(late_acknowledgement.RULE, job.facts())
    assert found.why is None and found.cause is None
    assert found.title == "2 late acknowledgements of 2 checkpoints from 1 subtask on 1 TaskManager"
    assert value(found, "median-after-expiry") == 22_100
    assert "aggregate (4/6) 2×" in found.explain
    assert found.severity is Severity.WARNING


def test_declined_counts_the_cause() -> None:
    job = Bench()
    job.completes(5)
    for checkpoint in job.declined(3, reason="java.io.IOException: No space left on device"):
        job.refuses(checkpoint, "enrich", 0, "java.io.IOException: No space left on device")
    found = finding(checkpoint_declined.RULE, job.facts())
    assert found.severity is Severity.CRITICAL
    assert "No space left on device" in found.title
    assert "enrich (1/4) 3×" in found.explain


@pytest.mark.parametrize(
    "reason",
    [
        "Checkpoint Coordinator is suspending.",
        "CheckpointCoordinator shutdown.",
        "Checkpoint has been subsumed.",
        "Not all required tasks are currently running.",
        "Checkpoint was declined (task is closing)",
        "The minimum time between checkpoints is still pending.",
    ],
)
def test_consequences_are_not_failures(reason: str) -> None:
    job = Bench()
    job.completes(10)
    job.fails(reason, count=3)
    for rule in (checkpoint_declined.RULE, checkpoint_expired.RULE):
        assert results(rule, job.facts()) == []


def test_slow_but_completing() -> None:
    """Checkpoints take 48 to 85 seconds for a few kilobytes and none fails: the finding is the duration."""
    job = Bench()
    job.completes(5)
    for lasted in (48, 85, 52, 61, 70, 49, 66, 58, 80, 71):
        job.completes(1, lasted_s=lasted, size=4096)
    found = finding(slow_checkpoint.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.WARNING, State.ONGOING)
    assert value(found, "longest-duration") == 85_000
    assert results(checkpoint_expired.RULE, job.facts()) == []


@pytest.mark.parametrize(
    ("part", "advice"),
    [
        ({}, "Find out whether the wait for barriers"),
        ({"async_ms": 12_900}, "Check the storage's own metrics"),
        ({"sync_ms": 12_900}, "Check what blocks the task's thread"),
    ],
    ids=["unknown", "asynchronous", "synchronous"],
)
def test_the_advice_for_slow_checkpoints_fits_the_slow_part(
    part: dict[str, Any], advice: str
) -> None:
    job = Bench(interval_s=5.0)
    job.completes(5)
    for checkpoint in job.completes(10, lasted_s=13):
        if part:
            job.acknowledgements(checkpoint, end_to_end_ms=13_000, **part)
    assert finding(slow_checkpoint.RULE, job.facts()).actions[0].text.startswith(advice)


def repeatedly_slow() -> Bench:
    """Return a job in which every third checkpoint takes three intervals, and the queued triggers are fast."""
    job = Bench(interval_s=5.0)
    job.completes(4, lasted_s=0.02)
    for _ in range(6):
        job.completes(1, lasted_s=14)
        begun, job.interval_s = job.now_s, 0.03
        job.completes(2, lasted_s=0.02)
        job.interval_s, job.now_s = 5.0, begun + 1
    return job


def test_slow_checkpoints_count_by_their_time() -> None:
    found = finding(slow_checkpoint.RULE, repeatedly_slow().facts())
    assert (found.severity, found.state) == (Severity.WARNING, State.ONGOING)
    job = Bench(interval_s=5.0)
    for _ in range(8):  # a burst every minute
        job.completes(9, lasted_s=0.2)
        job.completes(3, lasted_s=4.5)
    job.completes(4, lasted_s=0.2)
    found = finding(slow_checkpoint.RULE, job.facts())
    assert (found.severity, found.state) == (Severity.INFO, State.RECOVERED)


@pytest.mark.parametrize(
    ("last", "reported"),
    [
        ((36, 49), True),
        ((36, 0.2, 49), False),
        ((0.2, 49), False),
        ((36, 49, 0.2), False),
        ((12, 14), False),
    ],
)
def test_two_checkpoints_of_many_intervals_are_enough(
    last: tuple[float, ...], reported: bool
) -> None:
    job = Bench(interval_s=5.0, timeout_s=120)
    job.completes(8, lasted_s=0.6)
    for lasted in last:
        job.completes(1, lasted_s=lasted)
    assert len(results(slow_checkpoint.RULE, job.facts())) == reported


def test_triggers_that_waited_do_not_show_the_interval() -> None:
    job = repeatedly_slow()
    (observed,) = observed_settings(job.key, job.checkpoints)
    assert observed.value == "5000"
    job = Bench(interval_s=0.03)
    job.completes(9, lasted_s=4)  # always in a checkpoint
    (observed,) = observed_settings(job.key, job.checkpoints)
    assert observed.value == "4000"


def test_slow_checkpoints_are_all_cited_the_longest_first() -> None:
    job = Bench()
    job.completes(5)
    for lasted in range(48, 80, 2):
        job.completes(1, lasted_s=lasted)
    found = finding(slow_checkpoint.RULE, job.facts())
    longest = max(job.checkpoints, key=lambda c: c.duration_ms or 0)
    assert (found.evidence_count, len(found.reported_evidence)) == (16, 10)
    assert (
        longest.end_ref is not None and found.reported_evidence[0].offset == longest.end_ref.offset
    )


def test_slow_savepoint_and_warm_up_are_not_slow_checkpoints() -> None:
    job = Bench()
    job.completes(4, lasted_s=50)
    job.completes(30)
    job.completes(1, lasted_s=300, kind="savepoint")
    job.completes(30)
    assert results(slow_checkpoint.RULE, job.facts()) == []


@pytest.mark.parametrize(("since_start_s", "of"), [(35.0, "8"), (2.0, "3")])
def test_a_warm_up_that_rest_has_forgotten_is_not_counted_again(
    since_start_s: float, of: str
) -> None:
    """REST keeps ten checkpoints. The first of them are a warm-up only if the start is recent."""
    job = Bench(interval_s=3.0, timeout_s=60)
    job.next_id, job.now_s = 36, since_start_s
    job.happens("restored", 0.0)
    job.completes(5)
    job.completes(3, lasted_s=4)
    found = finding(slow_checkpoint.RULE, job.facts())
    assert f"3 of {of} completed checkpoints" in found.title


def test_short_intervals_are_no_finding() -> None:
    job = Bench(interval_s=1.0, timeout_s=60)
    job.completes(100, lasted_s=0.9)
    assert results(slow_checkpoint.RULE, job.facts()) == []


def test_growing_size_and_duration() -> None:
    job = Bench()
    job.completes(5)
    for number in range(100):
        job.completes(1, lasted_s=1 + number * 0.2, size=10**8 + number * 10**7)
    duration, size = (
        f for f in results(growing_checkpoint.RULE, job.facts()) if isinstance(f, Finding)
    )
    assert duration.title.startswith("Checkpoint duration grew ")
    assert "reach the timeout" in duration.explain
    assert size.title.startswith("Checkpoint size grew ")
    assert size.severity is Severity.WARNING


def levelling_off(number: int) -> float:
    return 10**9 * (1 - 0.9**number)


def flat(number: int) -> float:
    return 10**9 + (number % 7) * 10**7


def one_outlier(number: int) -> float:
    return 10**10 if number == 95 else 10**9


def daily(number: int) -> float:
    return 10**9 * (1.5 + ((number % 50) / 50))


def filling_up(number: int) -> float:
    """Return a job with growing state that started empty less than two time constants ago."""
    return 10**9 * (1 - math.exp(-(number + 1) / 60))


@pytest.mark.parametrize("shape", [levelling_off, flat, one_outlier, daily, filling_up])
def test_series_without_growth(shape: Callable[[int], float]) -> None:
    job = Bench()
    for number in range(105):
        job.completes(1, size=round(shape(number)))
    assert results(growing_checkpoint.RULE, job.facts()) == []


@pytest.mark.parametrize(("hours", "growth"), [(11, False), (30, True), (3, True)])
def test_the_daily_rise_is_not_growth(hours: int, growth: bool) -> None:
    job = Bench(interval_s=60.0)
    count = 60 * hours
    for number in range(count):
        job.completes(1, lasted_s=5 + 10 * number / count)
    assert bool(results(growing_checkpoint.RULE, job.facts())) == growth


def test_growth_does_not_cross_a_restore() -> None:
    job = Bench()
    job.completes(60, size=10**8)
    job.happens("restored")
    job.completes(60, size=10**9)
    assert results(growing_checkpoint.RULE, job.facts()) == []


def test_triggers_only() -> None:
    job = Bench()
    job.in_flight(6)
    found = finding(checkpoint_never_completes.RULE, job.facts())
    assert found.severity is Severity.CRITICAL
    assert found.title == "6 checkpoints were triggered, but none completed or failed"


def test_one_in_flight_at_the_end_is_no_finding() -> None:
    job = Bench()
    job.completes(3)
    job.in_flight(1)
    (doubt,) = results(checkpoint_never_completes.RULE, job.facts())
    assert isinstance(doubt, Inconclusive)
    assert doubt.reason.startswith("checkpoint 4 is in progress when the input ends")


def test_in_progress_for_hours() -> None:
    job = Bench()
    job.completes(3)
    job.in_flight(1)
    job.happens("taskmanager-registered", second=job.now_s + 3 * 3600)
    found = finding(checkpoint_never_completes.RULE, job.facts())
    assert found.title.startswith("Checkpoint 4 has been in progress for ")
    (same,) = jobs_of(job.facts())
    patient = checkpoint_never_completes.RULE.limits.with_settings(
        {"overdue-ratio": 100.0, "baseline-ratio": 100_000.0}
    )
    (doubt,) = checkpoint_never_completes.RULE.judge(same, patient)
    assert isinstance(doubt, Inconclusive)
    job.happens("cancelled")
    assert results(checkpoint_never_completes.RULE, job.facts()) == []


def test_checkpointing_is_off() -> None:
    job = Bench()
    job.happens("taskmanager-registered", second=5 * 3600)
    found = finding(checkpoint_never_completes.RULE, job.facts())
    assert found.severity is Severity.INFO
    assert "checkpointing is off" in found.title
    deployed = [a for a in job.facts().jobs[0].attempts if a.deployed_us is not None]
    assert found.evidence_count == len({a.ref for a in deployed if a.ref is not None})


def test_a_finished_source_prevents_every_trigger() -> None:
    job = Bench(version="1.12.5")
    job.completes(5)
    for number in range(60):
        job.happens(
            "not-triggered",
            second=job.now_s + 60 * number,
            cause="Some tasks of the job have already finished and checkpointing with finished "
            "tasks is not enabled. Failure reason: Not all required tasks are currently running.",
        )
    found = finding(checkpoint_not_triggered.RULE, job.facts())
    assert (found.severity, found.cause) == (Severity.CRITICAL, "finished-tasks")
    job.happens("finished", second=90_000, text={"to_state": "FINISHED"})
    assert results(checkpoint_not_triggered.RULE, job.facts()) == []


def test_a_bounded_job_may_be_cut_off_before_its_end() -> None:
    job = Bench(version="1.12.5", interval_s=3)
    job.completes(5)
    for number in range(8):
        job.happens(
            "not-triggered",
            second=job.now_s + 3 * number,
            cause="Some tasks of the job have already finished and checkpointing with finished "
            "tasks is not enabled. Failure reason: Not all required tasks are currently running.",
        )
    assert finding(checkpoint_not_triggered.RULE, job.facts()).severity is Severity.INFO


def test_declined_triggers_during_startup_are_normal() -> None:
    job = Bench()
    for number in range(3):
        job.happens("not-triggered", second=number, cause="is not being executed at the moment")
    job.now_s = 10
    job.completes(20)
    assert results(checkpoint_not_triggered.RULE, job.facts()) == []


def test_triggers_declined_during_a_restore_do_not_imply_finished_tasks() -> None:
    job = Bench()
    job.completes(20)
    for number in range(8):
        cause = "Checkpoint triggering task price (1/4) is not being executed at the moment"
        job.happens("not-triggered", second=job.now_s + 5 * number, cause=cause)
    job.now_s += 60
    found = finding(checkpoint_not_triggered.RULE, job.facts())
    assert found.cause is None
    assert [action.option for action in found.actions] == [None]
    assert "restore" in found.actions[0].text


def test_silence() -> None:
    job = Bench()
    job.completes(30)
    job.happens("taskmanager-registered", second=job.now_s + 6 * 3600)
    found = finding(checkpoint_not_triggered.RULE, job.facts())
    assert "without a logged reason" in found.title


@pytest.mark.parametrize("rule", CHECKPOINT_RULES, ids=lambda rule: rule.code)
def test_rules_survive_facts_without_anything(rule: Rule) -> None:
    empty = JobFacts(key=Bench().key, name=None, version=None)
    for facts in (
        ClusterFacts(jobs=(), processes=()),
        ClusterFacts(jobs=(empty,), processes=()),
        Bench().facts(has_jobmanager_log=False),
        undated(),
    ):
        for item in results(rule, facts):
            assert isinstance(item, Finding | Inconclusive)


def undated() -> ClusterFacts:
    """Return a job from a log without timestamps."""
    job = Bench(timeout_s=10)
    job.completes(3)
    for checkpoint in job.expires(3):
        job.is_late(checkpoint, "enrich", 1)
        job.refuses(checkpoint, "enrich", 2, "java.lang.RuntimeException: no")
    for kind in ("task-failure", "taskmanager-lost", "out-of-memory", "task-stuck", "restart"):
        job.happens(
            kind, task="enrich", subtask_index=1, cause="java.lang.IllegalStateException: x"
        )
    facts = job.job()
    return job.facts(
        jobs=(
            replace(
                facts,
                first_us=None,
                last_us=None,
                settings=(),
                graph=None,
                checkpoints=tuple(
                    replace(c, triggered_us=None, ended_us=None, duration_ms=None)
                    for c in facts.checkpoints
                ),
                late=tuple(
                    replace(x, received_us=None, after_trigger_ms=None, after_expiry_ms=None)
                    for x in facts.late
                ),
                declines=tuple(replace(d, time_us=None) for d in facts.declines),
                attempts=tuple(replace(a, deployed_us=None) for a in facts.attempts),
                incidents=tuple(replace(i, time_us=None) for i in facts.incidents),
            ),
        )
    )


def test_senders_without_a_name_are_counted() -> None:
    """The published example: ten late messages 22 s after the expiry, no deployment in the log."""
    job = Bench(version="1.4.2", timeout_s=600)
    (checkpoint,) = job.expires(1)
    for number in range(10):
        late = job.is_late(checkpoint, "aggregate", number % 6, after_s=22.139 + number / 100)
        unknown = replace(
            late.attempt,
            attempt_id=f"{number:032x}",
            task=None,
            subtask_index=None,
            taskmanager=None,
            host=None,
        )
        job.late[-1] = replace(late, attempt=unknown)
    found = finding(late_acknowledgement.RULE, job.facts(jobs=(job.job(attempts=(), graph=None),)))
    assert found.title == "10 late acknowledgements of 1 checkpoint from 10 subtasks"
    assert value(found, "unknown-attempts") == 10
    assert found.explain.startswith("No record names the senders.")


def test_expiries_at_a_fixed_time_of_day() -> None:
    job = Bench(interval_s=600)
    for _ in range(5):
        job.completes(int(86_400 / 600) - 3)
        job.expires(3)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert "15 of 15 were triggered between 21:00 and 00:00 UTC, on 5 days" in found.explain


def test_the_job_has_failed_is_a_consequence_only_if_it_has() -> None:
    """Flink 1.9 prints this for every decline with its own cause, in REST and archives."""
    job = Bench(version="1.9.3")
    job.completes(10)
    job.fails("The job has failed.", count=3)
    found = finding(checkpoint_declined.RULE, job.facts())
    assert found.severity is Severity.CRITICAL
    for checkpoint in job.checkpoints[-3:]:
        job.happens("task-failure", task="enrich", subtask_index=0)
        job.incidents[-1] = replace(job.incidents[-1], time_us=checkpoint.ended_us)
    assert results(checkpoint_declined.RULE, job.facts()) == []


@pytest.mark.parametrize(
    ("good", "after", "ongoing"),
    [(4, 4, True), (4, 40, False), (60, 60, False)],
    ids=["comes back", "is over", "is rare"],
)
def test_checkpoints_that_expire_again_after_each_recovery(
    good: int, after: int, ongoing: bool
) -> None:
    job = Bench()
    for _ in range(3):
        job.completes(good)
        job.expires()
    job.completes(after)
    found = finding(checkpoint_expired.RULE, job.facts())
    assert found.state is (State.ONGOING if ongoing else State.RECOVERED)
    assert ("expire again" in found.title) is ongoing
    assert found.severity is not Severity.CRITICAL
    job.happens("finished")
    assert finding(checkpoint_expired.RULE, job.facts()).state is State.RECOVERED


def test_two_series_of_failures_do_not_yet_keep_coming_back() -> None:
    job = Bench()
    for _ in range(2):
        job.completes(3)
        job.expires()
    job.completes(2)
    assert finding(checkpoint_expired.RULE, job.facts()).state is State.RECOVERED
