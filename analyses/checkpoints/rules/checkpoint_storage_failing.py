"""The storage of the checkpoints refuses them.

What it reports
---------------
That checkpoints fail since their storage is full, denies access, throttles, is missing or breaks off, for
several TaskManagers or for the JobManager itself: where it is, since when, in whose words.

Why it matters
--------------
Whoever declines a checkpoint is named in the log, and looks like the culprit. Where several are refused
alike, none of them is: all write to the same place.

How it decides
--------------
The causes of declined and failed checkpoints, and of snapshots that TaskManagers tell of, are sorted by the
class of their exception. It convicts the storage where one class of storage exceptions comes from two
TaskManagers or more (two tasks, where no place is known), or from the JobManager, which writes the
metadata, or makes a place for a checkpoint before it has a number; where it says no more than that a checkpoint
failed, that is a hint. One that every task acknowledged and that could not be finalized is the storage, too, where
no exception below says why. One TaskManager alone is its
own disk or its own way there, and CP301 names the subtask. Critical when at least `at-the-end` checkpoints
in a row failed at the end of the input.

What to do
----------
Full: make room, expire old checkpoints. Denied: rights and tokens. Throttled: fewer and larger files. Missing:
who deletes there.

False alarms
------------
A local disk that is full on several machines at once (logs, spilled data) says the same words: the path tells.
"""

from __future__ import annotations

import re
from typing import Any, Final

from flowdiag.analyses.checkpoints.storage import Refused, refused
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.knowledge.exceptions import cause_of_class

_WORDS: Final = {
    "storage-full": "is full",
    "storage-denied": "denies access",
    "storage-throttled": "throttles",
    "file-missing": "lacks what is written to or read",
    "service-unreachable": "cannot be reached",
}
_SAFE_MODE: Final = re.compile(r"safe ?mode", re.IGNORECASE)


class Failing(h.Limits):
    """What CP312 compares with."""

    at_the_end: float = h.limit(
        h.UNSUCCESSFUL_AT_END,
        "checkpoints",
        "one failed checkpoint costs one interval; a second one in a row at the end of the "
        "input is a job that does not complete checkpoints",
    )


def judge(job: h.Job, limits: Failing) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    found = refused(job)
    if found is not None:
        yield _finding(job, found, limits)


def _finding(job: h.Job, found: Refused, limits: Failing) -> h.Finding:
    name = None if found.said is None else found.said.name
    # A service that cannot be reached is the storage here: nothing else is asked for a checkpoint.
    cause, names = cause_of_class(
        "storage-failure" if name in (None, "service-unreachable") else name, "storage-failure"
    )
    safe = name == "storage-failure" and _SAFE_MODE.search(found.text)
    word = (
        "is in safe mode (its NameNode writes nothing)" if safe else _WORDS.get(name or "", "fails")
    )
    place = f" ({h.fmt.shorten(found.path, 80)})" if found.path else ""
    votes = h.votes_for(_says(found), RULE.signals)
    number = found.attempts
    series = list(found.series)
    return h.episode_finding(
        job,
        series,
        number,
        fatal=h.fatal_at_end(job, series, limits.at_the_end),
        subject=h.Subject(kind="storage", job_id=job.key.job_id or None, job_name=job.name),
        title=f"The storage of the checkpoints{place} {word}: {h.fmt.plural(number, 'checkpoint')} "
        "failed for it",
        why=f"the checkpoint storage{place} {word}: {h.exception_text(found.text)}",
        cause=cause,
        # Without an exception something else may have kept the JobManager from writing.
        confidence=h.Confidence.MEDIUM if found.said is None else h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        explain=_victims(found),
        measurements=(
            h.measurement("refused-taskmanagers", len(found.taskmanagers), "taskmanagers"),
            h.measurement("refused-subtasks", found.subtasks, "subtasks"),
            h.measurement("refused-jobmanager", found.jobmanager, "checkpoints"),
        ),
        evidence=h.cite((item.ref, item.time_us) for item in found.refusals),
        actions=h.remedies(cause, job, *names),
        votes=votes,
        **_unnumbered(job, found, limits),
    )


def _unnumbered(job: h.Job, found: Refused, limits: Failing) -> dict[str, Any]:
    """State, severity and times where some failed before they had a number: these are in no episode."""
    times = [item.time_us for item in found.refusals if item.time_us is not None]
    if not times or all(item.checkpoint is not None for item in found.refusals):
        return {}
    ongoing = not job.completed_after(max(times))
    critical = ongoing and found.attempts >= limits.at_the_end
    return {
        "state": h.State.ONGOING if ongoing else h.State.RECOVERED,
        "severity": h.Severity.CRITICAL if critical else h.Severity.WARNING,
        "first_us": min(times),
        "last_us": max(times),
    }


def _victims(found: Refused) -> str:
    """Who was refused and since when, for people."""
    begun = min((r.time_us for r in found.refusals if r.time_us is not None), default=None)
    since = (
        f"since checkpoint {min(found.checkpoints)[1]}"
        if found.checkpoints
        else f"since {h.fmt.clock(begun)} UTC"
        if begun is not None
        else "in the whole input"
    )
    if found.said is None:
        return (
            f"Every task acknowledged, and the JobManager could not write the metadata, {since}. The exception "
            "below it, which says why, is not in the input."
        )
    who = []
    if found.taskmanagers:
        managers = h.fmt.plural(len(found.taskmanagers), "TaskManager")
        who.append(f"{h.fmt.plural(found.subtasks, 'subtask')} on {managers}")
    if found.itself:
        who.append("the JobManager")
    if not who and found.jobmanager:
        return (
            f"So it goes {since}. The input does not say whether one task was refused, several or the "
            "JobManager: where it is one, its own disk or data may be the reason."
        )
    return f"Who was refused is a victim: {' and '.join(who)} got the same from it {since}."


def _says(found: Refused) -> dict[str, str | None]:
    managers = len(found.taskmanagers)
    return {
        "several-taskmanagers": f"{managers} TaskManagers were refused alike"
        if managers > 1
        else None,
        "several-tasks": "subtasks of several tasks were refused alike"
        if not managers and found.subtasks > 1
        else None,
        "jobmanager": f"the JobManager itself was refused ({found.jobmanager}×)"
        if found.itself
        else None,
        "again": f"{found.attempts} checkpoints in the same words" if found.attempts > 1 else None,
    }


RULE: Final = h.Rule(
    "CP312",
    judge,
    Failing,
    signals=(
        h.Signal("several-taskmanagers", 3, "several TaskManagers got the same kind of exception"),
        h.Signal("several-tasks", 2, "subtasks of several tasks did, and no place is known"),
        h.Signal("jobmanager", 2, "the JobManager got it when it wrote what no subtask writes"),
        h.Signal("again", 1, "more than one checkpoint failed for it"),
    ),
    causes=("storage-failure",),
)
