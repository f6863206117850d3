"""The checkpoint storage rejects checkpoints.

What it reports
---------------
Checkpoints that fail because the storage is full, denies access, throttles requests, cannot be reached or lacks a
file. The finding shows the location of the storage, the exception, and when the failures began. The exception occurs
on several TaskManagers, or on the JobManager itself.

Why it matters
--------------
The log names each subtask that declines a checkpoint, which makes it look like the culprit. If several
subtasks get the same exception, none of them is the culprit: all of them write to the same storage.

How it decides
--------------
The rule sorts the causes of declined and failed checkpoints, and of failed snapshots in TaskManager logs, by
exception class. It blames the storage if one class of storage exceptions comes from at least two TaskManagers, or
from the JobManager. If the TaskManagers are unknown, two tasks are enough. The JobManager writes the metadata, and
creates the location of a checkpoint before the checkpoint has a number. If the JobManager only reports that a
checkpoint failed, this is weak evidence.

A checkpoint that every task acknowledged but that could not be finalized also points to the storage, unless
its exception gives another reason. If a single TaskManager gets the exception, its own disk or network is the
problem, and CP301 names the subtask. The finding is critical if at least `at-the-end` checkpoints in a row
failed at the end of the input.

What to do
----------
- Full: free space, and delete old checkpoints.
- Access denied: check permissions and tokens.
- Throttled: write fewer and larger files.
- Files missing: find out which process deletes them.
- Files that already exist: give each job its own directory, or start from the earlier run's last checkpoint.

False alarms
------------
Local disks that fill up on several hosts at once, for example with logs or spilled data, cause the same
exception. Check the path.
"""

from typing import Any, Final

from flowdiag.analyses.checkpoints.storage import StorageFailure, refusals_of, victims_text
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.knowledge.message_advice import with_advice

_WORDS: Final = {
    "hdfs-no-datanode": "has no DataNode left for a block",
    "hdfs-safe-mode": "is in safe mode (its NameNode is read-only)",
    "checkpoint-file-exists": "already contains files from another run",
    "storage-full": "is full",
    "storage-denied": "denies access",
    "storage-read-only": "is not writable",
    "storage-throttled": "throttles",
    "file-missing": "lacks a file or directory",
    "upload-missing": "no longer has a multipart upload",
    "service-unreachable": "cannot be reached",
}


class Limits(h.Limits):
    at_the_end: float = h.at_the_end_limit()


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    found = refusals_of(job)
    if found is None:
        return
    name = None if found.exception is None else found.exception.name
    # A checkpoint contacts no other service, so an unreachable service is the storage.
    cause, names = cause_of_class(
        "storage-failure" if name in (None, "service-unreachable") else name, "storage-failure"
    )
    if name is None:  # the text does not name the exception
        names = ("read-only", "full")
    word = _WORDS.get(name or "", "fails")
    path = f" ({h.fmt.shorten(found.path, 80)})" if found.path else ""
    fault = f"checkpoint storage{path} {word}"
    number, managers = found.attempts, len(found.taskmanagers)
    same = "reported the same exception"
    signals = (
        ("several-taskmanagers", managers > 1, f"{managers} TaskManagers {same}"),
        ("several-tasks", not managers and found.subtasks > 1, f"subtasks of several tasks {same}"),
        (
            "jobmanager",
            found.itself,
            f"the JobManager itself reported the exception ({found.jobmanager}×)",
        ),
        ("again", number > 1, f"{number} checkpoints failed with the same exception"),
    )
    votes = h.votes_for({vote: text for vote, applies, text in signals if applies}, RULE.signals)
    yield h.episode_finding(
        job,
        found.series,
        number,
        fatal=h.fatal_at_end(job, found.series, limits.at_the_end),
        subject=h.Subject(kind="storage", job_id=job.key.job_id or None, job_name=job.name),
        title=f"The {fault}: {h.fmt.plural(number, 'checkpoint')} failed",
        why=f"the {fault}: {h.exception_text(found.text)}",
        cause=cause,
        # Without an exception, the JobManager may have failed to write for another reason.
        confidence=h.Confidence.MEDIUM if found.exception is None else h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        explain=victims_text(found),
        measurements=(
            h.measurement("refused-taskmanagers", managers, "taskmanagers"),
            h.measurement("refused-subtasks", found.subtasks, "subtasks"),
            h.measurement("refused-jobmanager", found.jobmanager, "checkpoints"),
        ),
        evidence=h.cite((item.ref, item.time_us) for item in found.refusals),
        actions=with_advice(h.remedies(cause, job, *names), found.text or ""),
        votes=votes,
        **_unnumbered_fields(job, found, limits),
    )


def _unnumbered_fields(job: h.Job, found: StorageFailure, limits: Limits) -> dict[str, Any]:
    """Return state, severity and times for checkpoints that no episode covers: they failed before they got a number, or
    the input contains only logs of TaskManagers.
    """
    times = [item.time_us for item in found.refusals if item.time_us is not None]
    numbered = all(item.checkpoint is not None for item in found.refusals)
    if not times or (numbered and found.series):
        return {}
    ongoing = not job.completed_after(max(times))
    critical = ongoing and found.attempts >= limits.at_the_end
    return {
        "state": h.State.ONGOING if ongoing else h.State.RECOVERED,
        "severity": h.Severity.CRITICAL if critical else h.Severity.WARNING,
        "first_us": min(times),
        "last_us": max(times),
    }


RULE: Final = h.Rule(
    "CP312",
    judge,
    Limits,
    causes=("storage-failure", "checkpoint-directory-shared"),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
