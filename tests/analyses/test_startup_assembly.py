"""Assembly of starts from rows, without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from flowdiag.analyses.flink.job import Attempt, ClusterFacts, Incident, JobFacts
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.startup.assemble.cluster import cluster_steps
from flowdiag.analyses.startup.data import start_attempts

JOB = JobKey(cluster="c", job_id="ab" * 16)
BEGIN = 1_700_000_000_000_000
MINUTE = 60_000_000
RESTARTS = 20_000


def _times(number: int, at: int) -> dict[str, Any]:
    return {
        "what": "times",
        "attempt_id": f"{number:032x}",
        "scheduled_us": at + 1_000_000,
        "deploying_us": at + 1_100_000,
        "initializing_us": None,
        "running_us": at + 1_200_000,
        "ended_us": at + 50_000_000 if number < RESTARTS else None,
        "end_state": "FAILED" if number < RESTARTS else None,
        "own_ended_us": None,
        "source": 0,
        "offset": number,
    }


def test_tens_of_thousands_of_restarts_keep_the_last() -> None:
    """The work grows only linearly, and the list keeps the first, the blocked and the last starts."""
    moments = [BEGIN + n * MINUTE for n in range(RESTARTS + 1)]
    rows = [_times(n, at) for n, at in enumerate(moments)]
    incidents = []
    for n, at in enumerate(moments[1:]):
        incidents.append(
            Incident(
                kind="task-failure",
                job=JOB,
                time_us=at - 100_000,
                cause="java.lang.IllegalStateException: x",
                ref=Ref(0, 10 * n),
            )
        )
        incidents.append(
            Incident(
                kind="restart", job=JOB, time_us=at, text={"tasks": "1"}, ref=Ref(0, 10 * n + 1)
            )
        )
    attempts = tuple(
        Attempt(
            attempt_id=f"{n:032x}",
            job=JOB,
            task="aggregate",
            subtask_index=0,
            parallelism=1,
            attempt=n,
            taskmanager="tm-1",
        )
        for n in range(RESTARTS + 1)
    )
    job = JobFacts(
        key=JOB,
        name="orders",
        version="1.20.5",
        incidents=tuple(incidents),
        attempts=attempts,
        last_us=moments[-1] + MINUTE,
    )
    facts = assemble_startup(rows, ClusterFacts(jobs=(job,), processes=()))
    (starts,) = facts.jobs
    assert len(starts.starts) == RESTARTS + 1
    last = starts.starts[-1]
    assert (last.number, last.trigger, last.running_us) == (
        RESTARTS,
        "user-code",
        moments[-1] + 1_200_000,
    )
    shown = start_attempts(facts, 100)
    assert len(shown) == 100
    assert [shown[0].number, shown[-1].number] == [0, RESTARTS]


def _mark(template: str, second: int, *, source: int = 0, role: str = "unknown") -> dict[str, Any]:
    return {
        "event": "known",
        "template": template,
        "role": role,
        "source": source,
        "offset": second,
        "owner": None,
        "cluster": "c",
        "time_us": BEGIN + second * 1_000_000,
    }


def test_main_in_concatenated_logs_does_not_indicate_a_client() -> None:
    """`cat *.log`: the JobManager runs main(), and the last records do not belong to a client."""
    started, later = _mark("client-program-started", 1), _mark("client-command", 60)
    (step,) = cluster_steps([started, later])
    assert (step.name, step.held_us) == ("client", later["time_us"])
    assert [*cluster_steps([started, _mark("x", 60, role="jobmanager")])] == []
    others = _mark("x", 60, role="jobmanager", source=1)
    assert [each.name for each in cluster_steps([started, later, others])] == ["client"]


@pytest.mark.parametrize(("has_jobmanager_log", "number"), [(False, 3), (True, 1)])
def test_attempt_numbers_are_starts_without_the_jobmanagers_log(
    has_jobmanager_log: bool, number: int
) -> None:
    """With that log, a region that restarts is no start of the job, because the log has a record of each start."""
    rows, attempts = [], []
    for n in range(3):
        for index in range(2):
            rows.append(_times(2 * n + index, BEGIN + n * MINUTE))
            attempts.append(
                Attempt(
                    attempt_id=f"{2 * n + index:032x}",
                    job=JOB,
                    task="enrich",
                    subtask_index=index,
                    parallelism=2,
                    attempt=n,
                    taskmanager=f"tm-{index}",
                )
            )
    last_us = BEGIN + 3 * MINUTE
    job = JobFacts(
        key=JOB, name="orders", version="1.20.5", attempts=tuple(attempts), last_us=last_us
    )
    common = ClusterFacts(jobs=(job,), processes=(), has_jobmanager_log=has_jobmanager_log)
    (found,) = assemble_startup(rows, common).jobs
    assert len(found.starts) == number
    if number == 3:
        assert [start.kind for start in found.starts] == ["cold", "restart", "restart"]
        assert all(start.expected == 2 and start.held is None for start in found.starts)
