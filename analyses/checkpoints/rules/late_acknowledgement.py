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
from typing import Final

from flowdiag.analyses.flink.kit import (
    Action,
    Finding,
    Iterator,
    Job,
    LateAcknowledgement,
    Limits,
    Measurement,
    Rank,
    Rule,
    Status,
    cite,
    episodes,
    measured,
    name_of,
    of_episodes,
    say,
)


def judge(job: Job, limits: Limits) -> Iterator[Finding]:
    """One finding per job."""
    late = [item for item in job.late if item.expired]
    if not late:
        return
    checkpoints = {(item.run, item.checkpoint) for item in late}
    # The checkpoint may be gone from the list (a cut log): then its message is all there is.
    series = [e for e in episodes(job) if e.ids & checkpoints]
    # An attempt without a name is somebody all the same.
    senders = {
        (a.task, a.subtask_index) if a.task is not None else (a.attempt_id, None)
        for a in (item.attempt for item in late)
    }
    managers = {item.attempt.taskmanager for item in late if item.attempt.taskmanager}
    expired = {(c.run, c.id) for e in series for c in e.checkpoints if c.status is Status.EXPIRED}
    received = [item.received_us for item in late if item.received_us is not None]
    listed = _listed(late)
    yield of_episodes(
        job,
        series,
        len(checkpoints),
        fatal=False,
        title=f"{say.plural(len(late), 'late acknowledgement')} of "
        f"{say.plural(len(checkpoints), 'checkpoint')} from {say.plural(len(senders), 'subtask')}"
        + (f" on {say.plural(len(managers), 'TaskManager')}" if managers else ""),
        explain=(f"Most often late: {listed}. " if listed else "No record names the senders. ")
        + "The late sender is often not the culprit: up to Flink "
        "1.10 everything downstream of the culprit is late too, from 1.11 a task that never "
        "saw the barrier sends nothing at all. CP201 weighs these messages against the other "
        "signals.",
        rank=Rank.CONSEQUENCE,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=len(late),
        measurements=(
            measured("late-acknowledgements", len(late), "messages"),
            measured("late-subtasks", len(senders), "subtasks"),
            measured("taskmanagers", len(managers), "taskmanagers"),
            measured("expired-without-late-message", len(expired - checkpoints), "checkpoints"),
            *_more(late),
        ),
        evidence=cite((item.ref, item.received_us) for item in late),
        actions=(
            Action(
                text="Compare the listed subtasks with their siblings: records in, input queue, "
                "state size; the most upstream of them first",
                verify="the same subtasks acknowledge within the time-out",
            ),
        ),
    )


def _listed(late: list[LateAcknowledgement]) -> str:
    """The subtasks that were late most often."""
    named = [item.attempt for item in late if item.attempt.task is not None]
    times = Counter((attempt.task, attempt.subtask_index) for attempt in named)
    names = {(attempt.task, attempt.subtask_index): name_of(attempt) for attempt in reversed(named)}
    ranked = sorted(times.items(), key=lambda item: (-item[1], str(item[0])))
    return ", ".join(f"{names[who]} {count}×" for who, count in ranked[:6])


def _more(late: list[LateAcknowledgement]) -> Iterator[Measurement]:
    """What only some inputs tell."""
    delays = sorted(item.after_expiry_ms for item in late if item.after_expiry_ms is not None)
    if delays:
        yield measured("median-after-expiry", delays[len(delays) // 2], "ms")
    nameless = sum(item.attempt.task is None for item in late)
    if nameless:
        yield measured(
            "unknown-attempts",
            nameless,
            "messages",
            over="attempt ids that no deployment line explains",
        )


RULE: Final = Rule("CP102", judge)
