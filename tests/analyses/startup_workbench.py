"""Hand-written facts about starts, for tests of the rules of `flowdiag startup`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts
from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.startup.facts import (
    JobStarts,
    Start,
    StartupFacts,
    TaskTimes,
    Trouble,
    Worker,
)

from .judged import results_of

BEGIN = 1_700_000_000_000_000
SECOND = 1_000_000
JOB = JobKey(cluster="c", job_id="ab" * 16)


def task(index: int, *, taskmanager: str = "tm-1", at: float = 1.0, **more: Any) -> TaskTimes:
    """Return a task attempt that reached RUNNING."""
    us = BEGIN + round(at * SECOND)
    times: dict[str, Any] = {
        "scheduled_us": us,
        "deploying_us": us,
        "initializing_us": us,
        "running_us": us + SECOND,
    }
    return TaskTimes(
        attempt_id=f"{index:032x}",
        task="aggregate",
        subtask_index=index,
        parallelism=4,
        attempt=0,
        taskmanager=taskmanager,
        host=f"host-{taskmanager}",
        ref=Ref(0, index),
        **(times | more),
    )


def start(*tasks: TaskTimes, number: int = 0, at: float = 0.0, **more: Any) -> Start:
    """Return a start, which is successful if all its tasks reached RUNNING."""
    running = [t.running_us for t in tasks if t.running_us is not None]
    ran = bool(tasks) and len(running) == len(tasks)
    values: dict[str, Any] = {
        "running_us": max(running) if ran else None,
        "held": None if ran else "slots",
    }
    return Start(
        job=JOB,
        number=number,
        kind="cold" if number == 0 else "restart",
        started_us=BEGIN + round(at * SECOND),
        ended_us=None,
        tasks=tasks,
        **(values | more),
    )


def incident(kind: str, at: float, cause: str | None = None, **more: Any) -> Incident:
    """Return an incident of the job."""
    text = more.pop("text", {})
    return Incident(
        kind=kind,
        job=JOB,
        time_us=BEGIN + round(at * SECOND),
        cause=cause,
        text=text,
        ref=Ref(0, round(at * 1000)),
        **more,
    )


def job(*starts: Start, incidents: tuple[Incident, ...] = (), **more: Any) -> JobStarts:
    facts = JobFacts(
        key=JOB, name="orders", version="1.20.5", incidents=incidents, last_us=BEGIN + 600 * SECOND
    )
    return JobStarts(job=facts, starts=starts, **more)


def trouble(kind: str, at: float = 5.0, count: int = 1, **more: Any) -> Trouble:
    """Return a communication problem that one log reports."""
    us = BEGIN + round(at * SECOND)
    values: dict[str, Any] = {"times": (us,), "last_us": us, "ref": Ref(0, 7)}
    return Trouble(kind=kind, count=count, first_us=us, **(values | more))


def worker(name: str, **more: Any) -> Worker:
    return Worker(name=name, host=f"host-{name}", registered_us=BEGIN, **more)


def facts(*jobs: JobStarts, **more: Any) -> StartupFacts:
    """Return the facts that rules judge."""
    made = StartupFacts(
        common=ClusterFacts(jobs=tuple(j.job for j in jobs), processes=()),
        jobs=jobs,
        last_us=BEGIN + 600 * SECOND,
    )
    return replace(made, **more)


def findings(rule: Rule, seen: StartupFacts) -> list[Finding]:
    """Return the findings of a rule with its default thresholds."""
    return [result for result in results_of(rule, seen) if isinstance(result, Finding)]
