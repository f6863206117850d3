"""Measures how long subtasks write their snapshots, by checkpoint and TaskManager."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.pressure import median

Rows = list[h.SubtaskCheckpoint]
_MOST: Final = 0.75
"""Maximum share of slow writes of a subtask: a subtask that is nearly always slow has its own cause."""


def rows_with_state(job: h.Job) -> dict[int, Rows]:
    """Return the rows of subtasks that wrote state, by checkpoint."""
    found: defaultdict[int, Rows] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.acknowledged and row.async_ms is not None and (row.bytes or 0) > 0:
            found[row.checkpoint].append(row)
    return found


def written_ms(row: h.SubtaskCheckpoint) -> float:
    return float(row.async_ms or 0)


def writes_slowly(rows: Rows, *, async_ms: float, share: float, throughput: float) -> bool:
    """Return whether writes take long, dominate the checkpoint time, and move little data."""
    part = median(written_ms(row) / max(1, row.end_to_end_ms or row.async_ms or 1) for row in rows)
    rate = median((row.bytes or 0) * 1000 / max(1, row.async_ms or 1) for row in rows)
    return (
        (median(map(written_ms, rows)) or 0.0) >= async_ms
        and (part or 0.0) >= share
        and (rate or 0.0) <= throughput
    )


def slow_taskmanager_of(rows: Rows, *, async_ms: float, times: float) -> str | None:
    """Return the TaskManager whose subtasks all write slowly while all other subtasks write fast, or None."""
    places: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.taskmanager is not None:
            places[row.taskmanager].append(written_ms(row))
    if len(places) < 2:
        return None
    worst, *others = sorted(places, key=lambda name: -min(places[name]))
    fastest, slowest = min(places[worst]), max(max(places[name]) for name in others)
    # At least two subtasks: a single one is a slow snapshot (CP201), not a slow TaskManager.
    if len(places[worst]) < 2 or fastest < async_ms:
        return None
    return worst if fastest >= times * max(1.0, slowest) else None


def slow_rows(
    detailed: dict[int, Rows], *, async_ms: float, share: float, throughput: float
) -> dict[int, Rows]:
    """Return the subtasks that write slowly, by checkpoint. Checkpoints without such subtasks are omitted."""
    found = (
        (number, [row for row in rows if _is_slow(row, async_ms, share, throughput)])
        for number, rows in detailed.items()
    )
    return {number: slow for number, slow in found if slow}


def are_slow_in_turn(detailed: dict[int, Rows], slow: dict[int, Rows], least: float) -> bool:
    """Return whether at least `least` subtasks on several TaskManagers are slow, but not all the time.

    No subtask may have more than half of the slow writes, and none may be slow in most of its own writes.
    """
    writes, counts = _counts(detailed), _counts(slow)
    places = {row.taskmanager for rows in slow.values() for row in rows}
    if len(counts) < least or len(places) < 2 or max(counts.values()) > 0.5 * counts.total():
        return False
    return all(count <= _MOST * writes[who] for who, count in counts.items() if writes[who] > 1)


def subtask_count(found: dict[int, Rows]) -> int:
    """Return the number of distinct subtasks."""
    return len(_counts(found))


def _counts(found: dict[int, Rows]) -> Counter[tuple[str | None, int]]:
    return Counter((row.task, row.subtask_index) for rows in found.values() for row in rows)


def _is_slow(row: h.SubtaskCheckpoint, async_ms: float, share: float, throughput: float) -> bool:
    return writes_slowly([row], async_ms=async_ms, share=share, throughput=throughput)
