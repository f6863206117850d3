"""Tasks take long to open or to restore.

What it reports
---------------
The subtask, or all subtasks, whose initialisation takes long, and whether state was restored.

Why it matters
--------------
A job processes nothing until the last task is RUNNING. The first checkpoint waits for it too.

How it decides
--------------
From 1.13 on a task is INITIALIZING while it opens its operators and reads its state. Before 1.13, RUNNING
comes first and the time is not visible. The slowest task has to take `slow`. If that is `ratio` times the
median of all others, the finding names the subtask. If all are slow, the vertex or the storage is slow.
The restore is the reason if the task's TaskManager read state for `reading` of that time.

What to do
----------
Check what open() does (connections, caches, models). For restores, check the size of the subtask's state,
and local recovery.

False alarms
------------
Large state takes time to restore: compare with its size.
"""

from __future__ import annotations

import statistics
from typing import Final, NamedTuple

from flowdiag.analyses.flink.failures.silences import logged_until
from flowdiag.analyses.startup import helpers as h


class Slow(h.Limits):
    """Thresholds of ST301."""

    slow: float = h.limit(
        10, "s", "opening connections takes seconds; ten seconds are worth a check"
    )
    ratio: float = h.limit(5, "ratio", "against the median of all tasks of the same start")
    reading: float = h.limit(0.5, "share", "of the initialisation, during which state was read")


_SIGNALS: Final = (
    h.Signal(
        "far-above-the-others", 2, "only this subtask is slow: its code, its state or its node"
    ),
    h.Signal("again", 2, "the same subtask or vertex was the slowest in another start too"),
    h.Signal("alone-in-its-vertex", 1, "its siblings of the same vertex are fast"),
    h.Signal(
        "restore-lines", 2, "its TaskManager's log shows state being read for most of that time"
    ),
)


class _Slowest(NamedTuple):
    """The slowest task of one start, and the times of the others, in milliseconds."""

    took: int
    task: h.TaskTimes
    start: h.Start
    others: list[int]
    siblings: list[int]

    @property
    def name(self) -> str:
        return h.fmt.subtask_of(self.task.task, self.task.subtask_index, self.task.parallelism)

    def is_far_above(self, others: list[int], ratio: float) -> bool:
        return self.took >= ratio * max(statistics.median(others) if others else 0.0, 1.0)


def judge(job: h.JobStarting, limits: Slow) -> h.Iterator[h.Finding]:
    """One finding per job, for the slowest start."""
    slow = [
        found
        for start in job.starts
        if (found := _slowest(job, start)) is not None and found.took >= limits.slow * 1000
    ]
    if slow:
        yield _finding(job, slow, limits)


def _slowest(job: h.JobStarting, start: h.Start) -> _Slowest | None:
    found = [(took, task) for task in start.tasks if (took := _took(task, start, job)) is not None]
    if not found:
        return None
    took, task = max(found, key=lambda pair: pair[0])
    others = [(ms, other) for ms, other in found if other is not task]
    return _Slowest(
        took,
        task,
        start,
        [ms for ms, _ in others],
        [ms for ms, other in others if other.task == task.task],
    )


def _took(task: h.TaskTimes, start: h.Start, job: h.JobStarting) -> int | None:
    """Return the milliseconds in INITIALIZING; up to the end of the input if it never ended."""
    if task.initializing_us is None:
        return None
    end = task.running_us or task.ended_us or start.ended_us or job.job.last_us
    if end is not None and task.running_us is None and task.ended_us is None:
        end = logged_until(job.cluster.common, task.taskmanager, task.initializing_us, end)
    if end is None or (task.running_us is None and task.end_state in ("CANCELED", "FAILED")):
        return None  # another task failed first
    return max(0, end - task.initializing_us) // 1000


def _read_ms(start: h.Start, task: h.TaskTimes) -> int | None:
    """Return how long the task's TaskManager read state in that start; None if no log shows it."""
    read_ms = [
        ms
        for restore in start.restores
        if restore.taskmanager is not None
        and restore.taskmanager == task.taskmanager
        and (ms := restore.took_ms(task.running_us or start.ended_us)) is not None
    ]
    return max(read_ms, default=None)


def _votes(
    worst: _Slowest, slow: list[_Slowest], read: str | None, ratio: float
) -> tuple[h.Vote, ...]:
    took = h.fmt.duration(worst.took)
    median, siblings = (
        h.fmt.duration(statistics.median(each) if each else 0.0)
        for each in (worst.others, worst.siblings)
    )
    same = (worst.task.task, worst.task.subtask_index)
    again = sum((each.task.task, each.task.subtask_index) == same for each in slow) > 1
    alone = bool(worst.siblings) and worst.is_far_above(worst.siblings, ratio)
    return h.votes_for(
        {
            "far-above-the-others": f"{took}, the median is {median}"
            if worst.is_far_above(worst.others, ratio)
            else None,
            "again": f"{worst.name} in {len(slow)} starts" if again else None,
            "alone-in-its-vertex": f"its siblings take {siblings}" if alone else None,
            "restore-lines": read,
        },
        _SIGNALS,
    )


def _finding(job: h.JobStarting, slow: list[_Slowest], limits: Slow) -> h.Finding:
    worst = max(slow, key=lambda each: each.took)
    took, task, start, others, _ = worst
    median = statistics.median(others) if others else 0.0
    alone = worst.is_far_above(others, limits.ratio)
    read = _read_ms(start, task)
    # The TaskManager's own lines separate reading state from the work after it.
    restoring = start.restored if read is None else read >= took * limits.reading
    lines = None
    if restoring and read is not None:
        lines = f"state was read for {h.fmt.duration(read)} on {task.taskmanager}"
    votes = _votes(worst, slow, lines, limits.ratio)
    cause = "slow-restore" if restoring else "slow-open"
    what = "to restore its state and open" if restoring else "in open()"
    long = h.fmt.duration(took)
    as_slow = sum(t >= took / 2 for t in (*others, took)) / (len(others) + 1)
    return h.start_finding(
        job,
        ongoing=start.running_us is None,
        severity=h.Severity.WARNING,
        subject=_subject(job, task) if alone else h.job_subject(job),
        title=f"{worst.name} took {long} {what}; the job waited for it"
        if alone
        else f"Tasks take up to {long} {what.replace('its', 'their')}",
        why=f"{worst.name}: {long} from INITIALIZING to RUNNING"
        + (f", the others {h.fmt.duration(median)}" if others else ""),
        cause=cause,
        confidence=h.weigh(votes),
        rank=h.Rank.SLOW_CAUSE,
        first_us=task.initializing_us,
        last_us=task.running_us or start.ended_us,
        count=len(slow),
        measurements=(
            h.measurement("initialisation", took, "ms", over=f"start {start.number + 1}"),
            h.measurement("median", round(median), "ms", over="other tasks"),
            h.measurement("share-as-slow", round(as_slow, 3), "share"),
        ),
        evidence=h.cite([(task.ref, task.initializing_us)]),
        actions=h.remedies(cause, job.job),
        votes=votes,
    )


def _subject(job: h.JobStarts, task: h.TaskTimes) -> h.Subject:
    return h.job_subject(
        job,
        "subtask",
        task=task.task,
        subtask_index=task.subtask_index,
        parallelism=task.parallelism,
        attempt_id=task.attempt_id,
        taskmanager=task.taskmanager,
        host=task.host,
    )


RULE: Final = h.Rule(
    "ST301",
    judge,
    Slow,
    signals=_SIGNALS,
    causes=("slow-open", "slow-restore"),
)
