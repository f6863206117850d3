"""A checkpoint that stays in progress is reported long before it expires."""

from __future__ import annotations

import pytest

from flowdiag.analyses.checkpoints.rules import (
    checkpoint_culprit,
    checkpoint_never_completes,
    slow_checkpoint,
)
from flowdiag.analyses.flink.job import ClusterFacts, SubtaskCheckpoint, SubtaskLoad
from flowdiag.analyses.model.finding import Finding, Inconclusive, Severity

from .judged import results_of
from .workbench import SECOND, Bench


def hanging(
    lasts_s: float, *, moving: bool = False, takes_s: float = 1.0, then_s: tuple[float, ...] = ()
) -> ClusterFacts:
    """Return a job whose `enrich (1/4)` has not acknowledged the checkpoint in progress.

    Args:
        lasts_s: age of the checkpoint.
        moving: whether the subtask still processes records.
        takes_s: duration of the first five checkpoints.
        then_s: durations of further checkpoints.
    """
    job = Bench(interval_s=10)
    job.completes(5, lasted_s=takes_s)
    for each_s in then_s:
        job.completes(1, lasted_s=each_s)
    (last,) = job.in_flight()
    begun = last.triggered_us or 0
    for task, index in job.everyone():
        reached = task.startswith("Source") or (task == "enrich" and index)
        job.rows.append(
            SubtaskCheckpoint(
                job=job.key,
                checkpoint=last.id,
                vertex_id=None,
                task=task,
                subtask_index=index,
                acknowledged=bool(reached),
                end_to_end_ms=100 if reached else None,
            )
        )
        hangs = (task, index) == ("enrich", 0)
        waits = task.startswith("Source") or (task == "enrich" and not hangs)
        job.loads.append(
            SubtaskLoad(
                job=job.key,
                task=task,
                subtask_index=index,
                taskmanager=job.manager_of(task, index),
                host=None,
                samples=6,
                busy=1000.0 if hangs else 0.0,
                back_pressured=1000.0 if waits else 0.0,
                records_in=100.0 if moving and not hangs else 0.0,
                records_out=0.0,
                ref=job.ref(),
                first_us=begun + 5 * SECOND,
                last_us=begun + round(lasts_s * SECOND),
            )
        )
    return job.facts()


def found(rule: object, facts: ClusterFacts) -> Finding | None:
    results = results_of(rule, facts)  # type: ignore[arg-type]
    return results[0] if results and isinstance(results[0], Finding) else None


@pytest.mark.parametrize(
    ("lasts_s", "title"),
    [
        (
            27,
            "3 of 3 checkpoints took 7.5 s or longer, up to 27 s; the interval is 10 s (configured)",
        ),
        (3, None),
        (160, None),  # CP106 reports it
    ],
)
def test_a_checkpoint_in_progress_is_slow_from_its_age(lasts_s: float, title: str | None) -> None:
    slow = found(slow_checkpoint.RULE, hanging(lasts_s, moving=True, then_s=(12, 12)))
    assert (slow.title if slow else None) == title


@pytest.mark.parametrize(("age_s", "slow"), [(42, True), (3, False)])
def test_a_checkpoint_that_a_cancellation_cuts_off_is_slow_from_its_age(
    age_s: float, slow: bool
) -> None:
    job = Bench(interval_s=10)
    job.completes(5, lasted_s=1)
    job.completes(1, lasted_s=57)
    job.completes(1, lasted_s=17)
    (last,) = job.in_flight()
    begun_s = ((last.triggered_us or 0) - job.at(0)) / SECOND
    job.happens("cancelled", begun_s + age_s)
    title = "3 of 3 checkpoints took 7.5 s or longer, up to 57 s; the interval is 10 s (configured)"
    result = found(slow_checkpoint.RULE, job.facts())
    assert (result.title if result else None) == (title if slow else None)


def test_the_time_of_the_last_tick_shows_its_age_and_the_culprit() -> None:
    facts = hanging(160)
    age = found(checkpoint_never_completes.RULE, facts)
    assert age is not None
    assert age.severity is Severity.CRITICAL
    assert age.title == ("Checkpoint 6 has been in progress for 2 min 40 s; no records move")
    who = found(checkpoint_culprit.RULE, facts)
    assert who is not None
    assert (who.severity, who.cause) == (Severity.CRITICAL, "task-hangs")
    assert who.title.startswith("enrich (1/4) blocks checkpoint 6, which has been in progress for")


def test_it_is_a_warning_while_records_move() -> None:
    age = found(checkpoint_never_completes.RULE, hanging(160, moving=True))
    assert age is not None
    assert age.severity is Severity.WARNING
    assert "no record moves" not in age.title


@pytest.mark.parametrize(("lasts_s", "takes_s"), [(50, 1), (160, 60)])
def test_a_short_or_typical_wait_is_no_finding(lasts_s: float, takes_s: float) -> None:
    assert found(checkpoint_never_completes.RULE, hanging(lasts_s, takes_s=takes_s)) is None


@pytest.mark.parametrize(
    ("rest", "lasts_s", "takes_s", "doubtful"),
    [(True, 50, 1, True), (True, 5, 1, False), (False, 0, 0.2, True), (False, 0, 5, False)],
)
def test_a_checkpoint_that_may_hang_is_inconclusive(
    rest: bool, lasts_s: float, takes_s: float, doubtful: bool
) -> None:
    """It is far older than usual, or a log ends with it although checkpoints are short."""
    if rest:
        facts = hanging(lasts_s, takes_s=takes_s)
    else:
        job = Bench(interval_s=10)
        job.completes(5, lasted_s=takes_s)
        job.in_flight()
        facts = job.facts()
    results = results_of(checkpoint_never_completes.RULE, facts)
    assert [isinstance(each, Inconclusive) for each in results] == [True] * doubtful
