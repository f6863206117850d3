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
metadata; where it says no more than that a checkpoint failed, that is a hint. One TaskManager alone is its
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

from typing import Final

from flowdiag.analyses.causes import cause_of_class
from flowdiag.analyses.checkpoints.storage import Refused, refused
from flowdiag.analyses.flink.kit import (
    AT_THE_END,
    Finding,
    Iterator,
    Job,
    Limits,
    Rank,
    Rule,
    Signal,
    Subject,
    cite,
    exception_text,
    fatal_at_end,
    limit,
    measured,
    of_episodes,
    remedies,
    say,
    votes_for,
    weigh,
)

_WORDS: Final = {
    "storage-full": "is full",
    "storage-denied": "denies access",
    "storage-throttled": "throttles",
    "file-missing": "lacks what is written to or read",
}


class Failing(Limits):
    """What CP312 compares with."""

    at_the_end: float = limit(
        AT_THE_END,
        "checkpoints",
        "one failed checkpoint costs one interval; a second one in a row at the end of the "
        "input is a job that does not complete checkpoints",
    )


def judge(job: Job, limits: Failing) -> Iterator[Finding]:
    """At most one finding per job."""
    found = refused(job)
    if found is not None:
        yield _finding(job, found, limits)


def _finding(job: Job, found: Refused, limits: Failing) -> Finding:
    cause, names = cause_of_class(found.said.name, "storage-failure")
    word = _WORDS.get(found.said.name, "fails")
    place = f" ({say.shorten(found.path, 80)})" if found.path else ""
    votes = votes_for(_says(found), RULE.signals)
    number = len(found.checkpoints)
    series = list(found.series)
    return of_episodes(
        job,
        series,
        number,
        fatal=fatal_at_end(job, series, limits.at_the_end),
        subject=Subject(kind="storage", job_id=job.key.job_id or None, job_name=job.name),
        title=f"The storage of the checkpoints{place} {word}: {say.plural(number, 'checkpoint')} "
        "failed for it",
        why=f"the checkpoint storage{place} {word}: {exception_text(found.text)}",
        cause=cause,
        confidence=weigh(votes),
        rank=Rank.ROOT_CAUSE,
        explain=_victims(found),
        measurements=(
            measured("refused-taskmanagers", len(found.taskmanagers), "taskmanagers"),
            measured("refused-subtasks", found.subtasks, "subtasks"),
            measured("refused-jobmanager", found.jobmanager, "checkpoints"),
        ),
        evidence=cite((item.ref, item.time_us) for item in found.refusals),
        actions=remedies(cause, job, *names),
        votes=votes,
    )


def _victims(found: Refused) -> str:
    """Who was refused and since when, for people."""
    since = f"since checkpoint {min(found.checkpoints)[1]}"
    who = []
    if found.taskmanagers:
        managers = say.plural(len(found.taskmanagers), "TaskManager")
        who.append(f"{say.plural(found.subtasks, 'subtask')} on {managers}")
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
        "again": f"{len(found.checkpoints)} checkpoints in the same words"
        if len(found.checkpoints) > 1
        else None,
    }


RULE: Final = Rule(
    "CP312",
    judge,
    Failing,
    signals=(
        Signal("several-taskmanagers", 3, "several TaskManagers got the same kind of exception"),
        Signal("several-tasks", 2, "subtasks of several tasks did, and no place is known"),
        Signal("jobmanager", 2, "the JobManager got it when it wrote what no subtask writes"),
        Signal("again", 1, "more than one checkpoint failed for it"),
    ),
    causes=("storage-failure",),
)
