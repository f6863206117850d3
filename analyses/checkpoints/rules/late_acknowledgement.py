"""Acknowledgements arrive after the expiry.

What it reports
---------------
Every late acknowledgement that belongs to an expired checkpoint, with its task, subtask,
TaskManager, host, and how long after the trigger and after the expiry it arrived. Where no line says
how any of these checkpoints ended, as on a console without INFO lines: who was late for which of them.

Why it matters
--------------
It is the trace that a slow subtask leaves in the JobManager's log, often the only one. It does not
convict by itself: measured on 27 runs with a known culprit, the TaskManager with most late messages
was the right one 19 times, the wrong one 5 times, and 3 runs had no late message at all.

How it decides
--------------
"Received late message for now expired checkpoint attempt …" counts only when that checkpoint is
known to have expired: up to 1.18 Flink words it the same after a decline or a fail-over. Messages
whose expiry is cut off are listed as unmatched; they are information, and only where there are no others.
Up to 1.10 nobody tells the tasks
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

from flowdiag.analyses.checkpoints.culprit import sender_name
from flowdiag.analyses.flink import helpers as h


def judge(job: h.Job, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per job."""
    late = [item for item in job.late if item.expired]
    matched = bool(late)
    late = late or list(job.late)
    if not late:
        return
    checkpoints = {(item.run, item.checkpoint) for item in late}
    # The checkpoint may be gone from the list (a cut log): then its message is all there is.
    series = [e for e in h.episodes(job) if e.ids & checkpoints]
    senders = {_sender(item.attempt) for item in late}
    managers = {item.attempt.taskmanager for item in late if item.attempt.taskmanager}
    expired = {(c.run, c.id) for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED}
    received = [item.received_us for item in late if item.received_us is not None]
    listed = _listed(late)
    finding = h.episode_finding(
        job,
        series,
        len(checkpoints),
        fatal=False,
        title=f"{h.fmt.plural(len(late), 'late acknowledgement')} of "
        f"{h.fmt.plural(len(checkpoints), 'checkpoint')} from {h.fmt.plural(len(senders), 'subtask')}"
        + (f" on {h.fmt.plural(len(managers), 'TaskManager')}" if managers else ""),
        explain=(f"Most often late: {listed}. " if listed else "No record names the senders. ")
        + ("" if matched else f"{_UNMATCHED.format(numbers=_numbers(late))} ")
        + "The late sender is often not the culprit: up to Flink "
        "1.10 everything downstream of the culprit is late too, from 1.11 a task that never "
        "saw the barrier sends nothing at all. CP201 weighs these messages against the other "
        "signals.",
        rank=h.Rank.CONSEQUENCE,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=len(late),
        measurements=(
            h.measurement("late-acknowledgements", len(late), "messages"),
            h.measurement("late-subtasks", len(senders), "subtasks"),
            h.measurement("taskmanagers", len(managers), "taskmanagers"),
            h.measurement(
                "expired-without-late-message", len(expired - checkpoints), "checkpoints"
            ),
            *_more(late),
        ),
        evidence=h.cite((item.ref, item.received_us) for item in late),
        actions=(
            h.Action(
                text="Compare the listed subtasks with their siblings: records in, input queue, "
                "state size; the most upstream of them first",
                verify="the same subtasks acknowledge within the timeout",
            ),
        ),
    )
    if not matched:
        finding = h.replace(finding, severity=h.Severity.INFO, state=h.State.ONGOING)
    yield finding


_UNMATCHED: Final = (
    "They are of {numbers}; no line says how these ended. They may have been declined or cut short, of which "
    "late messages are a mere consequence; the INFO lines of the JobManager's log would tell."
)
_LISTED: Final = 6  # subtasks by name, and checkpoints by number


def _sender(attempt: h.Attempt) -> tuple[str, int | None]:
    """An attempt without a name is somebody all the same."""
    if attempt.task is None:
        return attempt.attempt_id, None
    return attempt.task, attempt.subtask_index


def _listed(late: list[h.LateAcknowledgement]) -> str:
    """The subtasks that were late most often, of those that anything but the number of an attempt tells of."""
    late = [
        item
        for item in late
        if (who := item.attempt).task
        or who.subtask_index is not None
        or who.taskmanager
        or who.host
    ]
    times = Counter(_sender(item.attempt) for item in late)
    names = {_sender(item.attempt): sender_name(item.attempt) for item in reversed(late)}
    ranked = sorted(times.items(), key=lambda item: (-item[1], str(item[0])))
    return ", ".join(f"{names[who]} {count}×" for who, count in ranked[:_LISTED])


def _numbers(late: list[h.LateAcknowledgement]) -> str:
    """The checkpoints by number, the first ones."""
    found = sorted({item.checkpoint for item in late})
    more = len(found) - _LISTED
    told = [str(number) for number in found[:_LISTED]] + ([f"{more} more"] if more > 0 else [])
    return f"{'checkpoint' if len(found) == 1 else 'checkpoints'} {h.fmt.listed(told, ' and ')}"


def _more(late: list[h.LateAcknowledgement]) -> h.Iterator[h.Measurement]:
    """What only some inputs tell."""
    delays = sorted(item.after_expiry_ms for item in late if item.after_expiry_ms is not None)
    if delays:
        yield h.measurement("median-after-expiry", delays[len(delays) // 2], "ms")
    nameless = sum(item.attempt.task is None for item in late)
    if nameless:
        yield h.measurement(
            "unknown-attempts",
            nameless,
            "messages",
            over="attempt ids that no deployment line explains",
        )


RULE: Final = h.Rule("CP102", judge)
