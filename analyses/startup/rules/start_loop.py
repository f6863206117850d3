"""A job restarts in vain, and what began it.

What it reports
---------------
Jobs that failed and restarted at least three times without a recovery in between, with the first cause of
the whole series, not with what followed from it.

Why it matters
--------------
Each restart fails for another reason that is near at hand: missing slots, closed connections, cancelled
tasks. The first one is the cause, and it scrolls away.

How it decides
--------------
Failures are grouped until the job recovers (a checkpoint completes, or nothing fails for ten minutes). The
cause is the failure nearest to a root among those of the first minute: memory, buffers, a lost
TaskManager, user code, before missing slots.

What to do
----------
Look at the first failure; the restart strategy only decides how often you see it.

False alarms
------------
A log that begins in the middle of the series: its first failure is not the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import Crisis, crises
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.analyses.startup.facts import JobStarting, JobStarts
from flowdiag.analyses.startup.words import CAUSES_BY_FAILURE


class StartLoopLimits(Limits):
    """What ST102 compares with."""

    restarts: float = limit(3, "restarts", "once is a failure, three times in vain is a loop")


def judge(job: JobStarting, limits: StartLoopLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per series."""
    for crisis in crises(job.job, job.cluster.common):
        restarts = max(crisis.bursts, _restarts(job, crisis))
        if restarts >= limits.restarts:
            yield _finding(job, crisis, restarts)


def _restarts(job: JobStarts, crisis: Crisis) -> int:
    """The restarts of a crisis: with a short back-off several failures look like one burst."""
    if crisis.first_us is None or crisis.last_us is None:
        return 0
    low, high = crisis.first_us - 1_000_000, crisis.last_us + 1_000_000
    return sum(s.kind == "restart" and low <= s.started_us <= high for s in job.starts)


def _finding(job: JobStarts, crisis: Crisis, restarts: int) -> Finding:
    root = crisis.root.incident
    cause = CAUSES_BY_FAILURE.get(crisis.root.kind, "task-failure")
    said = root.cause or root.text.get("exception") or root.text.get("text") or crisis.root.kind
    who = j.subtask_text(root.task, root.subtask_index, root.parallelism) if root.task else None
    place = j.place_text(root.taskmanager, root.host) if root.taskmanager or root.host else None
    where = who or place or "the job"
    kind = "subtask" if root.subtask_index is not None else "taskmanager" if place else "job"
    cited = cite(crisis.refs)
    tail = "; it failed for good" if crisis.final else ""
    # In a failure for buffers or slots the task that failed is arbitrary: nobody is accused.
    arbitrary = crisis.root.kind in ("network-buffers", "no-resource")
    return Finding(
        job=job.job.key,
        severity=Severity.CRITICAL if crisis.state is State.ONGOING else Severity.WARNING,
        state=crisis.state,
        subject=Subject(
            kind="job" if arbitrary else kind,
            job_id=job.job.key.job_id or None,
            job_name=job.job.name,
            task=None if arbitrary else root.task,
            subtask_index=None if arbitrary else root.subtask_index,
            parallelism=None if arbitrary else root.parallelism,
            taskmanager=None if arbitrary else root.taskmanager,
            host=None if arbitrary else root.host,
        ),
        title=f"{restarts} restarts in vain; the first failure: "
        + j.shorten(said.split("\n", 1)[0], 90)
        + tail,
        why=j.shorten(said.split("\n", 1)[0], 120)
        if arbitrary
        else f"{where}: {j.shorten(said, 110)}",
        cause=cause,
        rank=Rank.ROOT_CAUSE + (2 if arbitrary else 0),
        first_us=crisis.first_us,
        last_us=crisis.last_us,
        count=restarts,
        explain="What failed later in the series is a consequence, or the same again."
        + (
            f" Restart strategy: {j.shorten(job.restart_strategy, 120)}"
            if job.restart_strategy
            else ""
        ),
        measurements=(Measurement(name="restarts", value=restarts, unit="restarts"),),
        evidence=cited,
        ranked=True,
        actions=(Action(text="Mend the first failure; what comes after it will not come"),),
    )


RULE: Final = Rule("ST102", judge, StartLoopLimits)
