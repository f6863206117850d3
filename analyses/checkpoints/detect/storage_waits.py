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
        """The storage and its client, such as "Amazon S3, through Hadoop's S3A file system"."""
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
    overdue = _overdue(job)
    waiting = [s for s in job.stacks if s.kind == "checkpoint" and s.component in components()]
    by_process: defaultdict[str | None, dict[str, Stack]] = defaultdict(dict)
    during: dict[int, h.Checkpoint] = {}
    for checkpoint in overdue:
        for stack in waiting:
            if _is_during(stack, checkpoint):
                by_process[stack.taskmanager].setdefault(stack.dump, stack)
                during[checkpoint.id] = checkpoint
    found = [
        StorageWait(
            taskmanager=name,
            stacks=tuple(by_dump.values()),
            checkpoints=tuple(during[number] for number in sorted(during)),
        )
        for name, by_dump in by_process.items()
        if len(by_dump) >= AGREEING
    ]
    return min(found, key=lambda w: (w.taskmanager is not None, -len(w.stacks)), default=None)


def _overdue(job: h.Job) -> list[h.Checkpoint]:
    """Return the checkpoints that expired, and the last one if it takes much longer than usual."""
    expired = [c for c in job.checkpoints if c.status is h.Status.EXPIRED]
    last = pending(job)
    if last is None or last.age_ms < last.limit_ms(TIMES, LEAST_MS):
        return expired
    return [*expired, last.checkpoint]


def _is_during(stack: Stack, checkpoint: h.Checkpoint) -> bool:
    began, ended = checkpoint.triggered_us, checkpoint.ended_us
    if stack.time_us is None or began is None:
        return False
    return began <= stack.time_us and (ended is None or stack.time_us <= ended)
