"""A TaskManager that pauses to collect garbage is reported as such, with the numbers."""

from __future__ import annotations

from dataclasses import replace

from flowdiag.analyses.checkpoints.culprit import episode_culprits
from flowdiag.analyses.checkpoints.rules import checkpoint_culprit
from flowdiag.analyses.flink.job import Garbage
from flowdiag.analyses.flink.suspects import NamedCulprit
from flowdiag.analyses.flink.suspects.case import Suspect
from flowdiag.analyses.model.finding import Confidence, Finding, Severity

from .judged import results_of
from .queues_workbench import MINUTE, Queues, judged
from .workbench import SECOND, Bench


def expiring_job() -> Bench:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    job.expires(6)
    return job


def collecting(job: Bench, **shares: float) -> tuple[Garbage, ...]:
    """Return the garbage collection of each TaskManager while checkpoints failed."""
    first = job.checkpoints[5].triggered_us or 0
    return tuple(
        Garbage(
            taskmanager=name.replace("_", "-"),
            host=None,
            gc_ms=share * 60_000,
            span_ms=60_000,
            samples=6,
            first_us=first + minute * 60 * SECOND,
            last_us=first + (minute + 1) * 60 * SECOND,
            ref=job.ref(),
        )
        for name, share in shares.items()
        for minute in range(3)
    )


def found_culprit(job: Bench, garbage: tuple[Garbage, ...]) -> NamedCulprit | None:
    (answer,) = episode_culprits(job.job(garbage=garbage))
    return answer.culprit


def slow(job: Bench, manager: str) -> None:
    """Return a job in which one TaskManager takes many times as long for every record, and other tasks wait for it."""
    here = [who for who in job.on(manager) if not who[0].startswith("Source")]
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "back_pressured": 800.0},
            **{who: {"busy": 800.0, "records_in": 900.0} for who in here},
        },
        busy=10.0,
    )


def test_garbage_collection_on_a_slow_host_is_a_finding() -> None:
    job = expiring_job()
    slow(job, "tm-2")
    found = found_culprit(job, collecting(job, tm_1=0.02, tm_2=0.7, tm_3=0.03))
    assert found is not None
    assert (found.suspect, found.cause) == (Suspect(taskmanager="tm-2"), "garbage-collection")
    assert found.numbers["gc-share"] == 0.7
    assert found.confidence is Confidence.HIGH
    assert "70% of its time collecting garbage" in found.why


def test_collector_times_alone_are_an_indication() -> None:
    job = expiring_job()
    found = found_culprit(job, collecting(job, tm_1=0.02, tm_2=0.7, tm_3=0.03))
    assert found is not None
    assert (found.suspect.taskmanager, found.confidence) == ("tm-2", Confidence.MEDIUM)


def test_equal_garbage_collection_everywhere_names_no_taskmanager() -> None:
    job = expiring_job()
    assert found_culprit(job, collecting(job, tm_1=0.5, tm_2=0.6, tm_3=0.55)) is None


def test_garbage_collection_at_another_time_does_not_count() -> None:
    job = expiring_job()
    before = tuple(
        replace(item, first_us=item.first_us - 3600 * SECOND, last_us=item.last_us - 3600 * SECOND)
        for item in collecting(job, tm_1=0.02, tm_2=0.7)
    )
    assert found_culprit(job, before) is None


def test_checkpoints_that_are_slow_and_complete_have_a_culprit() -> None:
    job = Bench(interval_s=3, timeout_s=60)
    job.completes(5)
    job.completes(20, lasted_s=5)
    spent = collecting(job, tm_1=0.02, tm_2=0.7, tm_3=0.03)
    (found,) = results_of(checkpoint_culprit.RULE, job.facts(jobs=(job.job(garbage=spent),)))
    assert isinstance(found, Finding)
    assert (found.subject.taskmanager, found.cause) == ("tm-2", "garbage-collection")
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)


def test_garbage_collection_before_the_slowdown_does_not_count() -> None:
    job = Bench(interval_s=3, timeout_s=60)
    job.completes(200)
    job.completes(20, lasted_s=5)
    spent = collecting(job, tm_1=0.02, tm_2=0.7, tm_3=0.03)
    assert results_of(checkpoint_culprit.RULE, job.facts(jobs=(job.job(garbage=spent),))) == []


def test_fast_checkpoints_have_no_culprit() -> None:
    job = Bench(interval_s=3, timeout_s=60)
    job.completes(25)
    spent = collecting(job, tm_1=0.02, tm_2=0.7, tm_3=0.03)
    assert results_of(checkpoint_culprit.RULE, job.facts(jobs=(job.job(garbage=spent),))) == []


def test_a_hot_key_on_a_collecting_taskmanager_stays_a_hot_key() -> None:
    job = expiring_job()
    manager = job.manager_of("enrich", 2).replace("-", "_")
    for checkpoint in job.checkpoints[5:]:
        job.acknowledgements(
            checkpoint, [("enrich", 2), *job.everyone("aggregate", "Sink: deliver")]
        )
    job.loaded(
        {
            ("Source: orders", None): {"busy": None, "idle": 0.0, "back_pressured": 900.0},
            ("enrich", None): {"records_in": 50.0, "busy": 20.0},
            ("enrich", 2): {"records_in": 1500.0, "busy": 995.0, "input_queue": 30.0},
        },
        input_queue=1.0,
    )
    found = found_culprit(job, collecting(job, **{manager: 0.5}))
    assert found is not None
    assert (found.suspect, found.cause) == (Suspect("enrich", 2), "data-skew")


def test_queues_reports_the_same_cause() -> None:
    bench = Queues().set_metrics("Source: orders", back_pressured=700.0, is_back_pressured=1.0)
    for task in ("enrich", "aggregate"):
        for index in range(dict(bench.tasks)[task]):
            here = bench.place(task, index) == "taskmanager-2"
            bench.set_metrics(task, index, busy=900.0 if here else 150.0, idle=50.0)
            if here:
                bench.set_metrics(task, index, input_queue=15.0, in_pool=0.9)
    job = bench.job()
    first = min(sample.first_us or 0 for each in job.samples.values() for sample in each)
    collected = Garbage(
        taskmanager="taskmanager-2",
        host=None,
        gc_ms=200_000,
        span_ms=300_000,
        samples=30,
        first_us=first,
        last_us=first + 5 * MINUTE,
    )
    found = judged(replace(job, job=replace(job.job, garbage=(collected,))))
    assert (found.cause, found.culprits[0].code) == ("garbage-collection", "SK102")
