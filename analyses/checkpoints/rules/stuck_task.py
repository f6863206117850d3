"""A task does not react to being cancelled.

What it reports
---------------
Tasks that were still in user code long after they had been told to stop, with the method they are stuck
in.

Why it matters
--------------
A restart cannot begin before the old attempt is gone. After `task.cancellation.timeout` (3 minutes)
Flink kills the whole TaskManager, with everybody else's tasks on it. And the method it is stuck in is
often what held the checkpoints up before.

How it decides
--------------
"Task '…' did not react to cancelling signal" with the stack below it: the first line names the method.
From `repeats` records on it is serious: ongoing as long as no checkpoint has completed since. Below, it
is information.

What to do
----------
Look at the method: a blocking call without a time-out, a loop that ignores interruption, a lock. Make it
interruptible.

False alarms
------------
A task that takes a minute to close a connection says so once and then ends: information.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.kit import (
    Finding,
    Incident,
    Iterator,
    Job,
    Limits,
    Rank,
    Rule,
    Signal,
    incidents,
    limit,
    measured,
    name_of,
    of_incidents,
    records_of,
    remedies,
    say,
    subtask_subject,
    votes_for,
    weigh,
)


class Stuck(Limits):
    """What CP310 compares with."""

    repeats: float = limit(
        2,
        "records",
        "Flink repeats the message every 30 seconds; once may be an orderly but slow close",
    )


def judge(job: Job, limits: Stuck) -> Iterator[Finding]:
    """One finding per subtask."""
    groups: dict[tuple[str, int | None], list[Incident]] = {}
    for incident in incidents(job, "task-stuck"):
        if incident.task is not None:
            groups.setdefault((incident.task, incident.subtask_index), []).append(incident)
    for group in groups.values():
        yield _finding(job, group, limits)


def _method(incident: Incident) -> str:
    """The method a task is stuck in: the innermost frame."""
    lines = [line.strip() for line in (incident.cause or "").splitlines() if line.strip()]
    return say.shorten(lines[0].removeprefix("at "), 120) if lines else "an unknown method"


def _finding(job: Job, group: list[Incident], limits: Stuck) -> Finding:
    last = group[-1]
    name, method = name_of(last), _method(last)
    serious = len(group) >= limits.repeats
    votes = votes_for({"stuck-stack": f"stuck in {method} ({len(group)}×)"}, RULE.signals)
    return of_incidents(
        job,
        group,
        ongoing=serious and not job.completed_after(last.time_us),
        share=len(group) / max(1, len(job.concluded)) if serious else 0.0,
        subject=subtask_subject(job, last),
        title=f"{name} does not react to cancelling, stuck in {method}",
        why=f"{name}: stuck in {method}" if serious else None,
        cause="task-hangs" if serious else None,
        confidence=weigh(votes),
        rank=Rank.SHARED_MECHANISM,
        explain="The job cannot be restarted before this task is gone; if it does not go, its "
        "TaskManager is killed.",
        measurements=(measured("repeated", len(group), "records", limits.repeats),),
        evidence=records_of(reversed(group)),
        ranked=True,
        actions=remedies("task-hangs", job, "interruptible", "kill-sooner", method=method),
        votes=votes,
    )


RULE: Final = Rule(
    "CP310",
    judge,
    Stuck,
    signals=(Signal("stuck-stack", 3, "the stack of the task's thread"),),
    causes=("task-hangs",),
)
