"""Finds storage exceptions of checkpoints. If several TaskManagers get the same exception, none of them is to blame."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.episodes import Episode, episodes, incidents, reason_word
from flowdiag.analyses.flink.job import Checkpoint, Decline, Incident, JobFacts, Status
from flowdiag.analyses.flink.settings import setting
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.exceptions import Classified, classify

DIRECTORY_KEYS: Final = ("execution.checkpointing.dir", "state.checkpoints.dir")
_STORAGE: Final = "storage"
_ITS_OWN: Final = (
    "finalize",
    "trigger_io",
)  # kinds of reasons for failed writes of the JobManager itself
# Messages about metadata that could not be written. REST shows only the second message. "Could not complete" is not
# among them: it is about the store of handles.
_UNFINISHED: Final = ("Could not finalize the pending checkpoint", "Failure to finalize checkpoint")
_PATH: Final = re.compile(
    r"(?:\b(?:file|hdfs|viewfs|s3[an]?|gs|abfss?|wasbs?|oss|cosn?|swift):/{1,3}[^\s'\",;)\]]{3,200})"
    r"|(?<![\w:/.])/(?:[\w.+=@-]{1,80}/){2,}[\w.+=@-]{1,80}"
)
_JOBS_OWN: Final = re.compile(r"/[0-9a-f]{32}(?=/|$).*|/(?:chk-\d+|shared|taskowned)(?=/|$).*")


@dataclass(frozen=True, slots=True)
class StorageException:
    """One exception that the storage raised.

    Args:
        checkpoint: run and number of the checkpoint; None if it failed before it got a number.
        subtask: task and index; None for the JobManager.
        exception: the exception class; None if the record only names the failed operation.
    """

    checkpoint: tuple[int, int] | None
    subtask: tuple[str, int | None] | None
    taskmanager: str | None
    exception: Classified | None
    text: str
    time_us: int | None
    ref: Ref | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFailure:
    """The storage exceptions for which the storage itself is to blame.

    Args:
        exception: the most frequent class; None if there is no storage exception, and only the JobManager could not write.
        path: the location of the checkpoints, if a setting or an exception contains it.
        taskmanagers: the TaskManagers that report the exception.
        jobmanager: number of checkpoints that failed according to records of the JobManager without a task.
        itself: whether the JobManager itself certainly failed to write, rather than possibly a task.
        series: the episodes of failed checkpoints.
    """

    exception: Classified | None
    text: str
    path: str | None
    refusals: tuple[StorageException, ...]
    taskmanagers: tuple[str, ...]
    subtasks: int
    jobmanager: int
    itself: bool
    series: tuple[Episode, ...]

    @property
    def checkpoints(self) -> frozenset[tuple[int, int]]:
        """Run and number of the failed checkpoints that have a number."""
        return frozenset(r.checkpoint for r in self.refusals if r.checkpoint is not None)

    @property
    def attempts(self) -> int:
        """The number of failed checkpoints, including those without a checkpoint number."""
        return _count_checkpoints(self.refusals)


@once
def refusals_of(job: JobFacts) -> StorageFailure | None:
    """Return the storage exceptions if the storage itself is to blame, otherwise None.

    At least two TaskManagers must report the exception, or the JobManager, which writes its own files.
    """
    failed = _failed_checkpoints(job)
    found = [*_refusals(job, failed), *_location_refusals(job), *_refusals_without_checkpoints(job)]
    found = found or [*_unfinished(job, failed)]
    if not found:
        return None
    name = Counter(map(_class_of, found)).most_common(1)[0][0]
    alike = tuple(item for item in found if _class_of(item) == name)
    managers = {item.taskmanager for item in alike} - {None, ""}
    subtasks = {item.subtask for item in alike if item.subtask is not None}
    places = managers or {task for task, _ in subtasks}
    of_jobmanager = [item for item in alike if item.subtask is None]
    if len(places) < 2 and not of_jobmanager:
        return None
    latest = max(alike, key=lambda item: item.time_us or 0)
    return StorageFailure(
        exception=latest.exception,
        text=latest.text,
        path=_path(job, alike),
        refusals=alike,
        taskmanagers=tuple(sorted(filter(None, managers))),
        subtasks=len(subtasks),
        jobmanager=_count_checkpoints(of_jobmanager),
        itself=_jobmanager_failed_to_write(of_jobmanager, failed),
        series=_episodes_of(job, alike),
    )


def _count_checkpoints(refusals: Sequence[StorageException]) -> int:
    """Count the failed checkpoints, including those without a checkpoint number."""
    numbered = [r.checkpoint for r in refusals if r.checkpoint is not None]
    return len(set(numbered)) + len(refusals) - len(numbered)


def _failed_checkpoints(job: JobFacts) -> dict[tuple[int, int], Checkpoint]:
    return {
        (c.run, c.id): c
        for e in episodes(job)
        for c in e.checkpoints
        if c.status in (Status.DECLINED, Status.FAILED, Status.EXPIRED)
    }


def _jobmanager_failed_to_write(
    refusals: Sequence[StorageException], failed: Mapping[tuple[int, int], Checkpoint]
) -> bool:
    """Return whether it was certainly the JobManager that failed to write, not a task."""
    return any(
        r.checkpoint is None or reason_word(failed[r.checkpoint]) in _ITS_OWN for r in refusals
    )


def _episodes_of(job: JobFacts, refusals: Sequence[StorageException]) -> tuple[Episode, ...]:
    numbers = {refusal.checkpoint for refusal in refusals}
    return tuple(e for e in episodes(job) if any((c.run, c.id) in numbers for c in e.checkpoints))


def _refusals(
    job: JobFacts, failed: Mapping[tuple[int, int], Checkpoint]
) -> Iterator[StorageException]:
    declined: set[tuple[int, int]] = set()
    for decline in job.declines:
        declined.add((decline.run, decline.checkpoint))
        yield from _refusals_in(decline.reason, (decline.run, decline.checkpoint), failed, decline)
    runs = {number: run for run, number in sorted(failed)}
    for incident in incidents(job, "snapshot-failed", "async-failure"):
        if incident.checkpoint in runs:
            declined.add((runs[incident.checkpoint], incident.checkpoint))
            yield from _refusals_in(
                incident.cause, (runs[incident.checkpoint], incident.checkpoint), failed, incident
            )
    for identity, checkpoint in failed.items():
        # The coordinator also prints the reason of a decline.
        if checkpoint.status is not Status.EXPIRED and identity not in declined:
            yield from _refusals_in(checkpoint.reason, identity, failed, checkpoint)


def _class_of(refusal: StorageException) -> str | None:
    return None if refusal.exception is None else refusal.exception.name


def _location_refusals(job: JobFacts) -> Iterator[StorageException]:
    """Yield the checkpoints that failed while the JobManager created their location."""
    for incident in incidents(job, "not-triggered"):
        exception = classify([incident.cause], "flink") if incident.cause else None
        if exception is not None and exception.kind == _STORAGE:
            yield StorageException(
                None, None, None, exception, incident.cause or "", incident.time_us, incident.ref
            )


def _refusals_without_checkpoints(job: JobFacts) -> Iterator[StorageException]:
    """Yield the failed snapshots, for inputs with only TaskManager logs."""
    if job.checkpoints or job.declines:
        return
    for incident in incidents(job, "snapshot-failed", "async-failure"):
        identity = None if incident.checkpoint is None else (0, incident.checkpoint)
        yield from _refusal_in(incident.cause, identity, incident)


def _unfinished(
    job: JobFacts, failed: Mapping[tuple[int, int], Checkpoint]
) -> Iterator[StorageException]:
    """Yield the checkpoints that every task acknowledged but the JobManager could not finalize, without a reason."""
    for identity, checkpoint in failed.items():
        text = checkpoint.reason or ""
        if any(words in text for words in _UNFINISHED) and classify([text], "flink") is None:
            yield StorageException(
                identity, None, None, None, text, checkpoint.ended_us, checkpoint.end_ref
            )


def _refusals_in(
    text: str | None,
    identity: tuple[int, int],
    failed: Mapping[tuple[int, int], Checkpoint],
    record: Decline | Incident | Checkpoint,
) -> Iterator[StorageException]:
    if identity in failed:
        yield from _refusal_in(text, identity, record)


def _refusal_in(
    text: str | None, identity: tuple[int, int] | None, record: Decline | Incident | Checkpoint
) -> Iterator[StorageException]:
    exception = classify([text], "flink") if text else None
    if text is None or exception is None or exception.kind != _STORAGE:
        return
    if isinstance(record, Checkpoint):
        yield StorageException(
            identity, None, None, exception, text, record.ended_us, record.end_ref
        )
        return
    who = record.attempt if isinstance(record, Decline) else record
    yield StorageException(
        identity,
        (who.task or "", who.subtask_index),
        who.taskmanager or who.host,
        exception,
        text,
        record.time_us,
        record.ref,
    )


def _path(job: JobFacts, refusals: tuple[StorageException, ...]) -> str | None:
    """Return the configured location of the checkpoints or, failing that, the path in most exceptions."""
    known = setting(job, *DIRECTORY_KEYS)
    if known is not None and known.value:
        return known.value
    found = Counter(
        _JOBS_OWN.sub("", match[0].rstrip("."))
        for item in refusals
        if (match := _PATH.search(item.text)) is not None
    )
    return found.most_common(1)[0][0] if found else None


def victims_text(found: StorageFailure) -> str:
    """Return sentences about the affected processes and about when the failures began."""
    begun = min((r.time_us for r in found.refusals if r.time_us is not None), default=None)
    since = (
        f"since checkpoint {min(found.checkpoints)[1]}"
        if found.checkpoints
        else f"since {h.fmt.clock(begun)} UTC"
        if begun is not None
        else "throughout the input"
    )
    if found.exception is None:
        return (
            f"Every task acknowledged, but the JobManager could not write the metadata, {since}. The exception "
            "with the reason is not in the logs."
        )
    who = []
    if found.taskmanagers:
        managers = h.fmt.plural(len(found.taskmanagers), "TaskManager")
        who.append(f"{h.fmt.plural(found.subtasks, 'subtask')} on {managers}")
    if found.itself:
        who.append("the JobManager")
    if not who and found.jobmanager:
        return (
            f"Checkpoints have failed {since}. The logs do not show whether one task, several tasks or the JobManager "
            "got the exception. If only one task did, its own disk or data may be the reason."
        )
    return f"{h.fmt.capital(' and '.join(who))} got the same exception {since}: they are victims."
