"""Finds the threads that wait for the checkpoint storage while a checkpoint is overdue, in thread dumps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.checkpoints.pending import LEAST_MS, TIMES, pending
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.stacks import Stack
from flowdiag.parsers.components import components

AGREEING: Final = 2
"""Minimum number of dumps of a process in which it waits for the storage. One may show a rare moment."""


@dataclass(frozen=True, slots=True)
class StorageWait:
    """A process whose threads wait for the checkpoint storage.

    Args:
        taskmanager: the process; None for the JobManager.
        stacks: its waiting threads, one per dump.
        checkpoints: the overdue checkpoints during which the dumps were taken.
    """

    taskmanager: str | None
    stacks: tuple[Stack, ...]
    checkpoints: tuple[h.Checkpoint, ...]

    @property
    def storage(self) -> str:
        """What the storage is, such as "Amazon S3, through Hadoop's S3A file system"."""
        return components()[self.stacks[-1].component or ""].what

    @property
    def clause(self) -> str:
        """How often which thread waits."""
        process = self.taskmanager or "the JobManager"
        number = h.fmt.plural(len(self.stacks), "thread dump")
        thread = self.stacks[-1].thread
        return f"{thread} of {process} waits for the storage in {number} ({self.storage})"


@once
def storage_wait(job: h.Job) -> StorageWait | None:
    """Return the process that waits for the storage in the most dumps during overdue checkpoints, the JobManager first."""
    overdue = [c for c in job.checkpoints if c.status is h.Status.EXPIRED]
    last = pending(job)
    if last is not None and last.age_ms >= last.limit_ms(TIMES, LEAST_MS):
        overdue.append(last.checkpoint)
    found: defaultdict[str | None, dict[str, Stack]] = defaultdict(dict)
    during: dict[int, h.Checkpoint] = {}
    for stack in job.stacks:
        if stack.kind != "checkpoint" or stack.component not in components():
            continue
        for checkpoint in overdue:
            if _is_during(stack, checkpoint):
                found[stack.taskmanager].setdefault(stack.dump, stack)
                during[checkpoint.id] = checkpoint
    ranked = sorted(found, key=lambda name: (name is not None, -len(found[name]), name or ""))
    chosen = next((name for name in ranked if len(found[name]) >= AGREEING), "")
    if chosen == "":
        return None
    return StorageWait(
        taskmanager=chosen,
        stacks=tuple(found[chosen].values()),
        checkpoints=tuple(during[number] for number in sorted(during)),
    )


def _is_during(stack: Stack, checkpoint: h.Checkpoint) -> bool:
    began, ended = checkpoint.triggered_us, checkpoint.ended_us
    if stack.time_us is None or began is None:
        return False
    return began <= stack.time_us and (ended is None or stack.time_us <= ended)
