"""Acknowledgements arrive after the expiry.

What it reports
---------------
Every late acknowledgement that belongs to an expired checkpoint, with its task, subtask,
TaskManager, host, and how long after the trigger and after the expiry it arrived.

Why it matters
--------------
It is the trace that a slow subtask leaves in the JobManager's log, often the only one. It does not
convict by itself: measured on 27 runs with a known culprit, the TaskManager with most late messages
was the right one 19 times, the wrong one 5 times, and 3 runs had no late message at all.

How it decides
--------------
"Received late message for now expired checkpoint attempt …" counts only when that checkpoint is
known to have expired: up to 1.18 Flink words it the same after a decline or a fail-over. Messages
whose expiry is cut off are listed as unmatched and not judged. Up to 1.10 nobody tells the tasks
that a checkpoint is dead, so the culprit *and everything downstream of it* is late; from 1.11
those are late that had begun their snapshot, that wait for the checkpoint lock (old sources), or
that are stuck in one long record. The vote of CP201 knows the difference.

What to do
----------
Read CP201. If it is inconclusive, look up the subtasks listed here that are most upstream in the
job graph: their input queues, their records in compared with their siblings, their state size.

False alarms
------------
None that is more than information: a late acknowledgement has happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded, episodes
from flowdiag.analyses.flink.job import JobFacts, LateAcknowledgement, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.rule import Limits, Rule


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    late = [item for item in job.late if item.expired]
    if late:
        yield _finding(job, late)


def _finding(job: JobFacts, late: list[LateAcknowledgement]) -> Finding:
    checkpoints = {(item.run, item.checkpoint) for item in late}
    series = [e for e in episodes(job) if e.ids & checkpoints]
    # The checkpoint may be gone from the list (a cut log): then its message is all there is.
    state = j.state_of(series) if series else State.RECOVERED
    population = max(len(concluded(job)), len(checkpoints))
    # An attempt without a name is somebody all the same.
    senders = {
        (a.task, a.subtask_index) if a.task is not None else (a.attempt_id, None)
        for a in (item.attempt for item in late)
    }
    subtasks = Counter(
        (item.attempt.task, item.attempt.subtask_index)
        for item in late
        if item.attempt.task is not None
    )
    managers = Counter(item.attempt.taskmanager for item in late if item.attempt.taskmanager)
    delays = sorted(item.after_expiry_ms for item in late if item.after_expiry_ms is not None)
    nameless = sum(item.attempt.task is None for item in late)
    expired = {(c.run, c.id) for e in series for c in e.checkpoints if c.status is Status.EXPIRED}
    title = (
        f"{j.count_text(len(late), 'late acknowledgement')} of "
        f"{j.count_text(len(checkpoints), 'checkpoint')} from "
        f"{j.count_text(len(senders), 'subtask')}"
        + (f" on {j.count_text(len(managers), 'TaskManager')}" if managers else "")
    )
    measurements = [
        Measurement(name="late-acknowledgements", value=len(late), unit="messages"),
        Measurement(name="late-subtasks", value=len(senders), unit="subtasks"),
        Measurement(name="taskmanagers", value=len(managers), unit="taskmanagers"),
        Measurement(
            name="expired-without-late-message",
            value=max(0, sum(e.count(Status.EXPIRED) for e in series) - len(expired & checkpoints)),
            unit="checkpoints",
        ),
    ]
    if delays:
        measurements.append(
            Measurement(name="median-after-expiry", value=delays[len(delays) // 2], unit="ms")
        )
    if nameless:
        measurements.append(
            Measurement(
                name="unknown-attempts",
                value=nameless,
                unit="messages",
                population="attempt ids that no deployment line explains",
            )
        )
    cited = cite((item.ref, item.received_us) for item in late)
    listed = ", ".join(
        f"{j.subtask_text(task, index, _parallelism(late, task, index))} {count}×"
        for (task, index), count in sorted(
            subtasks.items(), key=lambda item: (-item[1], str(item[0]))
        )[:6]
    )
    return Finding(
        job=job.key,
        severity=j.severity_of(job, series, len(checkpoints), population, fatal=False),
        state=state,
        subject=j.job_subject(job),
        title=title,
        explain=(
            (f"Most often late: {listed}. " if listed else "No record names the senders. ")
            + "The late sender is often not the culprit: up to Flink "
            "1.10 everything downstream of the culprit is late too, from 1.11 a task that never "
            "saw the barrier sends nothing at all. CP201 weighs these messages against the other "
            "signals."
        ),
        rank=Rank.CONSEQUENCE,
        first_us=min((i.received_us for i in late if i.received_us is not None), default=None),
        last_us=max((i.received_us for i in late if i.received_us is not None), default=None),
        count=len(late),
        measurements=tuple(measurements),
        evidence=cited,
        actions=(
            Action(
                text="Compare the listed subtasks with their siblings: records in, input queue, "
                "state size; the most upstream of them first",
                verify="the same subtasks acknowledge within the time-out",
            ),
        ),
    )


def _parallelism(
    late: list[LateAcknowledgement], task: str | None, index: int | None
) -> int | None:
    return next(
        (
            item.attempt.parallelism
            for item in late
            if (item.attempt.task, item.attempt.subtask_index) == (task, index)
        ),
        None,
    )


RULE: Final = Rule("CP102", judge)
