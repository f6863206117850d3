"""Finds the reason why a watermark does not advance: a source, its subtasks or its splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h


class Culprit(NamedTuple):
    """The reason why a watermark does not advance, and the names of the remedies."""

    cause: str
    subject: h.Subject
    reason: str
    why: str
    remedies: tuple[str, ...]


def culprit_of(
    job: h.JobQueues, task: str, holder: e.Holder | None, reason: str, why: str
) -> Culprit:
    """Return the culprit of a stuck watermark. If no source holds the watermark back, `reason` and `why` describe the
    problem.
    """
    if holder is None:
        subject = h.task_subject(job, task)
        return Culprit("stuck-watermark", subject, reason, why, ("idleness", "timestamps"))
    task = h.fmt.shorten(holder.task)
    value = holder.held.value
    marks = "no watermark" if value is None else f"no watermark after {clock(value)}"
    if holder.whole and not holder.reading:
        return Culprit(
            "stuck-watermark",
            h.task_subject(job, holder.task),
            f"{task} has no records",
            f"{task}: no subtask reads records, so it sends {marks}",
            ("idle-input", "idleness"),
        )
    if holder.whole and value is None and not holder.others:
        return _without_strategy(job, holder)
    if holder.splits:
        return _silent_splits(job, holder, marks)
    subject, names = _subtasks(job, holder)
    if holder.reading:
        return Culprit(
            "stuck-watermark",
            subject,
            f"{names} sends {marks}",
            f"{names} reads records and sends {marks}: one of its splits has no records, or old timestamps",
            ("idleness", "timestamps"),
        )
    unassigned = ": it has no split" if holder.unassigned else ""
    return Culprit(
        "stuck-watermark",
        subject,
        f"{names} has no records",
        f"{names} reads no records and sends {marks}{unassigned}",
        ("idleness", "parallelism") if unassigned or value is None else ("idleness",),
    )


def _without_strategy(job: h.JobQueues, holder: e.Holder) -> Culprit:
    task, splits = h.fmt.shorten(holder.task), sum(map(len, holder.splits.values()))
    subtasks = h.fmt.plural(len(holder.keys), "subtask")
    why = f"{task}: all {subtasks} read records but send no watermark"
    if splits:
        why += f", and none of its {h.fmt.plural(splits, 'split')} has one"
    return Culprit(
        "no-watermarks",
        h.task_subject(job, holder.task),
        f"{task} emits no watermarks",
        why,
        ("strategy",) if splits else ("strategy", "idleness"),
    )


def _silent_splits(job: h.JobQueues, holder: e.Holder, marks: str) -> Culprit:
    subject, names = _subtasks(job, holder)
    splits = [split for key in holder.keys for split in holder.splits.get(key, ())]
    one = len(splits) == 1
    shown = f"split{'' if one else 's'} {_first_three(splits)}"
    idle = "" if e.event_time(job).declares_idle is None else " and is not declared idle"
    if not holder.reading:
        marks = f"no records, and {marks}"
    why = f"{names}: {shown} {'has' if one else 'have'} {marks}{idle if one else ''}"
    if holder.others:
        why += f"; {_other_splits_text(holder.others)} there"
    return Culprit(
        "stuck-watermark",
        subject,
        f"{shown} of {names} {'holds' if one else 'hold'} it back",
        why,
        ("idleness", "timestamps") if holder.reading else ("idleness", "idle-input"),
    )


def _subtasks(job: h.JobQueues, holder: e.Holder) -> tuple[h.Subject, str]:
    """Return the subtasks as a subject and by name. If there are several, the subject is their task."""
    first = holder.keys[0]
    names = _first_three([h.subtask_name(job, key) for key in holder.keys])
    if len(holder.keys) > 1:
        return h.task_subject(job, holder.task), names
    return h.subtask_subject(job, first, h.taskmanager_of(job, first)), names


def _first_three(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return h.fmt.listed(names[:3], ", " if more else " and ") + more


def _other_splits_text(count: int) -> str:
    return "the other split advances" if count == 1 else f"{count} other splits advance"


def clock(value: float | None) -> str:
    return h.fmt.clock(round((value or 0) * 1000))


def marks_of(job: h.JobQueues, holder: e.Holder | None) -> h.Iterator[h.Evidence | None]:
    """Yield the samples of the watermark that the holder holds back. Without a holder, yield nothing."""
    if holder is None:
        return
    times = e.event_time(job)
    for key in holder.keys[:3]:
        for split in holder.splits.get(key, ())[:3]:
            yield h.mark_evidence(times.splits[key][split], holder.held.until_us)
        yield h.mark_evidence(times.output_of(key), holder.held.until_us)
