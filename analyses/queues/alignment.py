"""Sources that watermark alignment pauses because another source of their group is far behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.queues.event_time import END_OF_INPUT, emits_records, event_time, held
from flowdiag.analyses.queues.facts import JobQueues, Mark, MarkPoint

_CATCHES_UP: Final = 0.95
"""The lag at the end, as a share of that at the beginning: a source that reads a backlog approaches the clock."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PausedSource:
    """A source that waits for another one.

    Args:
        task: the source that is paused.
        behind: the source with the oldest watermark, which it waits for.
        apart_ms: the difference of their watermarks at the end.
        since_us, until_us: the time in which the paused source emits nothing.
        catches_up: whether the other source approaches the clock.
        marks: the drifts, as evidence.
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
    """Return the source that alignment has paused for the longest time; None without one."""
    found = [paused for task in job.topology.sources if (paused := _paused(job, task)) is not None]
    return min(found, key=lambda paused: (paused.since_us, paused.task), default=None)


def _paused(job: JobQueues, task: str) -> PausedSource | None:
    times = event_time(job)
    keys = [SubtaskKey(task, index) for index in range(job.topology.parallelism.get(task, 0))]
    drifts = [times.gauges.get((key, "watermarkAlignmentDrift")) for key in keys]
    marks = tuple(mark for mark in drifts if mark is not None and (mark.latest or 0) > 0)
    standing = [held(times.output_of(key)) for key in keys]
    known = [now for now in standing if now is not None and now.value is not None]
    if not keys or len(marks) < len(keys) or len(known) < len(keys):
        return None
    if any(emits_records(job, key, now) for key, now in zip(keys, known, strict=True)):
        return None
    value = min(now.value or 0.0 for now in known)
    behind = min(
        (
            (end.last, other, mark)
            for other in job.topology.sources
            if other != task
            for index in range(job.topology.parallelism.get(other, 0))
            if (mark := times.output_of(SubtaskKey(other, index))) is not None
            and (end := mark.points[-1]).last is not None
            and 0 < end.last < min(value, END_OF_INPUT)
        ),
        default=None,
        key=lambda each: (each[0], each[1]),
    )
    if behind is None:
        return None
    oldest, other, mark = behind
    return PausedSource(
        task=task,
        behind=other,
        apart_ms=value - (oldest or 0.0),
        since_us=max(now.since_us for now in known),
        until_us=max(now.until_us for now in known),
        catches_up=_lag_ms(mark.points[-1]) < _CATCHES_UP * _lag_ms(_first(mark)),
        marks=marks[:3],
    )


def _first(mark: Mark) -> MarkPoint:
    return next(point for point in mark.points if point.last is not None)


def _lag_ms(point: MarkPoint) -> float:
    return point.until_us / 1000 - (point.last or 0.0)
