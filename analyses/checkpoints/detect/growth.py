"""Checkpoints whose duration or size keeps growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.trends import flanks, is_straight, kendall

_DAY_MS: Final = 86_400_000.0


class Growth(NamedTuple):
    """The growth of the `duration` or `size` of checkpoints.

    Args:
        what, unit: `duration` in `ms`, or `size` in `bytes`.
        checkpoints: the completed ones since the last start, in order.
        before, after: medians of the first and of the last fifth.
        span_ms: from the first to the last one.
        last_us: trigger of the last one.
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
        # The medians of the fifths are four fifths of the span apart.
        return (self.after - self.before) / max(1.0, self.span_ms * 0.8) * 3_600_000

    def is_steady(self, still: float, straight: float, tau: float) -> bool:
        """Return whether it also grows in the second half, in a straight line, and hardly ever shrinks."""
        continues = self.after >= flanks(self.values)[1] * still
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
    """Yield what grows since the last start; the arguments are limits of CP105.

    Args:
        job: the job.
        floors: the least growth, by what grows.
        checkpoints, span_ms: minimum number and time.
        factor, daily_factor: last fifth to first fifth; `daily_factor` for spans of a quarter day to a day.
        still: last fifth to the middle.
        straight, tau: how straight and how steady the growth is.
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
    """Return how the values grow; None without the times of both ends."""
    if not points:
        return None
    checkpoints, values = [c for c, _ in points], [value for _, value in points]
    first, last = checkpoints[0].triggered_us, checkpoints[-1].triggered_us
    if first is None or last is None:
        return None
    before, _, after = flanks(values)
    span_ms = (last - first) / 1000
    return Growth(what, unit, checkpoints, before, after, span_ms, last, values)
