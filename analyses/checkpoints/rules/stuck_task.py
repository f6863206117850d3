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
Ongoing if it is the last that the input says of the job.

What to do
----------
Look at the method: a blocking call without a time-out, a loop that ignores interruption, a lock. Make it
interruptible.

False alarms
------------
A task that takes a minute to close a connection says so once and then ends: information.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.rules.task_failure import subject_of
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded
from flowdiag.analyses.flink.job import Incident, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class StuckTaskLimits(Limits):
    """What CP310 compares with."""

    repeats: float = limit(
        2,
        "records",
        "Flink repeats the message every 30 seconds; once may be an orderly but slow close",
    )


def judge(job: Job, limits: StuckTaskLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per subtask."""
    groups: dict[tuple[str | None, int | None], list[Incident]] = {}
    for incident in job.incidents:
        if incident.kind == "task-stuck" and incident.task is not None:
            groups.setdefault((incident.task, incident.subtask_index), []).append(incident)
    for group in groups.values():
        yield _finding(job, group, limits)


def method_of(incident: Incident) -> str:
    """The method a task is stuck in: the innermost frame."""
    lines = [line.strip() for line in (incident.cause or "").splitlines() if line.strip()]
    return j.shorten(lines[0].removeprefix("at "), 120) if lines else "an unknown method"


def _finding(job: JobFacts, group: list[Incident], limits: StuckTaskLimits) -> Finding:
    last = group[-1]
    name = j.subtask_text(last.task, last.subtask_index, last.parallelism)
    method = method_of(last)
    ended = any(
        c.status is Status.COMPLETED and (c.ended_us or 0) > (last.time_us or 0)
        for c in job.checkpoints
    )
    serious = len(group) >= limits.repeats
    state = State.ONGOING if serious and not ended else State.RECOVERED
    share = len(group) / max(1, len(concluded(job))) if serious else 0.0
    vote = Vote(signal="stuck-stack", says=f"stuck in {method} ({len(group)}×)", weight=3)
    cited = cite((i.ref, i.time_us) for i in reversed(group))
    return Finding(
        job=job.key,
        severity=grade(state=state, share=share),
        state=state,
        subject=subject_of(job, last),
        title=f"{name} does not react to cancelling, stuck in {method}",
        why=f"{name}: stuck in {method}" if serious else None,
        cause="task-hangs" if serious else None,
        confidence=weigh([vote]),
        rank=Rank.SHARED_MECHANISM,
        first_us=group[0].time_us,
        last_us=last.time_us,
        count=len(group),
        explain=(
            "The job cannot be restarted before this task is gone; if it does not go, its TaskManager is "
            "killed."
        ),
        measurements=(
            Measurement(
                name="repeated",
                value=len(group),
                unit="records",
                threshold=limits.repeats,
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text=f"Make {method} interruptible, or give it a time-out",
                verify="the task is CANCELED within seconds",
            ),
            Action(
                text="How long Flink waits before it kills the TaskManager",
                option=option("cancellation-timeout", job.version),
                current=j.configured(job, "task.cancellation.timeout"),
                restart_needed=True,
            ),
        ),
        votes=(vote,),
    )


RULE: Final = Rule(
    "CP310",
    judge,
    StuckTaskLimits,
    signals=(Signal("stuck-stack", 3, "the stack of the task's thread"),),
)
