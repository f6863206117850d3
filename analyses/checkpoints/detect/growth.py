"""Checkpoints whose duration or size keeps growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.trends import fifth_medians, is_straight, kendall

_DAY_MS: Final = 86_400_000.0


class Growth(NamedTuple):
    """The growth of the `duration` or `size` of checkpoints.

    Args:
        what, unit: `duration` in `ms`, or `size` in `bytes`.
        checkpoints: the completed checkpoints since the last start, in order.
        before, after: medians of the first and of the last fifth.
        span_ms: time from the first to the last trigger.
        last_us: time of the last trigger.
        values: durations or sizes, in order.
    """

    what: str
    unit: str
    checkpoints: list[h.Checkpoint]
    before: float
    after: float
    span_ms: float
    last_us: int
    values: list[float]

    @property
    def factor(self) -> float:
        return self.after / max(self.before, 1.0)

    @property
    def per_hour(self) -> float:
        # The medians of the first and the last fifth are four fifths of the span apart.
        return (self.after - self.before) / max(1.0, self.span_ms * 0.8) * 3_600_000

    def is_steady(self, still: float, straight: float, tau: float) -> bool:
        """Return whether values still grow in the second half, follow a nearly straight line, and rarely pause."""
        continues = self.after >= fifth_medians(self.values)[1] * still
        return continues and is_straight(self.values, straight) and self.tau >= tau

    @property
    def tau(self) -> float:
        """Kendall's rank correlation with time."""
        return kendall(self.values)


def growths(
    job: h.Job,
    floors: Mapping[str, float],
    *,
    checkpoints: float,
    span_ms: float,
    factor: float,
    daily_factor: float,
    still: float,
    straight: float,
    tau: float,
) -> h.Iterator[Growth]:
    """Yield the growth of duration and size since the last start. The arguments are limits of CP105.

    Args:
        job: the job.
        floors: minimum growth of `duration` and `size`.
        checkpoints, span_ms: minimum number of checkpoints, and minimum time.
        factor, daily_factor: minimum ratio of the last fifth to the first fifth; `daily_factor` applies to spans of a
            quarter of a day to a day.
        still: minimum ratio of the last fifth to the middle.
        straight, tau: minimum ratio of the rise in the two halves, and minimum rank correlation with time.
    """
    stretches = h.steady_checkpoints(job, h.WARM_UP)
    last = stretches[-1] if stretches else []
    durations = [(c, lasted) for c in last if (lasted := h.elapsed_ms(c)) is not None]
    sizes = [(c, float(c.bytes)) for c in last if c.bytes is not None]
    for grown in (_growth_of("duration", "ms", durations), _growth_of("size", "bytes", sizes)):
        if grown is None or len(grown.values) < checkpoints or grown.span_ms < span_ms:
            continue
        flank = _DAY_MS / 4 <= grown.span_ms <= _DAY_MS
        enough = grown.factor >= (daily_factor if flank else factor)
        if (
            enough
            and grown.after - grown.before >= floors[grown.what]
            and grown.is_steady(still, straight, tau)
        ):
            yield grown


def _growth_of(what: str, unit: str, points: list[tuple[h.Checkpoint, float]]) -> Growth | None:
    """Return the growth of the values, or None if the time of the first or the last trigger is unknown."""
    if not points:
        return None
    checkpoints, values = [c for c, _ in points], [value for _, value in points]
    first, last = checkpoints[0].triggered_us, checkpoints[-1].triggered_us
    if first is None or last is None:
        return None
    before, _, after = fifth_medians(values)
    span_ms = (last - first) / 1000
    return Growth(what, unit, checkpoints, before, after, span_ms, last, values)
