"""Culprits over time: they move, recover, return, and several act at the same time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.culprit import earlier_sibling_text, episode_culprits
from flowdiag.analyses.checkpoints.data import checkpoint_data
from flowdiag.analyses.checkpoints.rules import RULES, checkpoint_culprit
from flowdiag.analyses.flink.job import Checkpoint, JobFacts
from flowdiag.analyses.flink.suspects.case import Suspect
from flowdiag.analyses.model.finding import Confidence, Finding, Severity, State, Subject
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.verdicts import judge

from .judged import outcomes_of, results_of
from .workbench import SECOND, T0, Bench

FIRST, THEN = ("enrich", 2), ("aggregate", 3)
BEFORE = {"enrich": "Source: orders", "aggregate": "enrich"}
AFTER = {"enrich": ("aggregate", "Sink: deliver"), "aggregate": ("Sink: deliver",)}


def stuck(job: Bench, checkpoints: list[Checkpoint], who: tuple[str, int]) -> None:
    """Make a subtask and everything downstream acknowledge none of some checkpoints."""
    for checkpoint in checkpoints:
        job.acknowledgements(checkpoint, [who, *job.everyone(*AFTER[who[0]])])


def hot(job: Bench, checkpoints: list[Checkpoint], who: tuple[str, int], samples: int = 6) -> None:
    """Add metrics that show a hot key in one subtask during some checkpoints."""
    task, _ = who
    known = list(job.loads)
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": 0.0, "back_pressured": 900.0},
            (BEFORE[task], None): {"busy": 5.0, "idle": 0.0, "back_pressured": 990.0},
            (task, None): {"records_in": 50.0, "busy": 20.0},
            who: {"records_in": 1500.0, "busy": 995.0, "input_queue": 30.0, "idle": 5.0},
        },
        input_queue=1.0,
    )
    span: dict[str, Any] = {
        "samples": samples,
        "first_us": checkpoints[0].triggered_us,
        "last_us": checkpoints[-1].ended_us,
    }
    job.loads[:] = known + [replace(load, **span) for load in job.loads]


def named(facts: JobFacts) -> list[tuple[Any, Any, int, int, State]]:
    return [
        (
            answer.culprit.suspect if answer.culprit else None,
            answer.culprit.cause if answer.culprit else None,
            answer.episode.checkpoints[0].id,
            answer.episode.checkpoints[-1].id,
            answer.episode.state,
        )
        for answer in episode_culprits(facts)
    ]


def findings(job: Bench) -> list[Finding]:
    results = results_of(checkpoint_culprit.RULE, job.facts())
    return [item for item in results if isinstance(item, Finding)]


def moved(first: int = 6, then: int = 6) -> Bench:
    """Return a series of expired checkpoints, delayed first by one subtask and then by another."""
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    before = job.expires(first)
    after = job.expires(then)
    for checkpoints, who in ((before, FIRST), (after, THEN)):
        stuck(job, checkpoints, who)
        hot(job, checkpoints, who)
    return job


@pytest.mark.parametrize(("first", "then"), [(6, 6), (3, 9), (10, 4), (40, 23), (2, 2)])
def test_a_culprit_that_moves_is_named_for_its_own_time(first: int, then: int) -> None:
    job = moved(first, then)
    assert named(job.job()) == [
        (Suspect(*FIRST), "data-skew", 6, 5 + first, State.RECOVERED),
        (Suspect(*THEN), "data-skew", 6 + first, 5 + first + then, State.ONGOING),
    ]


def test_the_report_shows_the_time_of_each_culprit_and_its_successor() -> None:
    one, other = findings(moved())
    assert (one.state, other.state) == (State.RECOVERED, State.ONGOING)
    assert (one.severity, other.severity) == (Severity.WARNING, Severity.CRITICAL)
    assert one.title == ("enrich (3/4) delayed 6 checkpoints, then aggregate (4/6) did (data-skew)")
    assert "It delayed checkpoints 6 to 11, 22:15:50 to 22:21:50 UTC." in one.explain
    assert "After it, aggregate (4/6) delayed checkpoints." in one.explain
    assert "Before it, enrich (3/4) delayed checkpoints." in other.explain
    assert one.last_us == other.first_us == T0 + 510 * SECOND


def test_the_current_culprit_comes_first_and_both_are_in_the_data() -> None:
    facts = moved().facts()
    outcomes = outcomes_of(RULES, facts)
    culprits = judge(outcomes).culprits
    assert [(c.subject.task, c.state) for c in culprits] == [
        ("aggregate", State.ONGOING),
        ("enrich", State.RECOVERED),
    ]
    (job,) = checkpoint_data(facts, outcomes)
    assert [
        (e.first_checkpoint, e.last_checkpoint, e.subject and e.subject.task, e.cause, e.state)
        for e in job.episodes
    ] == [
        (6, 11, "enrich", "data-skew", State.RECOVERED),
        (12, 17, "aggregate", "data-skew", State.ONGOING),
    ]


def test_each_culprit_is_named_for_its_own_stage_despite_overlap() -> None:
    """The queue of the first culprit is not empty when the second gets a hot key: the checkpoints in between point to both."""
    one, other = ("aggregate", 0), ("aggregate", 3)
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    before, between, after = job.expires(8), job.expires(4), job.expires(3)
    hot(job, before, one, samples=12)
    known = list(job.loads)
    job.loads.clear()
    hot(job, between, one, samples=12)
    # As recorded in 1.20.5/moving-hot-key-overlap.
    results: dict[Any, dict[str, Any]] = {
        one: {"busy": 630.0, "idle": 370.0, "records_in": 344.0, "input_queue": 9.0},
        other: {"busy": 430.0, "idle": 527.0, "records_in": 2789.0, "input_queue": 28.0},
    }
    known += [
        replace(load, **results.get((load.task, load.subtask_index), {})) for load in job.loads
    ]
    job.loads.clear()
    hot(job, after, other, samples=2)
    job.loads[:] = known + job.loads
    stuck(job, after, other)
    first, then = named(job.job())
    assert (first[0], first[2], first[4]) == (Suspect(*one), 6, State.RECOVERED)
    assert (then[0], then[3], then[4]) == (Suspect(*other), 20, State.ONGOING)
    assert 13 <= first[3] < then[2] <= 18


def test_a_single_culprit_is_not_split() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    expired = job.expires(20)
    stuck(job, expired, FIRST)
    for place in range(0, 20, 4):
        hot(job, expired[place : place + 4], FIRST)
    assert named(job.job()) == [(Suspect(*FIRST), "data-skew", 6, 25, State.ONGOING)]


def test_single_checkpoints_with_another_culprit_are_not_a_move() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    expired = job.expires(12)
    hot(job, expired, FIRST)
    for number, checkpoint in enumerate(expired):
        stuck(job, [checkpoint], THEN if number == 5 else FIRST)
    assert [(who, cause) for who, cause, *_ in named(job.job())] == [(Suspect(*FIRST), "data-skew")]


def test_old_metrics_name_no_culprit() -> None:
    """The metrics show an old hot key; only the acknowledgements show the current culprit."""
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    before = job.expires(4)
    stuck(job, before, FIRST)
    hot(job, before, FIRST)
    job.completes(20)
    stuck(job, job.expires(4), THEN)
    assert [(who, cause) for who, cause, *_ in named(job.job())] == [
        (Suspect(*FIRST), "data-skew"),
        (Suspect(*THEN), None),
    ]


def test_a_returning_culprit_is_one_finding_with_both_times() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    for _ in range(2):
        job.completes(6)
        expired = job.expires(4)
        stuck(job, expired, FIRST)
        hot(job, expired, FIRST)
    job.completes(6)
    (found,) = findings(job)
    assert (found.state, found.count) == (State.RECOVERED, 8)
    assert "checkpoints 7 to 10, " in found.explain and "checkpoints 17 to 20, " in found.explain
    assert "The episode is over: checkpoint 21 completed." in found.explain


def test_a_culprit_remains_after_its_taskmanager_died() -> None:
    """The subtask continues on another TaskManager, and so do its metrics."""
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    before = job.expires(4)
    stuck(job, before, FIRST)
    hot(job, before, FIRST, samples=60)
    job.happens("task-failure", task="aggregate", subtask_index=0, cause="lost")
    restarted = job.now_s
    job.happens("job-running")
    after = job.expires(4)
    stuck(job, after, FIRST)
    known = list(job.loads)
    job.loads.clear()
    hot(job, after, FIRST, samples=6)
    elsewhere: dict[str, Any] = {"taskmanager": "tm-9", "host": "host-tm-9"}
    job.loads[:] = known + [
        replace(load, **elsewhere) if (load.task, load.subtask_index) == FIRST else load
        for load in job.loads
    ]
    attempts = [
        *(job.attempt(*who) for who in job.everyone()),
        replace(job.attempt(*FIRST, number=1), deployed_us=job.at(restarted), **elsewhere),
    ]
    more: dict[str, Any] = {"attempts": tuple(attempts)}
    (answer,) = episode_culprits(job.job(**more))
    assert answer.culprit is not None
    assert answer.culprit.suspect == Suspect(*FIRST)
    assert answer.culprit.subject.taskmanager == "tm-9"


def test_a_weak_vote_does_not_outrank_a_proven_culprit() -> None:
    """Two jobs of a session cluster: one has a hot key and recovers at times, the other fails without a known culprit."""
    proven = moved(4, 4)
    proven.completes(1)
    stuck(proven, proven.expires(1), THEN)
    weak = Bench(interval_s=30, timeout_s=60, key=JobKey("", "b" * 32))
    weak.completes(5)
    (first, *_) = weak.expires(6)
    weak.acknowledgements(first, weak.everyone("aggregate", "Sink: deliver"))
    facts = proven.facts(jobs=(weak.job(), proven.job()))
    outcomes = outcomes_of(RULES, facts)
    culprits = judge(outcomes).culprits
    assert {c.subject.job_id for c in culprits} == {"a" * 32, "b" * 32}
    assert (culprits[0].subject.job_id, culprits[0].subject.task) == ("a" * 32, "aggregate")
    alone = judge(outcomes, weak.key).culprits
    assert [c.confidence for c in alone] == [Confidence.LOW]


def test_a_hot_key_and_a_failing_snapshot_are_both_named() -> None:
    """One subtask declines every other checkpoint, and another makes the rest expire."""
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    expired = []
    for _ in range(4):
        (declined,) = job.declined()
        job.refuses(declined, "enrich", 2, "java.io.IOException: cannot encode amount")
        expired += job.expires()
    expired += job.expires(4)
    stuck(job, expired, THEN)
    hot(job, expired, THEN)
    outcomes = outcomes_of(RULES, job.facts())
    assert {
        (c.code, c.subject.task, c.subject.subtask_index) for c in judge(outcomes).culprits
    } == {
        ("CP301", "enrich", 2),
        ("CP201", "aggregate", 3),
    }
    (job_data,) = checkpoint_data(job.facts(), outcomes)
    assert [(e.first_checkpoint, e.expired) for e in job_data.episodes] == [(6, 8)]


@pytest.mark.parametrize("lasted_s", [0.5, 0.8, 0.97])
def test_checkpoints_that_take_most_of_a_short_interval_are_healthy(lasted_s: float) -> None:
    job = Bench(interval_s=1.0, timeout_s=60)
    job.completes(200, lasted_s=lasted_s)
    found = judge(outcomes_of(RULES, job.facts()))
    assert (found.verdict, found.culprits) == ("healthy", ())


def test_a_planned_rescale_is_healthy() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(10)
    job.aborted("Checkpoint Coordinator is suspending.")
    job.happens("rescaled")
    job.happens("job-restarting")
    job.happens("restored")
    job.happens("job-running")
    job.completes(10, lasted_s=6)
    found = judge(outcomes_of(RULES, job.facts()))
    assert (found.verdict, found.culprits) == ("healthy", ())


def test_two_subtasks_with_the_same_problem_are_both_named() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    failed = job.expires(6)
    both = [("aggregate", 1), ("aggregate", 5)]
    for checkpoint in failed:
        job.acknowledgements(checkpoint, [*both, *job.everyone("Sink: deliver")])
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": 0.0, "back_pressured": 100.0},
            ("enrich", None): {"busy": 5.0, "idle": 0.0, "back_pressured": 300.0},
            ("aggregate", None): {"records_in": 50.0, "busy": 20.0},
            **{who: {"records_in": 1500.0, "busy": 995.0, "idle": 5.0} for who in both},
        },
        input_queue=1.0,
    )

    (found,) = findings(job)

    assert found.cause == "data-skew"
    assert "(2/6)" in found.title and "(6/6)" in found.title


def test_a_completing_job_reports_the_sibling_that_was_busy_before() -> None:
    """The latest numbers decide; over all samples, two subtasks were each busy for part of the time."""
    job = Bench()
    job.completes(6)
    hot(job, job.checkpoints, ("enrich", 3))
    whole = [load for load in job.loads if load.task == "enrich"]
    busy = {1: 550.0, 3: 600.0}
    job.loads[:] = [
        *(replace(load, samples=1) for load in job.loads),
        *(replace(load, busy=busy.get(load.subtask_index or 0, 150.0)) for load in whole),
    ]
    recent = earlier_sibling_text(job.job(), _convicted(3))
    assert "Over all samples, it was busy 60% of the time, enrich (2/4) 55%" in str(recent)
    job.loads[-4:] = [replace(load, busy=None) for load in whole]
    assert earlier_sibling_text(job.job(), _convicted(3)) is None


def _convicted(index: int) -> Any:
    subject = Subject(kind="subtask", task="enrich", subtask_index=index, parallelism=4)
    return SimpleNamespace(subject=subject)


@pytest.mark.parametrize(("taskmanager", "sure"), [("elsewhere", False), (None, True)])
def test_a_late_subtask_is_a_hint_while_another_taskmanager_is_lost(
    taskmanager: str | None, sure: bool
) -> None:
    """Until heartbeats time out, tasks that wait for a dead process look late themselves."""
    job = Bench(interval_s=5, timeout_s=10)
    job.completes(5)
    sick = job.expires(2)
    stuck(job, sick, FIRST)
    hot(job, sick, FIRST)
    if taskmanager is not None:
        job.happens("taskmanager-lost", taskmanager=taskmanager)
    (finding,) = findings(job)
    assert (finding.confidence is not Confidence.LOW) is sure
