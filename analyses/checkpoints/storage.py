"""What the storage of checkpoints refused, and to whom: an exception that several TaskManagers get is nobody's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.episodes import Episode, episodes, incidents, reason_word
from flowdiag.analyses.flink.job import Checkpoint, Decline, Incident, JobFacts, Status
from flowdiag.analyses.flink.judging import setting
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.exceptions import Classified, classify

DIRECTORY_KEYS: Final = ("execution.checkpointing.dir", "state.checkpoints.dir")
_STORAGE: Final = "storage"
_ITS_OWN: Final = ("finalize", "trigger_io")  # kinds of reasons: what the JobManager writes itself
# What it cannot do then is write the metadata; that it cannot *complete* one is the store of handles.
_UNFINISHED: Final = "Could not finalize the pending checkpoint"
_PATH: Final = re.compile(
    r"(?:\b(?:file|hdfs|viewfs|s3[an]?|gs|abfss?|wasbs?|oss|cosn?|swift):/{1,3}[^\s'\",;)\]]{3,200})"
    r"|(?<![\w:/.])/(?:[\w.+=@-]{1,80}/){2,}[\w.+=@-]{1,80}"
)
_JOBS_OWN: Final = re.compile(r"/[0-9a-f]{32}(?=/|$).*|/(?:chk-\d+|shared|taskowned)(?=/|$).*")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal of the storage.

    Args:
        checkpoint: run and number; None where it was refused before it got a number.
        who: task and subtask; None where it was the JobManager that was refused.
        said: the class of the exception; None where it only says what failed.
    """

    checkpoint: tuple[int, int] | None
    who: tuple[str, int | None] | None
    taskmanager: str | None
    said: Classified | None
    text: str
    time_us: int | None
    ref: Ref | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The refusals that the storage itself is to blame for.

    Args:
        said: the class that most of them are of; None where no exception tells of the storage, but that the
            JobManager could not write what it writes there.
        path: of the checkpoints, where a setting or a refusal names it.
        taskmanagers: that were refused.
        jobmanager: how many checkpoints failed by what the JobManager says without naming a task.
        itself: whether it says that it was refused when it wrote; without it may have been a task.
        series: the episodes of failed checkpoints that they are in.
    """

    said: Classified | None
    text: str
    path: str | None
    refusals: tuple[Refusal, ...]
    taskmanagers: tuple[str, ...]
    subtasks: int
    jobmanager: int
    itself: bool
    series: tuple[Episode, ...]

    @property
    def checkpoints(self) -> frozenset[tuple[int, int]]:
        """Run and number of those that failed for it, as far as they have one."""
        return frozenset(r.checkpoint for r in self.refusals if r.checkpoint is not None)

    @property
    def attempts(self) -> int:
        """How many checkpoints failed for it, those without a number too."""
        return len(self.checkpoints) + sum(r.checkpoint is None for r in self.refusals)


@once
def refused(job: JobFacts) -> Refused | None:
    """What the storage refused; None where it refused nobody, or one subtask only.

    Two TaskManagers at least, or the JobManager itself: it writes what no subtask has anything to do with.
    """
    sick = {
        (c.run, c.id): c
        for e in episodes(job)
        for c in e.checkpoints
        if c.status in (Status.DECLINED, Status.FAILED, Status.EXPIRED)
    }
    found = [*_refusals(job, sick), *_before_the_number(job)]
    found = found or list(_unfinished(job, sick))
    if not found:
        return None
    name = Counter(_class_of(item) for item in found).most_common(1)[0][0]
    alike = tuple(item for item in found if _class_of(item) == name)
    managers = sorted({item.taskmanager for item in alike if item.taskmanager})
    subtasks = {item.who for item in alike if item.who is not None}
    of_itself = [item for item in alike if item.who is None]
    unnumbered = sum(item.checkpoint is None for item in of_itself)
    jobmanager = unnumbered + len({i.checkpoint for i in of_itself if i.checkpoint is not None})
    several = len(managers) > 1 or (not managers and len({who[0] for who in subtasks}) > 1)
    if not several and not jobmanager:
        return None
    refusal = max(alike, key=lambda item: item.time_us or 0)
    numbers = {item.checkpoint for item in alike}
    return Refused(
        said=refusal.said,
        text=refusal.text,
        path=_path(job, alike),
        refusals=alike,
        taskmanagers=tuple(managers),
        subtasks=len(subtasks),
        jobmanager=jobmanager,
        itself=any(
            item.checkpoint is None or reason_word(sick[item.checkpoint]) in _ITS_OWN
            for item in of_itself
        ),
        series=tuple(
            e for e in episodes(job) if any((c.run, c.id) in numbers for c in e.checkpoints)
        ),
    )


def _refusals(job: JobFacts, sick: Mapping[tuple[int, int], Checkpoint]) -> Iterator[Refusal]:
    declined: set[tuple[int, int]] = set()
    for decline in job.declines:
        declined.add((decline.run, decline.checkpoint))
        yield from _of(decline.reason, (decline.run, decline.checkpoint), sick, decline)
    runs = {number: run for run, number in sorted(sick)}
    for incident in incidents(job, "snapshot-failed", "async-failure"):
        if incident.checkpoint in runs:
            declined.add((runs[incident.checkpoint], incident.checkpoint))
            yield from _of(
                incident.cause, (runs[incident.checkpoint], incident.checkpoint), sick, incident
            )
    for identity, checkpoint in sick.items():
        # Who declined gave its reason to the coordinator, which prints it as its own.
        if checkpoint.status is not Status.EXPIRED and identity not in declined:
            yield from _of(checkpoint.reason, identity, sick, checkpoint)


def _class_of(refusal: Refusal) -> str | None:
    return None if refusal.said is None else refusal.said.name


def _before_the_number(job: JobFacts) -> Iterator[Refusal]:
    """Checkpoints that failed when the JobManager made a place for them."""
    for incident in incidents(job, "not-triggered"):
        said = classify([incident.cause], "flink") if incident.cause else None
        if said is not None and said.kind == _STORAGE:
            yield Refusal(
                None, None, None, said, incident.cause or "", incident.time_us, incident.ref
            )


def _unfinished(job: JobFacts, sick: Mapping[tuple[int, int], Checkpoint]) -> Iterator[Refusal]:
    """Checkpoints that every task acknowledged and the JobManager could not finish, it does not say why."""
    for identity, checkpoint in sick.items():
        text = checkpoint.reason or ""
        if _UNFINISHED in text and classify([text], "flink") is None:
            yield Refusal(identity, None, None, None, text, checkpoint.ended_us, checkpoint.end_ref)


def _of(
    text: str | None,
    identity: tuple[int, int],
    sick: Mapping[tuple[int, int], Checkpoint],
    told: Decline | Incident | Checkpoint,
) -> Iterator[Refusal]:
    if not text or identity not in sick:
        return
    said = classify([text], "flink")
    if said is None or said.kind != _STORAGE:
        return
    if isinstance(told, Checkpoint):
        yield Refusal(identity, None, None, said, text, told.ended_us, told.end_ref)
        return
    who = told.attempt if isinstance(told, Decline) else told
    yield Refusal(
        identity,
        (who.task or "", who.subtask_index),
        who.taskmanager or who.host,
        said,
        text,
        told.time_us,
        told.ref,
    )


def _path(job: JobFacts, refusals: tuple[Refusal, ...]) -> str | None:
    """Where checkpoints go: as configured, else what most refusals have in common."""
    known = setting(job, *DIRECTORY_KEYS)
    if known is not None and known.value:
        return known.value
    found = Counter(
        _JOBS_OWN.sub("", match[0].rstrip("."))
        for item in refusals
        if (match := _PATH.search(item.text)) is not None
    )
    return found.most_common(1)[0][0] if found else None
