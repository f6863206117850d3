"""The number of passes over the facts does not grow with the number of problems.

The test counts passes instead of seconds. A rule that scans all records for each episode, or all jobs for
each job, would need minutes for a bad week.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.data import checkpoint_data
from flowdiag.analyses.checkpoints.rules import RULES as CHECKPOINT_RULES
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts
from flowdiag.analyses.model.keys import JobKey

from .judged import outcomes_of
from .workbench import Bench

PASSES: Counter[str] = Counter()


class Counted(tuple[Any, ...]):
    """A tuple that counts how often it is iterated."""

    __slots__ = ()
    name = ""

    def __iter__(self) -> Iterator[Any]:
        PASSES[self.name] += 1
        return super().__iter__()


def counted(facts: Any, *names: str) -> dict[str, Any]:
    """Return the named fields as tuples that count their iterations."""
    return {name: type(name, (Counted,), {"name": name})(getattr(facts, name)) for name in names}


def passes(facts: ClusterFacts) -> dict[str, int]:
    PASSES.clear()
    outcomes = outcomes_of(CHECKPOINT_RULES, facts)
    checkpoint_data(facts, outcomes)
    assert any(outcome.findings for outcome in outcomes)
    return dict(PASSES)


LISTS = (
    "checkpoints",
    "late",
    "declines",
    "attempts",
    "subtask_checkpoints",
    "loads",
    "incidents",
)


def job_of(bench: Bench, **more: Any) -> JobFacts:
    job = bench.job(**more)
    values = {f.name: getattr(job, f.name) for f in fields(job) if f.init}
    return JobFacts(**(values | counted(job, *LISTS)))


def many_episodes(spells: int) -> ClusterFacts:
    """Return a job with many episodes, each with late messages, a decline, REST responses, a failure and an abort."""
    bench = Bench(interval_s=10, timeout_s=10)
    for number in range(spells):
        bench.completes(6)
        (expired,) = bench.expires()
        for index in (1, 2):
            bench.is_late(expired, "aggregate", index)
        bench.acknowledgements(expired, missing=[("aggregate", 1)])
        bench.happens(
            "async-failure", checkpoint=expired.id, task="aggregate", subtask_index=1, cause=None
        )
        (declined,) = bench.declined()
        bench.refuses(declined, "enrich", number % 2, reason=None)  # type: ignore[arg-type]
        bench.happens("task-failure", task="enrich", subtask_index=1, cause="java.io.IOException")
        bench.happens("job-running")
    bench.loaded({("aggregate", 1): {"busy": 1000.0}, ("enrich", None): {"back_pressured": 900.0}})
    return bench.facts(jobs=(job_of(bench),))


def test_more_spells_need_no_more_passes() -> None:
    few, many = passes(many_episodes(8)), passes(many_episodes(16))
    assert few == many
    assert few["late"] > 0


def cluster(jobs: int) -> ClusterFacts:
    """Return a cluster of many slow or failing jobs, and TaskManagers that belong to none of them."""
    found = []
    for number in range(jobs):
        bench = Bench(interval_s=10, timeout_s=10, key=JobKey("", f"{number:032x}"))
        bench.completes(12)
        if number % 2:
            bench.expires(2)
            bench.happens("task-failure", task="enrich", subtask_index=1, cause="java.io.IOError")
        bench.completes(5, lasted_s=9.0)
        found.append(bench.job())
    lost = tuple(
        Incident(
            kind="taskmanager-lost",
            time_us=bench.at(60),
            taskmanager=f"tm-{number}",
            cause="The heartbeat of TaskManager timed out.",
            ref=bench.ref(),
        )
        for number in range(4)
    )
    plain = bench.facts(jobs=tuple(found), incidents=lost)
    values = {f.name: getattr(plain, f.name) for f in fields(plain) if f.init}
    return ClusterFacts(**(values | counted(plain, "jobs", "incidents")))


def test_more_jobs_need_no_more_passes() -> None:
    few, many = passes(cluster(4)), passes(cluster(8))
    assert few == many
    assert 1 <= few["jobs"] <= 5, (
        "rules judge job by job: only the cases, the tables, the search for ended processes and those who look for"
        " other jobs pass over all"
    )


@pytest.mark.parametrize("facts", [many_episodes(3), cluster(4)], ids=["spells", "jobs"])
def test_cached_values_do_not_change_results(facts: ClusterFacts) -> None:
    first = outcomes_of(CHECKPOINT_RULES, facts)
    assert outcomes_of(CHECKPOINT_RULES, facts) == first
    assert facts.derived or any(job.derived for job in facts.jobs)
