"""Acknowledgements arrive after the checkpoint expired.

What it reports
---------------
Every late acknowledgement of an expired checkpoint, with its task, subtask, TaskManager and host, and
how long after the trigger and after the expiry it arrived. If no line shows how any of these
checkpoints ended, as on a console without INFO lines: which subtask was late for which checkpoint.

Why it matters
--------------
Late messages are the trace that a slow subtask leaves in the JobManager's log, often the only trace.
They are not proof. 27 runs with a known culprit were measured. The TaskManager with the most late messages
was the right one 19 times and the wrong one 5 times. 3 runs had no late message at all.

How it decides
--------------
"Received late message for now expired checkpoint attempt …" counts only if that checkpoint is known to
have expired. Up to 1.18 Flink prints the same line after a decline or a fail-over. Messages whose
expiry is cut off are listed as unmatched. They are information, and only reported without matched ones.

Up to 1.10 the tasks are not notified that a checkpoint is dead, so the culprit *and everything
downstream* is late. From 1.11 on a task is late if it had begun its snapshot, waits for the checkpoint
lock (old sources), or is stuck in one long record. The vote in CP201 accounts for the difference.

What to do
----------
Read CP201. If it is inconclusive, check the most upstream of the listed subtasks: input queues, records
in compared with sibling subtasks, state size.

False alarms
------------
None above information: a late acknowledgement is a fact.
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
    # In a cut log the message may be the only record of its checkpoint.
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
        + "The late sender is often not the culprit. Up to Flink 1.10 everything downstream of the "
        "culprit is late too. From 1.11 a task that never received the barrier sends nothing. "
        "CP201 weighs these messages against the other signals.",
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
            *_optional_numbers(late),
        ),
        evidence=h.cite((item.ref, item.received_us) for item in late),
        actions=(
            h.Action(
                text="Compare the listed subtasks with their siblings, the most upstream first: records in, "
                "input queue, state size",
                verify="the same subtasks acknowledge within the timeout",
            ),
        ),
    )
    if not matched:
        finding = h.replace(finding, severity=h.Severity.INFO, state=h.State.ONGOING)
    yield finding


_UNMATCHED: Final = (
    "They belong to {numbers}, and no line shows how these ended. Late messages also follow from declined or "
    "aborted checkpoints. The INFO lines of the JobManager's log would show which."
)
_LISTED: Final = 6  # subtasks by name, and checkpoints by number


def _sender(attempt: h.Attempt) -> tuple[str, int | None]:
    """Return task and subtask index; an attempt without a name counts as a sender of its own."""
    if attempt.task is None:
        return attempt.attempt_id, None
    return attempt.task, attempt.subtask_index


def _listed(late: list[h.LateAcknowledgement]) -> str:
    """Return the subtasks that were late most often; attempts known only by their id are left out."""
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
    """Return the first checkpoints by number."""
    found = sorted({item.checkpoint for item in late})
    more = len(found) - _LISTED
    shown = [str(number) for number in found[:_LISTED]] + ([f"{more} more"] if more > 0 else [])
    return f"{'checkpoint' if len(found) == 1 else 'checkpoints'} {h.fmt.listed(shown, ' and ')}"


def _optional_numbers(late: list[h.LateAcknowledgement]) -> h.Iterator[h.Measurement]:
    """Yield numbers that only some inputs contain."""
    delays = sorted(item.after_expiry_ms for item in late if item.after_expiry_ms is not None)
    if delays:
        yield h.measurement("median-after-expiry", delays[len(delays) // 2], "ms")
    nameless = sum(item.attempt.task is None for item in late)
    if nameless:
        yield h.measurement(
            "unknown-attempts",
            nameless,
            "messages",
            over="attempt ids without a deployment line",
        )


RULE: Final = h.Rule("CP102", judge)
