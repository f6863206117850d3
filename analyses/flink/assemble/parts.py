"""Builds each subtask's part of each checkpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, key_of, ref_of
from flowdiag.analyses.flink.job import Attempt, Graph, SubtaskCheckpoint
from flowdiag.analyses.model.keys import JobKey
from flowdiag.parsers.rows import Event


def parts_of(
    rows: Iterable[Row],
    attempts: Mapping[str, Attempt],
    graphs: Mapping[JobKey, Graph],
    jobs: Jobs,
) -> list[SubtaskCheckpoint]:
    """Return the reports of subtasks whose job is known, one per checkpoint and subtask."""
    known = _KnownPlaces(attempts, graphs, jobs)
    order = sorted(
        rows, key=lambda r: (r["checkpoint"], r["vertex_id"] or "", r["subtask_index"] or 0)
    )
    found = (_part(row, attempts.get(row["attempt_id"] or ""), known) for row in order)
    return _merge_parts(part for part in found if part is not None)


class _KnownPlaces:
    """Vertices by ID, jobs by task, and the last known place of each subtask."""

    def __init__(
        self, attempts: Mapping[str, Attempt], graphs: Mapping[JobKey, Graph], jobs: Jobs
    ) -> None:
        self._jobs = jobs
        self.names: dict[tuple[JobKey | None, str | None], str] = {
            (graph.job, vertex.vertex_id): vertex.task
            for graph in graphs.values()
            for vertex in graph.vertices
            if vertex.vertex_id
        }
        self.places: dict[tuple[JobKey | None, str | None, int | None], Attempt] = {}
        for attempt in sorted(attempts.values(), key=lambda a: a.deployed_us or 0):
            self.places[(attempt.job, attempt.task, attempt.subtask_index)] = attempt
        self._by_task: dict[str, set[JobKey]] = defaultdict(set)
        for attempt in attempts.values():
            if attempt.task and attempt.job:
                self._by_task[attempt.task].add(attempt.job)

    def job_of(self, row: Row, attempt: Attempt | None) -> JobKey | None:
        """Return the job that a row names or, failing that, the job of its attempt or the only job with its task."""
        if row["job_id"]:
            return key_of(None, row["job_id"])
        if attempt is not None and attempt.job is not None:
            return attempt.job
        owners = self._by_task.get(row["task"] or "", set())
        return next(iter(owners)) if len(owners) == 1 else self._jobs.only


def _part(row: Row, attempt: Attempt | None, known: _KnownPlaces) -> SubtaskCheckpoint | None:
    """Build one report, or return None if its job or subtask is unknown."""
    job = known.job_of(row, attempt)
    task, vertex_id, subtask_index = row["task"], row["vertex_id"], row["subtask_index"]
    if attempt is not None:
        task, vertex_id = task or attempt.task, vertex_id or attempt.vertex_id
        subtask_index = attempt.subtask_index if subtask_index is None else subtask_index
    if job is None or subtask_index is None:
        return None
    task = task or known.names.get((job, row["vertex_id"]))
    place = known.places.get((job, task, subtask_index))
    fields = row["fields"] or {}
    return SubtaskCheckpoint(
        job=job,
        checkpoint=row["checkpoint"],
        vertex_id=vertex_id or None,
        task=task,
        subtask_index=subtask_index,
        acknowledged=fields.get("status") == "completed" or not _REPORTED.isdisjoint(row["events"]),
        end_to_end_ms=row["duration_ms"] if row["origin"] != "debug" else None,
        sync_ms=_number(fields.get("sync_ms"), row["sync_ms"]),
        async_ms=_number(fields.get("async_ms"), row["async_ms"]),
        alignment_ms=_number(fields.get("alignment_ms"), row["alignment_ms"]),
        start_delay_ms=_number(fields.get("start_delay_ms"), None),
        bytes=row["bytes"],
        taskmanager=(
            row["taskmanager"]
            or (place.taskmanager if place else None)
            or row["writer_taskmanager"]
        ),
        source=row["origin"],
        ref=ref_of(row),
    )


# Events of a subtask that has completed its part.
_REPORTED: Final = frozenset({Event.ACKNOWLEDGED.value, Event.ASYNCHRONOUS_PART.value})


def _merge_parts(parts: Iterable[SubtaskCheckpoint]) -> list[SubtaskCheckpoint]:
    """Merge the reports of each checkpoint and subtask, because archives and saved responses overlap.

    An acknowledgement overrides a missing one, because a response may have been saved earlier. The first kind in
    `_ORIGINS` takes precedence; later kinds fill in missing values.
    """
    merged: dict[tuple[JobKey, int, str | None, int], SubtaskCheckpoint] = {}
    for part in sorted(parts, key=lambda p: (not p.acknowledged, _ORIGINS.index(p.source))):
        key = (part.job, part.checkpoint, part.task or part.vertex_id, part.subtask_index)
        known = merged.get(key)
        if known is None:
            merged[key] = part
            continue
        merged[key] = replace(
            known,
            **{name: getattr(part, name) for name in _PART_VALUES if getattr(known, name) is None},
        )
    return sorted(
        merged.values(), key=lambda p: (p.checkpoint, p.vertex_id or p.task or "", p.subtask_index)
    )


_ORIGINS: Final = ("archive", "rest", "dump", "debug")


_PART_VALUES: Final = (
    "vertex_id",
    "task",
    "end_to_end_ms",
    "sync_ms",
    "async_ms",
    "alignment_ms",
    "start_delay_ms",
    "bytes",
    "taskmanager",
)


def _number(text: str | None, other: int | None) -> int | None:
    if other is not None:
        return other
    try:
        return int(float(text)) if text is not None else None
    except ValueError:
        return None
