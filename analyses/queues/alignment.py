"""Sources that watermark alignment pauses because another source of their group is far behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.event_time import (
    END_OF_INPUT,
    ConstantWatermark,
    constant_period,
    emits_records,
    event_time,
)
from flowdiag.analyses.queues.facts import JobQueues, Mark, MarkPoint

_CATCHES_UP: Final = 0.95
"""Maximum ratio of the final lag to the first lag: a source that reads a backlog approaches the clock."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PausedSource:
    """A source that waits for another source.

    Args:
        task: the paused source.
        behind: the source that it waits for, which has the oldest watermark.
        apart_ms: difference of the two watermarks at the end.
        since_us, until_us: start and end of the time in which the paused source emits nothing.
        catches_up: whether the watermark of the other source approaches the clock.
        marks: gauges of the alignment drift, as evidence.
    """

    task: str
    behind: str
    apart_ms: float
    since_us: int
    until_us: int
    catches_up: bool
    marks: tuple[Mark, ...]


@once
def paused_source(job: JobQueues) -> PausedSource | None:
    """Return the source that alignment has paused for the longest time, or None."""
    found = [
        paused for task in job.topology.sources if (paused := _pause_of(job, task)) is not None
    ]
    return min(found, key=lambda paused: (paused.since_us, paused.task), default=None)


def _pause_of(job: JobQueues, task: str) -> PausedSource | None:
    times = event_time(job)
    keys = [SubtaskKey(task, index) for index in range(job.topology.parallelism.get(task, 0))]
    drifts = [times.gauges.get((key, "watermarkAlignmentDrift")) for key in keys]
    marks = tuple(mark for mark in drifts if mark is not None and (mark.latest or 0) > 0)
    held = _silent_watermarks(job, keys)
    if not held or len(marks) < len(keys):
        return None
    value = min(now.value or 0.0 for now in held)
    behind = _oldest_watermark(job, task, value)
    if behind is None:
        return None
    oldest, other, mark = behind
    return PausedSource(
        task=task,
        behind=other,
        apart_ms=value - oldest,
        since_us=max(now.since_us for now in held),
        until_us=max(now.until_us for now in held),
        catches_up=_lag_ms(mark.points[-1]) < _CATCHES_UP * _lag_ms(_first_point(mark)),
        marks=marks[:3],
    )


def _silent_watermarks(job: JobQueues, keys: Sequence[SubtaskKey]) -> list[ConstantWatermark]:
    """Return the subtasks' watermarks. Empty if a subtask emits records or has no watermark."""
    times, found = event_time(job), []
    for key in keys:
        now = constant_period(times.output_of(key))
        if now is None or now.value is None or emits_records(job, key, now):
            return []
        found.append(now)
    return found


def _oldest_watermark(job: JobQueues, task: str, value: float) -> tuple[float, str, Mark] | None:
    """Return the oldest watermark below `value` among the other sources, as (watermark, source, gauge), or None."""
    found = []
    for key, marks in event_time(job).outputs.items():
        if key.task == task or key.task not in job.topology.sources:
            continue
        mark = max(marks, key=lambda each: each.latest or 0.0)
        if 0 < (mark.latest or 0.0) < min(value, END_OF_INPUT):
            found.append((mark.latest or 0.0, key.task, mark))
    return min(found, default=None, key=lambda each: each[:2])


def _first_point(mark: Mark) -> MarkPoint:
    return next(point for point in mark.points if point.last is not None)


def _lag_ms(point: MarkPoint) -> float:
    return point.until_us / 1000 - (point.last or 0.0)
