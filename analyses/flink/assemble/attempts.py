"""Builds the execution attempts with their job, task and place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, key_of, ref_of
from flowdiag.analyses.flink.job import Attempt
from flowdiag.analyses.model.keys import JobKey

_FOREVER_US: Final = 1 << 62


def attempts_of(rows: Iterable[Row], jobs: Jobs) -> dict[str, Attempt]:
    """Return the attempts by ID. Their job comes from their row, their sibling attempts or their log."""
    found: dict[str, Attempt] = {}
    by_task: dict[tuple[str, int | None], set[JobKey]] = defaultdict(set)
    unknown = []
    for row in sorted(rows, key=lambda r: r["attempt_id"]):
        attempt = _attempt(row, jobs)
        found[attempt.attempt_id] = attempt
        if attempt.job is None:
            unknown.append(attempt)
        elif attempt.task:
            by_task[(attempt.task, attempt.parallelism)].add(attempt.job)
    lives: dict[tuple[str | None, int | None, int | None], list[Attempt]] = defaultdict(list)
    for attempt in found.values():
        lives[(attempt.task, attempt.subtask_index, attempt.parallelism)].append(attempt)
    for subtask in {
        (attempt.task, attempt.subtask_index, attempt.parallelism): None for attempt in unknown
    }:
        owners = by_task.get((subtask[0] or "", subtask[2]), set())
        if len(owners) != 1:
            continue
        (owner,) = owners
        candidates = [attempt for attempt in lives[subtask] if attempt.job in (None, owner)]
        doubtful = _overlapping(candidates)
        for attempt in candidates:
            if attempt.job is None and attempt.attempt_id not in doubtful:
                found[attempt.attempt_id] = replace(attempt, job=owner)
    return _name_by_vertex(found)


def _attempt(row: Row, jobs: Jobs) -> Attempt:
    job = key_of(row["cluster"], row["job_id"]) if row["job_id"] is not None else None
    return Attempt(
        job=job
        or jobs.of_graph(row["attempt_id"])
        or jobs.of_stream(row["jobmanager_source"], row["jobmanager_owner"])
        or jobs.only
        or jobs.of_start(row["scheduled_source"], row["scheduled_owner"], row["scheduled_us"]),
        attempt_id=row["attempt_id"],
        vertex_id=row["vertex_id"],
        task=row["task"],
        subtask_index=row["subtask_index"],
        parallelism=row["parallelism"],
        attempt=row["attempt"],
        taskmanager=row["taskmanager"],
        host=row["host"],
        deployed_us=row["deployed_us"] or row["first_us"],
        ended_us=row["ended_us"],
        ref=ref_of(row),
    )


def _overlapping(attempts: Iterable[Attempt]) -> set[str]:
    """Return the attempts that overlap.

    A subtask runs one attempt at a time, so one of two overlapping attempts belongs to another job.
    """
    lives = sorted(
        (
            attempt.deployed_us or 0,
            attempt.ended_us if attempt.ended_us is not None else _FOREVER_US,
            attempt.attempt_id,
        )
        for attempt in attempts
    )
    found = set()
    latest = 0
    for (_, end, before), (start, _, after) in pairwise(lives):
        latest = max(latest, end)
        if start < latest:
            found.add(after)
        if start < end:
            found.add(before)
    return found


def _name_by_vertex(attempts: dict[str, Attempt]) -> dict[str, Attempt]:
    """Name attempts by the vertex in their four-part IDs: one named attempt names all attempts of its vertex."""
    names: dict[tuple[JobKey | None, str | None], Attempt] = {
        (attempt.job, attempt.vertex_id): attempt
        for attempt in attempts.values()
        if attempt.vertex_id and attempt.task
    }
    for attempt_id, attempt in attempts.items():
        known = names.get((attempt.job, attempt.vertex_id))
        if known and attempt.vertex_id and (attempt.task is None or attempt.parallelism is None):
            attempts[attempt_id] = replace(attempt, task=known.task, parallelism=known.parallelism)
    return attempts
