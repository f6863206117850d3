"""Tasks take long to open or to restore.

What it reports
---------------
The subtask, or all of them, whose initialisation takes long, and whether state was restored.

Why it matters
--------------
A job processes nothing until the last task is RUNNING; the first checkpoint waits for it too.

How it decides
--------------
From 1.13 on a task is INITIALIZING while it opens its operators and reads its state; before, RUNNING comes
first and nothing can be seen. One subtask far above the median of its siblings is named; if all are slow,
the vertex or the storage is.

What to do
----------
Look at what open() does (connections, caches, models); for restores at the size of the state of that
subtask, and at local recovery.

False alarms
------------
Large state takes its time; compare with its size.
"""

from __future__ import annotations

import statistics
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
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.rule import Limits, Rule, Signal, limit
from flowdiag.analyses.startup.facts import JobStarting, JobStarts, Start, TaskTimes


class SlowInitialisationLimits(Limits):
    """What ST301 compares with."""

    slow: float = limit(10, "s", "opening connections takes seconds; ten of them are worth a look")
    ratio: float = limit(5, "ratio", "against the median of all tasks of the same start")


def judge(job: JobStarting, limits: SlowInitialisationLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job, for the slowest start."""
    slow = [
        (took[0], took[1], start)
        for start in job.starts
        if (took := _slowest(start, job)) is not None and took[0] >= limits.slow * 1000
    ]
    if slow:
        yield _finding(job, slow, limits.ratio)


def _took(task: TaskTimes, start: Start, job: JobStarts) -> int | None:
    """Milliseconds in INITIALIZING; until the end of what is known where it never ended."""
    if task.initializing_us is None:
        return None
    end = task.running_us or task.ended_us or start.ended_us or job.job.last_us
    if end is None or (task.running_us is None and task.end_state in ("CANCELED", "FAILED")):
        return None  # somebody else failed meanwhile
    return max(0, end - task.initializing_us) // 1000


def _read_ms(start: Start, task: TaskTimes) -> int | None:
    """How long the task's TaskManager read state in that start; None where its log does not tell."""
    took = [
        ms
        for restore in start.restores
        if restore.taskmanager is not None
        and restore.taskmanager == task.taskmanager
        and (ms := restore.took_ms(task.running_us or start.ended_us)) is not None
    ]
    return max(took, default=None)


def _slowest(start: Start, job: JobStarts) -> tuple[int, TaskTimes] | None:
    found = [(took, task) for task in start.tasks if (took := _took(task, start, job)) is not None]
    return max(found, key=lambda pair: pair[0], default=None)


def _finding(job: JobStarts, slow: list[tuple[int, TaskTimes, Start]], ratio: float) -> Finding:
    took, task, start = max(slow, key=lambda item: item[0])
    others = [
        other for t in start.tasks if t is not task and (other := _took(t, start, job)) is not None
    ]
    median = statistics.median(others) if others else 0.0
    alone = took >= ratio * max(median, 1.0)
    siblings = [
        other
        for t in start.tasks
        if t.task == task.task and t is not task and (other := _took(t, start, job)) is not None
    ]
    votes = []
    who = j.subtask_text(task.task, task.subtask_index, task.parallelism)
    if alone:
        votes.append(
            Vote(
                signal="far-above-the-others",
                says=f"{j.duration_text(took)}, the median is {j.duration_text(median)}",
                weight=2,
            )
        )
    if sum(t.task == task.task and t.subtask_index == task.subtask_index for _, t, _ in slow) > 1:
        votes.append(Vote(signal="again", says=f"{who} in {len(slow)} starts", weight=2))
    if siblings and took >= ratio * max(statistics.median(siblings), 1.0):
        votes.append(
            Vote(
                signal="alone-in-its-vertex",
                says=f"its siblings take {j.duration_text(statistics.median(siblings))}",
                weight=1,
            )
        )
    read = _read_ms(start, task)
    restoring = start.restored
    if read is not None:
        # The TaskManager's own lines tell reading state from what comes after it.
        restoring = read >= took / 2
    if restoring and read is not None:
        votes.append(
            Vote(
                signal="restore-lines",
                says=f"state was read for {j.duration_text(read)} on {task.taskmanager}",
                weight=2,
            )
        )
    cause = "slow-restore" if restoring else "slow-open"
    running = start.running_us is not None
    what = "to restore its state and open" if restoring else "in open()"
    subject = Subject(
        kind="subtask" if alone else "job",
        job_id=job.job.key.job_id or None,
        job_name=job.job.name,
        task=task.task if alone else None,
        subtask_index=task.subtask_index if alone else None,
        parallelism=task.parallelism if alone else None,
        attempt_id=task.attempt_id if alone else None,
        taskmanager=task.taskmanager if alone else None,
        host=task.host if alone else None,
    )
    share = sum(t >= took / 2 for t in (*others, took)) / (len(others) + 1)
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING,
        state=State.RECOVERED if running else State.ONGOING,
        subject=subject,
        title=f"{who} took {j.duration_text(took)} {what}; the job waited"
        if alone
        else f"Tasks take up to {j.duration_text(took)} {what.replace('its', 'their')}",
        why=f"{who}: {j.duration_text(took)} from INITIALIZING to RUNNING"
        + (f", the others {j.duration_text(median)}" if others else ""),
        cause=cause,
        confidence=weigh(votes),
        rank=Rank.SLOW_CAUSE,
        first_us=task.initializing_us,
        last_us=task.running_us or start.ended_us,
        count=len(slow),
        explain="A task is INITIALIZING while it opens its operators and reads its state back.",
        measurements=(
            Measurement(
                name="initialisation", value=took, unit="ms", population=f"start {start.number + 1}"
            ),
            Measurement(name="median", value=round(median), unit="ms", population="other tasks"),
            Measurement(name="share-as-slow", value=round(share, 3), unit="share"),
        ),
        evidence=cite([(task.ref, task.initializing_us)]),
        actions=(
            Action(
                text="Look at the state of that subtask and at the storage it comes from; turn on local "
                "recovery",
                option="state.backend.local-recovery",
                proposed="true",
                restart_needed=True,
            )
            if restoring
            else Action(
                text="Take a thread dump while it is INITIALIZING (/taskmanagers/:id/thread-dump): it "
                "shows what open() waits for"
            ),
        ),
        votes=tuple(votes),
    )


RULE: Final = Rule(
    "ST301",
    judge,
    SlowInitialisationLimits,
    signals=(
        Signal(
            "far-above-the-others", 2, "the subtask is alone: it, its state or its node is slow"
        ),
        Signal("again", 2, "the same subtask or vertex was the slowest in another start too"),
        Signal("alone-in-its-vertex", 1, "its siblings of the same vertex are fast"),
        Signal(
            "restore-lines", 2, "its TaskManager's log shows state being read for most of that time"
        ),
    ),
)
