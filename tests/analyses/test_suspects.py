"""`checkpoints` and `queues` find the same culprit and cause for the same job."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.culprit import hot_spot
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.suspects import NamedCulprit
from flowdiag.analyses.flink.suspects.case import Suspect
from flowdiag.analyses.flink.suspects.causes import CULPRIT_CAUSES
from flowdiag.analyses.flink.suspects.signals import METRIC_SIGNALS, SIGNALS
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.loads import load_row, samples_in
from flowdiag.analyses.queues.root import find_spells

from .queues_workbench import Queues, judged

Values = dict[str, Any]
VERSIONS = ("1.9.3", "1.10.3", "1.12.5", "1.14.6", "1.20.5", "2.3.0")
WAITS: Values = {"back_pressured": 700.0, "is_back_pressured": 1.0, "out_pool": 1.0, "idle": 300.0}
WORKS: Values = {"busy": 990.0, "idle": 10.0, "input_queue": 16.0, "in_pool": 1.0}


def as_checkpoints_sees_it(job: JobQueues) -> JobFacts:
    """Return the job with its loads over the whole time, as in `flowdiag checkpoints`."""
    rows = tuple(load_row(key, each) for key, each in sorted(samples_in(job, None).items()))
    return replace(job.job, loads=rows)


def both(bench: Queues) -> tuple[NamedCulprit | None, NamedCulprit | None]:
    job = bench.job()
    answer = hot_spot(as_checkpoints_sees_it(job))
    spells = find_spells(job)
    return (answer.culprit if answer else None), (spells[0].culprit if spells else None)


def hot_key(bench: Queues) -> tuple[Suspect, str]:
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", 2, **WORKS, records_in=9000.0)
    return Suspect("enrich", 2), "data-skew"


def large_records(bench: Queues) -> tuple[Suspect, str]:
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", bytes_in=50_000.0)
    bench.set_metrics("enrich", 2, **WORKS, bytes_in=4_000_000.0)
    return Suspect("enrich", 2), "data-skew"


def hang(bench: Queues) -> tuple[Suspect, str]:
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", 1, **WORKS, records_in=0.0)
    return Suspect("enrich", 1), "task-hangs"


def slow_sink(bench: Queues) -> tuple[Suspect, str]:
    for task in ("Source: orders", "enrich", "aggregate"):
        bench.set_metrics(task, **WAITS)
    bench.set_metrics("Sink: deliver", **WORKS)
    return Suspect("Sink: deliver"), "slow-operator"


def most_of_a_task(bench: Queues) -> tuple[Suspect, str]:
    for task in ("Source: orders", "enrich"):
        bench.set_metrics(task, **WAITS)
    for index in range(5):
        bench.set_metrics("aggregate", index, **WORKS)
    return Suspect("aggregate"), "slow-operator"


def hot_key_in_a_busy_task(bench: Queues) -> tuple[Suspect, str]:
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", **WORKS)
    bench.set_metrics("enrich", 3, records_in=9000.0)
    return Suspect("enrich", 3), "data-skew"


def one_subtask_keeps_up_better(bench: Queues) -> tuple[Suspect, str]:
    """Return a task in which one subtask holds a resource, such as a connection, that the others wait for."""
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", **WORKS)
    bench.set_metrics("enrich", 3, busy=800.0, idle=200.0, in_pool=0.8, records_in=9000.0)
    return Suspect("enrich"), "slow-operator"


FAULTS = (
    hot_key,
    large_records,
    hang,
    slow_sink,
    most_of_a_task,
    hot_key_in_a_busy_task,
    one_subtask_keeps_up_better,
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_one_fault_has_one_culprit_and_one_cause(
    fault: Callable[[Queues], tuple[Suspect, str]], version: str
) -> None:
    bench = Queues(version=version)
    suspect, cause = fault(bench)
    by_checkpoints, by_queues = both(bench)
    assert by_queues is not None
    assert (by_queues.suspect, by_queues.cause) == (suspect, cause)
    # While checkpoints complete, buffer usage without busy times is not a hot spot.
    if by_checkpoints is not None or version not in ("1.9.3", "1.10.3"):
        assert by_checkpoints is not None
        assert (by_checkpoints.suspect, by_checkpoints.cause) == (suspect, cause)


@pytest.mark.parametrize("seed", range(60))
def test_both_topics_agree_for_any_load(seed: int) -> None:
    """Steady loads, because only `queues` sees changes within minutes."""
    draw = random.Random(seed)
    bench = Queues(version=draw.choice(VERSIONS), managers=draw.randint(1, 4))
    first = draw.randrange(1, len(bench.tasks))
    for task, size in bench.tasks[:first]:
        bench.set_metrics(task, **WAITS)
        if draw.random() < 0.3 and not task.startswith("Source"):
            bench.set_metrics(task, draw.randrange(size), busy=900.0, back_pressured=50.0)
    task, size = bench.tasks[first]
    for index in draw.sample(range(size), draw.randint(1, size)):
        records = draw.choice([0.0, 200.0, 1000.0, 9000.0])
        bench.set_metrics(task, index, **WORKS, records_in=records)
    by_checkpoints, by_queues = both(bench)
    if by_checkpoints is not None and by_queues is not None:
        assert (by_checkpoints.suspect, by_checkpoints.cause) == (
            by_queues.suspect,
            by_queues.cause,
        )


@pytest.mark.parametrize("seed", range(40))
def test_every_vote_is_published_with_its_weight_or_less(seed: int) -> None:
    draw = random.Random(seed)
    bench = Queues(version=draw.choice(VERSIONS), linked=draw.random() < 0.7)
    draw.choice(FAULTS)(bench)
    table = {signal.name: signal.weight for signal in SIGNALS}
    for culprit in both(bench):
        for vote in culprit.votes if culprit else ():
            assert abs(vote.weight) <= abs(table[vote.signal])


def test_a_sibling_that_reports_less_often_does_not_show_skew() -> None:
    """In a slow sink, one subtask reported three times as often as the other."""
    bench = Queues()
    slow_sink(bench)
    job = as_checkpoints_sees_it(bench.job())
    loads = [
        replace(load, samples=load.samples // 4, records_in=(load.records_in or 0.0) / 4)
        if (load.task, load.subtask_index) == ("Sink: deliver", 1)
        else load
        for load in job.loads
    ]
    answer = hot_spot(replace(job, loads=tuple(loads)))
    assert answer is not None and answer.culprit is not None
    assert answer.culprit.suspect == Suspect("Sink: deliver")


def test_every_cause_has_a_meaning_and_remedies() -> None:
    assert all(CAUSES[cause].explanation and CAUSES[cause].remedies for cause in CULPRIT_CAUSES)


def test_the_table_lists_each_signal_once() -> None:
    names = [signal.name for signal in SIGNALS]
    assert len(names) == len(set(names))
    assert set(names) >= METRIC_SIGNALS


def test_a_subtask_that_counted_another_buffer_is_not_skewed() -> None:
    """A slow task reads few records from large buffers."""
    bench = Queues()
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", **WORKS)
    bench.set_metrics("enrich", 3, busy=920.0, idle=80.0, records_in=3000.0)
    assert judged(bench.job()).cause == "slow-operator"


@pytest.mark.parametrize(("busy", "cause"), [(990.0, "slow-operator"), (300.0, None)])
def test_the_second_branch_of_a_job_without_a_graph(busy: float, cause: str | None) -> None:
    """A deployment order is a chain, in which only the first branch could block the source."""
    tasks = (("Source: orders", 2), ("Sink: fast", 2), ("Sink: slow", 1))
    bench = Queues(tasks=tasks, linked=False)
    bench.set_metrics("Source: orders", **WAITS)
    bench.set_metrics("Sink: slow", **WORKS | {"busy": busy, "in_pool": 0.0})
    job = bench.job()
    assert job.job.graph is not None
    ordered = replace(job.job, graph=replace(job.job.graph, source="deployment order"))
    found = judged(replace(job, job=ordered, topology=Topology(ordered)))
    assert found.cause == cause
