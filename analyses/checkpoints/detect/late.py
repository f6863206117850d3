"""Texts about the senders of late acknowledgements."""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.checkpoints.culprit import sender_name
from flowdiag.analyses.flink import helpers as h

_LISTED: Final = 6  # maximum number of subtasks or checkpoints in a text


def sender_of(attempt: h.Attempt) -> tuple[str, int | None]:
    """Return task and subtask index, or the attempt ID if the task is unknown."""
    if attempt.task is None:
        return attempt.attempt_id, None
    return attempt.task, attempt.subtask_index


def most_often_text(late: list[h.LateAcknowledgement]) -> str:
    """Return a sentence about the named subtasks that were late most often."""
    named = [
        a
        for a in (item.attempt for item in late)
        if a.task or a.subtask_index is not None or a.taskmanager or a.host
    ]
    if not named:
        return "No record names the senders."
    times = Counter(map(sender_of, named))
    names = {sender_of(attempt): sender_name(attempt) for attempt in reversed(named)}
    ranked = sorted(times.items(), key=lambda item: (-item[1], str(item[0])))
    listed = ", ".join(f"{names[who]} {count}×" for who, count in ranked[:_LISTED])
    return f"Most often late: {listed}."


def unmatched_text(late: list[h.LateAcknowledgement]) -> str:
    """Explain late messages about checkpoints of unknown outcome. Empty if all of them expired."""
    if late[0].expired:
        return ""
    numbers = sorted({item.checkpoint for item in late})
    shown, more = [str(number) for number in numbers[:_LISTED]], len(numbers) - _LISTED
    if more > 0:
        shown.append(f"{more} more")
    which = "checkpoint" if len(numbers) == 1 else "checkpoints"
    return (
        f"They belong to {which} {h.fmt.listed(shown, ' and ')} whose outcome is unknown. "
        "Declined and aborted checkpoints also cause late messages. The INFO lines of the "
        "JobManager's log would show the outcome. "
    )
