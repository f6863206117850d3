"""The vote: the culprit, the signals, the confidence, and cases without a culprit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.culprit import EpisodeCulprit, culprit_of, hot_spot, late_alone
from flowdiag.analyses.checkpoints.rules import checkpoint_culprit, slow_half
from flowdiag.analyses.flink.failures.episodes import episodes, spells
from flowdiag.analyses.flink.job import Checkpoint, Status
from flowdiag.analyses.flink.suspects import NamedCulprit
from flowdiag.analyses.flink.suspects.case import Suspect
from flowdiag.analyses.flink.suspects.remedies import remedies_for
from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model.finding import (
    Confidence,
    Finding,
    Inconclusive,
    Severity,
    State,
    Subject,
)

from .judged import results_of
from .workbench import Bench

HOT = Suspect("enrich", 2)
SECOND = Suspect("aggregate", 3)


def answer_for(job: Bench, **more: Any) -> EpisodeCulprit:
    facts = job.job(**more)
    return culprit_of(facts, spells(episodes(facts), facts)[-1])


def judged(job: Bench, **more: Any) -> NamedCulprit:
    found = answer_for(job, **more).culprit
    assert found is not None
    return found


def no_culprit(job: Bench) -> bool:
    return answer_for(job).culprit is None


def signals(culprit: NamedCulprit) -> dict[str, int]:
    return {vote.signal: vote.weight for vote in culprit.votes}


def expiring_job(
    version: str = "1.20.5", count: int = 6, **more: Any
) -> tuple[Bench, list[Checkpoint]]:
    job = Bench(version=version, interval_s=3, timeout_s=8, **more)
    job.completes(6)
    return job, job.expires(count)


def downstream_late(job: Bench, checkpoint: Checkpoint, *tasks: str, after_s: float = 6.0) -> None:
    for task, index in job.everyone(*tasks):
        job.is_late(checkpoint, task, index, after_s)


# --- shapes of late messages ----------------------------------------------------------------------


def test_up_to_1_10_the_most_upstream_of_the_cascade() -> None:
    """The culprit and all downstream tasks are late; some sinks even some milliseconds before the culprit."""
    job, expired = expiring_job("1.9.3")
    for checkpoint in expired:
        downstream_late(job, checkpoint, "aggregate", "Sink: deliver", after_s=5.995)
        job.is_late(checkpoint, "enrich", 2, 6.0)
    found = judged(job)
    assert found.suspect == HOT
    assert signals(found) == {"late-acknowledgements": 2}
    assert found.half == "barrier" and found.cause is None
    assert found.confidence is Confidence.MEDIUM
    assert found.subject is not None and found.subject.taskmanager == job.manager_of("enrich", 2)


def test_one_late_subtask_alone_is_a_slow_snapshot() -> None:
    job, expired = expiring_job("1.9.3")
    for checkpoint in expired:
        job.is_late(checkpoint, "aggregate", 3, 6.0)
    found = judged(job)
    assert found.suspect == SECOND
    assert found.half == "snapshot"


def test_from_1_11_a_whole_late_vertex_names_no_culprit() -> None:
    """The culprit that delayed the barriers was notified of the abort, and sends nothing."""
    job, expired = expiring_job("1.14.6")
    for checkpoint in expired:
        for index in range(1, 6):
            job.is_late(checkpoint, "aggregate", index, 3.0)
    found = answer_for(job)
    assert found.culprit is None
    assert "task-metrics" in found.checks


def test_victims_take_turns() -> None:
    job, expired = expiring_job("1.20.5")
    for number, checkpoint in enumerate(expired):
        job.is_late(checkpoint, "enrich", number % 4, 9.0)
    assert no_culprit(job)


def test_legacy_sources_waiting_for_the_lock_are_victims() -> None:
    job, expired = expiring_job("1.12.5")
    for checkpoint in expired:
        job.is_late(checkpoint, "Source: orders", 0, 7.0)
    assert no_culprit(job)


def test_a_little_late_is_not_lagging() -> None:
    """Its siblings may have met the timeout just as narrowly."""
    job, expired = expiring_job("1.9.3")
    for checkpoint in expired:
        job.is_late(checkpoint, "Sink: deliver", 0, 0.4)
    found = answer_for(job).culprit
    assert found is None or found.suspect.kind == "task"


# --- reported acknowledgements --------------------------------------------------------------------


def test_a_subtask_missing_with_everything_downstream_is_the_culprit() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        missing = [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        job.acknowledgements(checkpoint, missing)
    found = judged(job)
    assert found.suspect == HOT
    assert found.half == "barrier"


def test_the_frontier_moves_upstream_but_the_origin_counts() -> None:
    """First one subtask and the sinks are late, then, with full queues, all upstream tasks as well."""
    job, expired = expiring_job(count=8)
    for number, checkpoint in enumerate(expired):
        missing = [("aggregate", 3), *job.everyone("Sink: deliver")]
        if number >= 2:
            missing = [*job.everyone("enrich", "aggregate", "Sink: deliver")]
        job.acknowledgements(checkpoint, missing)
    assert judged(job).suspect == SECOND


def test_a_sink_that_is_late_as_a_whole() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(checkpoint, job.everyone("Sink: deliver"))
    found = judged(job)
    assert found.suspect == Suspect("Sink: deliver")
    assert found.confidence is not Confidence.HIGH


def test_an_entirely_late_middle_vertex_is_at_most_a_hint() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(checkpoint, job.everyone("aggregate", "Sink: deliver"))
    assert judged(job).confidence is Confidence.LOW


@pytest.mark.parametrize("part", ["sync", "async"])
def test_measured_durations_are_proof(part: str) -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, special={("enrich", 2): {f"{part}_ms": 12_000, "end_to_end_ms": 12_050}}
        )
    found = judged(job)
    assert found.suspect == HOT
    assert found.cause == f"slow-{part}-snapshot"
    assert found.confidence is Confidence.HIGH
    assert signals(found)["snapshot-duration"] == 3


# --- metrics --------------------------------------------------------------------------------------


def skewed(job: Bench, task: str, index: int) -> None:
    before = {"enrich": "Source: orders", "aggregate": "enrich"}[task]
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": 0.0, "back_pressured": 900.0},
            (before, None): {"busy": 5.0, "idle": 0.0, "back_pressured": 990.0},
            (task, None): {"records_in": 50.0, "busy": 20.0},
            (task, index): {"records_in": 1500.0, "busy": 995.0, "input_queue": 30.0, "idle": 5.0},
        },
        input_queue=1.0,
    )


def test_data_skew_by_all_signals() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.is_late(checkpoint, "enrich", 2)
        downstream_late(job, checkpoint, "aggregate", "Sink: deliver")
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    skewed(job, "enrich", 2)
    found = judged(job)
    assert (found.suspect, found.cause, found.confidence) == (HOT, "data-skew", Confidence.HIGH)
    assert signals(found) == {
        "late-acknowledgements": 2,
        "subtask-acknowledgements": 2,
        "end-of-back-pressure": 2,
        "busiest-subtask": 1,
        "records-in": 1,
        "input-queue": 1,
    }
    assert found.why is not None
    assert found.why.startswith("enrich (3/4) on tm-2 @ host-tm-2: 30.0 times the records")


def test_back_pressure_is_followed_past_a_busy_decoy() -> None:
    """enrich (1/4) is busy, but its siblings wait: the back pressure comes from further downstream."""
    job, _ = expiring_job()
    skewed(job, "aggregate", 3)
    decoy = replace(job.loads[2], busy=780.0, back_pressured=190.0)
    assert (decoy.task, decoy.subtask_index) == ("enrich", 0)
    job.loads[2] = decoy
    found = judged(job)
    assert found.suspect == SECOND
    assert found.cause == "data-skew"


def test_a_harmless_busy_subtask_is_not_named_with_confidence() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    job.loaded({("aggregate", 0): {"busy": 800.0, "idle": 200.0}})
    found = judged(job)
    assert found.suspect == HOT
    assert found.confidence is not Confidence.HIGH


def test_slow_sink_is_a_task() -> None:
    job, expired = expiring_job()
    job.acknowledgements(expired[0], job.everyone("Sink: deliver"))
    job.loaded(
        {
            ("aggregate", None): {"busy": 1.0, "back_pressured": 900.0},
            ("Sink: deliver", None): {"busy": 900.0, "idle": 100.0},
        }
    )
    found = judged(job)
    assert found.suspect == Suspect("Sink: deliver")
    assert (found.cause, found.subject and found.subject.kind) == ("slow-operator", "task")


def test_a_busy_sink_with_an_unknown_sibling_is_no_hot_subtask() -> None:
    """Without one TaskManager's log, half of a slow task looks like one hot subtask."""
    job, expired = expiring_job()
    job.acknowledgements(expired[0], job.everyone("Sink: deliver"))
    job.loaded(
        {
            ("aggregate", None): {"busy": 1.0, "back_pressured": 900.0},
            ("Sink: deliver", None): {"busy": 900.0, "idle": 100.0},
        }
    )
    job.loads = [
        load for load in job.loads if (load.task, load.subtask_index) != ("Sink: deliver", 1)
    ]
    found = answer_for(job).culprit
    assert found is None or (
        found.suspect != Suspect("Sink: deliver", 0) or found.confidence is Confidence.LOW
    )


def test_slow_machine_by_time_per_record() -> None:
    job, expired = expiring_job()
    slow = job.on("tm-2")
    inner = [who for who in slow if not who[0].startswith("Source")]
    for checkpoint in expired:
        for task, index in inner:
            job.is_late(checkpoint, task, index)
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "back_pressured": 800.0},
            **{who: {"busy": 800.0, "records_in": 900.0} for who in inner},
        },
        busy=10.0,
    )
    found = judged(job)
    assert found.suspect == Suspect(taskmanager="tm-2")
    assert found.cause == "slow-taskmanager"
    assert found.subject is not None and found.subject.host == "host-tm-2"


def test_hang_is_busy_without_records() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "back_pressured": 1000.0},
            ("enrich", 2): {"busy": 1000.0, "records_in": 0.0},
        },
        records_in=0.0,
        busy=1.0,
    )
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, "task-hangs")


@pytest.mark.parametrize(
    ("busy", "cause"), [(850.0, "slow-sync-snapshot"), (3.0, "slow-async-snapshot")]
)
def test_busy_time_distinguishes_the_parts_of_a_snapshot(busy: float, cause: str) -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.is_late(checkpoint, "enrich", 2, 6.0)
        job.acknowledgements(checkpoint, [("enrich", 2)])
    job.loaded({("enrich", 2): {"busy": busy, "idle": 1000 - busy}}, busy=4.0)
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, cause)


@pytest.mark.parametrize(
    ("queue", "cause"), [(12.0, "slow-sync-snapshot"), (2.0, "slow-async-snapshot")]
)
def test_before_1_11_queues_distinguish_the_parts_of_a_snapshot(queue: float, cause: str) -> None:
    job, expired = expiring_job("1.10.3")
    for checkpoint in expired:
        job.is_late(checkpoint, "enrich", 2, 6.0)
        job.acknowledgements(checkpoint, [("enrich", 2)])
    job.loaded(
        {("enrich", 2): {"input_queue": queue}},
        busy=None,
        idle=None,
        back_pressured=None,
        is_back_pressured=0.0,
        in_pool_usage=0.1,
        input_queue=2.0,
    )
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, cause)


def test_cut_off_asynchronous_part() -> None:
    job, expired = expiring_job("1.18.1")
    for checkpoint in expired:
        job.incidents.append(
            replace(
                job.happens(
                    "async-failure",
                    task="enrich",
                    subtask_index=2,
                    checkpoint=checkpoint.id,
                    cause="java.util.concurrent.CancellationException",
                ),
                time_us=checkpoint.ended_us,
            )
        )
        job.incidents.pop(-2)
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, "slow-async-snapshot")


def test_abort_notifications_alone_name_no_taskmanager() -> None:
    job, expired = expiring_job("1.18.1")
    for checkpoint in expired[:3]:
        job.happens(
            "abort-notified",
            checkpoint=checkpoint.id,
            taskmanager=job.manager_of("enrich", 2),
        )
    assert no_culprit(job)
    for checkpoint in expired:
        job.is_late(checkpoint, "enrich", 2, 9.0)
    found = judged(job)
    assert found.suspect == HOT
    assert signals(found) == {"late-acknowledgements": 2, "abort-notifications": 1}


def test_stuck_stack_is_proof() -> None:
    job, _ = expiring_job()
    job.happens(
        "task-stuck",
        task="enrich",
        subtask_index=2,
        cause="java.base/java.net.SocketInputStream.socketRead0(Native Method)",
    )
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, "task-hangs")


# --- disagreement, silence --------------------------------------------------------------------------


def test_disagreement_lowers_the_confidence() -> None:
    job, expired = expiring_job("1.9.3")
    for checkpoint in expired:
        job.is_late(checkpoint, "enrich", 0, 6.0)
        downstream_late(job, checkpoint, "aggregate", "Sink: deliver")
    job.loaded(
        {
            ("enrich", None): {"busy": 5.0, "back_pressured": 990.0},
            ("enrich", 0): {"busy": 5.0, "back_pressured": 10.0},
            ("aggregate", 3): {"busy": 990.0, "records_in": 9000.0},
        }
    )
    found = judged(job)
    assert found.suspect == SECOND
    assert found.confidence is not Confidence.HIGH
    assert min(vote.weight for vote in found.votes) < 0


def test_without_a_signal_there_is_no_culprit() -> None:
    job, _ = expiring_job()
    found = answer_for(job)
    assert found.culprit is None
    assert found.missing and found.checks


def test_a_tie_names_no_culprit() -> None:
    job, expired = expiring_job()
    job.acknowledgements(expired[0], [("enrich", 0), ("enrich", 1)])
    assert no_culprit(job)


def test_hints_alone_never_give_high_confidence() -> None:
    job, expired = expiring_job(count=1)
    checkpoint = expired[0]
    job.is_late(checkpoint, "enrich", 2, 9.0)
    job.acknowledgements(checkpoint, [("enrich", 2)])
    job.loaded({("enrich", 2): {"busy": 900.0, "idle": 100.0}}, busy=2.0)
    found = judged(job)
    assert found.suspect == HOT
    assert found.confidence is not Confidence.HIGH


def test_names_cut_off_by_metrics_are_joined() -> None:
    long = "Window(" + "TumblingEventTimeWindows(60000), " * 5 + ")"
    job, expired = expiring_job(tasks=(("Source: orders", 2), (long, 4), ("Sink: out", 2)))
    for checkpoint in expired:
        job.acknowledgements(checkpoint, [(long, 2), *job.everyone("Sink: out")])
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "back_pressured": 900.0},
            (long, 2): {"busy": 990.0, "records_in": 9000.0},
        }
    )
    job.loads = [replace(load, task=load.task[:80]) for load in job.loads]
    found = judged(job)
    assert found.suspect == Suspect(long, 2)
    assert found.cause == "data-skew"


def test_without_a_graph_sources_come_first() -> None:
    job, expired = expiring_job(with_graph=False)
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    assert judged(job).suspect == HOT


# --- the rules ------------------------------------------------------------------------------------


def test_rule_names_culprit_cause_and_votes() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    skewed(job, "enrich", 2)
    (found,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(found, Finding)
    assert (found.severity, found.state) == (Severity.CRITICAL, State.ONGOING)
    assert (found.cause, found.confidence) == ("data-skew", Confidence.HIGH)
    assert found.subject.subtask_index == 2
    assert found.title == "enrich (3/4) delayed 6 checkpoints (data-skew)"
    assert found.evidence and found.actions[0].text.startswith("Find the hot key")
    assert {vote.signal for vote in found.votes} <= {signal.name for signal in SIGNALS}
    (half,) = results_of(slow_half.RULE, job.facts())
    assert isinstance(half, Finding) and "waiting for barriers" in half.title


def test_rule_is_inconclusive_with_a_remedy() -> None:
    job, _ = expiring_job()
    (answer,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(answer, Inconclusive)
    assert answer.job == job.key and answer.checks


def test_failures_with_few_successes_between_are_one_spell() -> None:
    job = Bench(interval_s=3, timeout_s=8)
    for _ in range(5):
        job.completes(2)
        for checkpoint in job.expires(1):
            job.acknowledgements(
                checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
            )
    (found,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(found, Finding)
    assert found.count == 5


def test_hot_subtask_is_a_warning_although_all_checkpoints_complete() -> None:
    job = Bench()
    job.completes(30)
    skewed(job, "enrich", 2)
    found = hot_spot(job.job())
    assert found is not None and found.culprit is not None
    assert found.culprit.suspect == HOT
    (result,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(result, Finding)
    assert (result.severity, result.state, result.cause) == (
        Severity.WARNING,
        State.ONGOING,
        "data-skew",
    )


@pytest.mark.parametrize("siblings", [250.0, 350.0])
def test_a_less_busy_subtask_is_not_the_culprit(siblings: float) -> None:
    """The order of the tasks is unknown. The busy decoy has idle siblings, and the siblings of the
    hot subtask do some work."""
    job, _ = expiring_job()
    job.with_graph = False
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "back_pressured": 350.0},
            ("enrich", None): {"busy": siblings},
            ("enrich", 2): {"busy": 920.0, "records_in": 3000.0},
            ("aggregate", None): {"busy": 2.0},
            ("aggregate", 0): {"busy": 730.0},
        }
    )
    facts = job.job(attempts=())
    found = culprit_of(facts, spells(episodes(facts), facts)[-1]).culprit
    assert found is None or found.suspect == Suspect("enrich", 2)


def test_healthy_loads_are_not_a_hot_spot() -> None:
    job = Bench()
    job.completes(30)
    job.loaded({("aggregate", 0): {"busy": 700.0, "records_in": 2500.0}})
    assert hot_spot(job.job()) is None
    assert list(results_of(checkpoint_culprit.RULE, job.facts())) == []


def test_the_warning_about_delayed_barriers_selects_the_part_of_a_snapshot() -> None:
    job, expired = expiring_job()
    job.happens("barrier-delayed", checkpoint=expired[2].id, duration_ms=41_000)
    (half,) = results_of(slow_half.RULE, job.facts())
    assert isinstance(half, Finding)
    assert half.title == "Tasks began a checkpoint up to 41 s after its barriers arrived"


def test_a_hang_and_a_slow_subtask_look_alike_in_totals() -> None:
    job, expired = expiring_job()
    for checkpoint in expired:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": None, "back_pressured": 900.0},
            ("enrich", 2): {"busy": 850.0, "records_in": 300.0},
        }
    )
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, "slow-subtask")
    job.loads = [replace(load, samples=0) for load in job.loads]
    found = judged(job)
    assert (found.suspect, found.cause) == (HOT, None)


def test_back_pressure_that_ends_at_unmonitored_tasks_is_not_healthy() -> None:
    job = Bench()
    job.completes(30)
    skewed(job, "enrich", 2)
    job.loads = [load for load in job.loads if load.taskmanager != job.manager_of("enrich", 2)]
    (answer,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(answer, Inconclusive)
    assert answer.checks == ("other-taskmanager-logs", "longer-metrics")


# --- sources --------------------------------------------------------------------------------------


def late_source(count: int = 4, **idle: Any) -> Bench:
    """Return late messages: of a source first, then of all downstream tasks in one burst."""
    job, expired = expiring_job("1.14.6", count=count)
    for checkpoint in expired:
        job.is_late(checkpoint, "Source: orders", 1, 7.0)
        downstream_late(job, checkpoint, "enrich", "aggregate", "Sink: deliver", after_s=7.05)
    job.loaded(**({"busy": 20.0, "idle": 980.0} | idle))
    return job


def test_a_source_that_all_others_wait_for_holds_the_lock() -> None:
    found = judged(late_source())
    assert (found.suspect, found.cause) == (Suspect("Source: orders", 1), "checkpoint-lock-held")
    assert found.confidence is not Confidence.LOW
    assert signals(found)["first-source"] == 2


def test_a_source_behind_back_pressure_is_a_victim() -> None:
    pressed = late_source()
    pressed.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": 0.0, "back_pressured": 900.0},
            ("enrich", 2): {"busy": 995.0, "idle": 5.0},
        }
    )
    found = answer_for(pressed).culprit
    assert found is None or found.suspect.task != "Source: orders"


def test_without_metrics_a_late_source_may_wait_for_others() -> None:
    unknown = late_source()
    unknown.loads.clear()
    assert no_culprit(unknown)


def test_a_single_late_message_of_a_source_is_ignored() -> None:
    assert no_culprit(late_source(count=1))


# --- TaskManagers of which there are no metrics ---------------------------------------------------


def hot_by_metrics_alone(missing: str | None = None) -> Bench:
    """Return a job whose metrics show that enrich (3/4) is busy. One TaskManager may have no metrics."""
    job, expired = expiring_job()
    for checkpoint in expired if missing is not None else ():
        job.acknowledgements(checkpoint, missing=job.on(missing or ""))
    job.loaded(
        {
            ("Source: orders", None): {"busy": 50.0, "back_pressured": 900.0},
            ("enrich", 2): {"busy": 990.0},
        }
    )
    return job


def unseen(job: Bench, manager: str) -> Bench:
    job.loads[:] = [load for load in job.loads if load.taskmanager != manager]
    return job


def test_metrics_of_only_some_taskmanagers_lower_the_confidence() -> None:
    whole = judged(hot_by_metrics_alone())
    other = next(
        name for name in ("tm-1", "tm-2", "tm-3") if name != Bench().manager_of("enrich", 2)
    )
    part = judged(unseen(hot_by_metrics_alone(), other))
    assert whole.suspect == part.suspect == HOT
    assert "unmonitored-taskmanagers" not in signals(whole)
    assert signals(part)["unmonitored-taskmanagers"] == -1
    assert sum(signals(part).values()) < sum(signals(whole).values())
    assert part.confidence is not Confidence.HIGH


def test_measured_subtasks_are_not_blamed_for_unmeasured_ones() -> None:
    """All missing acknowledgements are from TaskManagers without metrics: busy subtasks elsewhere were on time."""
    other = next(
        name for name in ("tm-1", "tm-2", "tm-3") if name != Bench().manager_of("enrich", 2)
    )
    assert no_culprit(unseen(hot_by_metrics_alone(missing=other), other))


# --- consoles without INFO lines: no triggers, no expiries ----------------------------------------


def console(*late: tuple[int, str, int]) -> Bench:
    """Return a job known only from its late messages, each given as (checkpoint, task, index)."""
    job = Bench(version=None)
    for number, task, index in late:
        job.is_late(replace(job.expires(1)[0], id=number, status=Status.IN_FLIGHT), task, index)
    job.checkpoints.clear()
    job.late[:] = [replace(item, after_trigger_ms=None, after_expiry_ms=None) for item in job.late]
    return job


def test_the_only_late_subtask_of_several_checkpoints_has_low_confidence() -> None:
    job = console(
        (7, "enrich", 2), (8, "enrich", 2), (9, "enrich", 2), (9, "aggregate", 1), (11, "enrich", 2)
    )
    (finding,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(finding, Finding)
    assert finding.subject.subtask_index == 2
    assert finding.confidence is Confidence.LOW
    assert finding.count == 3


@pytest.mark.parametrize(
    "late",
    [
        [(7, "enrich", 2), (8, "enrich", 2)],  # by chance
        [(n, "aggregate", index) for n in range(7, 12) for index in (0, 1)],  # a cascade
        [(n, "Source: orders", 0) for n in range(7, 12)],  # it may wait for the checkpoint lock
        [(n, "enrich", 2) for n in (1, 2, 3)] + [(n, "enrich", i) for n in (4, 5, 6, 7) for i in (0, 1)],
    ],
)  # fmt: skip
def test_otherwise_late_messages_alone_name_no_culprit(late: list[tuple[int, str, int]]) -> None:
    job = console(*late)
    assert late_alone(job.job()) is None
    (result,) = results_of(checkpoint_culprit.RULE, job.facts())
    assert isinstance(result, Inconclusive)


# --- checkpoints that complete ----------------------------------------------------------------------


def slow_start(hot: tuple[str, int], *, records: float = 9000.0) -> Bench:
    """Return a start in which all checkpoints wait for one subtask, and for everything downstream of it."""
    job = Bench(interval_s=5)
    for lasted_s in (6, 12, 24, 23):
        (checkpoint,) = job.completes(1, lasted_s=lasted_s)
        behind = job.everyone("aggregate", "Sink: deliver")
        times = {who: {"end_to_end_ms": lasted_s * 1000} for who in [hot, *behind]}
        job.acknowledgements(checkpoint, special=times)
    job.loaded({hot: {"busy": 900.0, "records_in": records}})
    return job


def test_slow_checkpoints_name_the_hot_subtask_that_they_wait_for() -> None:
    (found,) = results_of(checkpoint_culprit.RULE, slow_start(("enrich", 2)).facts())
    assert isinstance(found, Finding)
    assert (found.cause, found.severity, found.state) == (
        "data-skew",
        Severity.WARNING,
        State.ONGOING,
    )
    assert (found.subject.task, found.subject.subtask_index) == ("enrich", 2)
    assert "delays checkpoints, which take up to 24 s" in found.title


def test_slow_checkpoints_name_no_culprit_without_a_reason() -> None:
    even = slow_start(("enrich", 2), records=1000.0)
    assert not [
        f for f in results_of(checkpoint_culprit.RULE, even.facts()) if isinstance(f, Finding)
    ]
    fast = slow_start(("enrich", 2))
    fast.completes(4)
    assert not [
        f for f in results_of(checkpoint_culprit.RULE, fast.facts()) if isinstance(f, Finding)
    ]


@pytest.mark.parametrize(
    ("index", "manager", "text"),
    [
        (None, None, "Compare the subtasks of the task with each other"),
        (2, "tm-3", "Compare the subtask with its siblings"),
    ],
)
def test_the_advice_names_only_known_taskmanagers(
    index: int | None, manager: str | None, text: str
) -> None:
    kind = "task" if index is None else "subtask"
    subject = Subject(kind=kind, task="enrich", subtask_index=index, taskmanager=manager)
    found = NamedCulprit(suspect=Suspect(task="enrich"), subject=subject, why="late")
    advice = remedies_for(Bench().job(), found)[0].text
    assert advice.startswith(text)
    assert ("tm-3" in advice) is (manager is not None) and "unknown" not in advice
