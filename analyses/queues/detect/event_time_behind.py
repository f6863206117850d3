"""Sources whose event times fall further and further behind the clock, and why."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.alignment import paused_source

_STEP_BACK: Final = 0.1
"""Maximum step back of a growing lag, as a share of its growth. An event after a pause reduces the lag by more."""
_MOSTLY: Final = 0.5


class Rise(NamedTuple):
    """How far a watermark is behind the clock, at the start and the end of its rise."""

    first_ms: float
    last_ms: float
    since_us: int
    until_us: int

    @property
    def growth_ms(self) -> float:
        return self.last_ms - self.first_ms

    @property
    def seconds(self) -> float:
        return (self.until_us - self.since_us) / 1e6


class Behind(NamedTuple):
    """A source whose event times fall behind the clock.

    Args:
        task: the source.
        rise: its lag.
        key: the subtask with the oldest watermark.
        marks: the watermarks, as evidence.
        fetched_ms, emitted_ms: how old the newest records are when the source receives and emits them, if known.
        reads_all: whether no records wait in the source's system, or None if unknown.
    """

    task: str
    rise: Rise
    key: h.SubtaskKey
    marks: tuple[h.Mark, ...]
    fetched_ms: float | None
    emitted_ms: float | None
    reads_all: bool | None

    @property
    def has_recent_records(self) -> bool:
        """Whether the newest records are much more recent than the watermark."""
        return self.emitted_ms is not None and self.emitted_ms < _MOSTLY * self.rise.last_ms

    @property
    def kept_ms(self) -> float | None:
        """For how long records wait inside the source, if that is most of the lag."""
        if self.emitted_ms is None or self.fetched_ms is None:
            return None
        kept = self.emitted_ms - self.fetched_ms
        return kept if kept >= _MOSTLY * self.rise.last_ms else None


def event_time_behind(
    job: h.JobQueues, task: str, *, behind_s: float, seconds: float, pace: float
) -> Behind | None:
    """Return a source whose event times fall behind, unless another rule reports the reason.

    Args:
        job: the job.
        task: the source.
        behind_s: minimum lag at the end.
        seconds: minimum time of the rise.
        pace: minimum growth of the lag per second.
    """
    rises = {
        key: (rise, mark)
        for index in range(job.topology.parallelism.get(task, 0))
        if (mark := e.event_time(job).output_of(key := h.SubtaskKey(task, index))) is not None
        and (rise := _rise_of(mark)) is not None
    }
    if not rises:
        return None
    key = max(rises, key=lambda key: rises[key][0].last_ms)
    rise = rises[key][0]
    if rise.last_ms < behind_s * 1000 or rise.seconds < seconds:
        return None
    if rise.growth_ms < pace * rise.seconds * 1000 or _is_explained(job, task):
        return None
    pending = h.trend_of(job, task)
    return Behind(
        task=task,
        rise=rise,
        key=key,
        marks=tuple(mark for _, mark in rises.values())[:3],
        fetched_ms=_newest(job, task, "fetch_lag_ms"),
        emitted_ms=_newest(job, task, "emit_lag_ms"),
        reads_all=None if pending is None else pending.last <= (pending.rate or 0.0),
    )


def _rise_of(mark: h.Mark) -> Rise | None:
    """Return the rise of a watermark's lag at the end of the metrics, or None if it does not rise steadily.

    A watermark that advances in few samples belongs to a source with few records, or does not advance at all.
    """
    points = [
        (point.until_us, point.last)
        for point in mark.points
        if point.n and point.last is not None and 0 < point.last < e.END_OF_INPUT
    ]
    lags = [us / 1000 - value for us, value in points]
    start = max((at for at, lag in enumerate(lags) if lag == min(lags)), default=0)
    points, lags = points[start:], lags[start:]
    if len(points) < 3:
        return None
    rise = Rise(lags[0], lags[-1], points[0][0], points[-1][0])
    advances = sum(before < value for (_, before), (_, value) in pairwise(points))
    falls = any(before - lag > _STEP_BACK * rise.growth_ms for before, lag in pairwise(lags))
    return None if falls or advances < _MOSTLY * (len(points) - 1) else rise


def _is_explained(job: h.JobQueues, task: str) -> bool:
    """Return whether tasks downstream, unread records or watermark alignment delay the source."""
    trend = h.trend_of(job, task)
    return (
        bool(h.serious_spells(job))
        or h.has_back_pressured_sources(job)
        or (trend is not None and trend.direction == "growing")
        or paused_source(job) is not None
    )


def _newest(job: h.JobQueues, task: str, name: str) -> float | None:
    """Return the largest value of a gauge among the subtasks of a task in their last windows.

    A subtask without records keeps its last value.
    """
    last = [each[-1] for key, each in job.samples.items() if key.task == task and each]
    gauges = [each.gauges.get(name) for each in last if each.increases.get("records_out") != 0]
    known = [gauge.high for gauge in gauges if gauge is not None and gauge.n]
    return max(known, default=None)
