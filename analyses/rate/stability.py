"""Robust trends of noisy series such as the durations of batches.

Batches are noisy: the first one is cold, single ones stall, and others wait for garbage collection. This module
therefore uses medians, the Theil-Sen slope (the median of all pairwise slopes, with a confidence interval from Kendall's
statistic) and the Mann-Kendall test, never end points or means.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

MOST_POINTS: Final = 400
"""Maximum number of points. Longer series are thinned evenly, because comparing all pairs of points would take
seconds and change nothing.
"""

SURE: Final = 1.96  # two-sided 95%
APART: Final = 0.1  # share of the largest x: closer points do not determine a slope


class Stability(StrEnum):
    """The state of an application's streams, or of a query."""

    STABLE = "stable"
    BORDERLINE = "borderline"
    OVERLOADED = "overloaded"
    THROTTLED = "throttled"
    IDLE = "idle"
    FAILING = "failing"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A robust line through a series.

    Args:
        slope: change of y per unit of x. `low` and `high` are its 95% confidence bounds.
        z: Mann–Kendall statistic; above 1.96 the series rises, below -1.96 it falls.
        rise: slope times the length of the series.
        points: number of points.
    """

    slope: float
    low: float
    high: float
    z: float
    rise: float
    points: int

    @property
    def is_rising(self) -> bool:
        """Whether the rise is significant."""
        return self.z > SURE and self.low > 0

    @property
    def is_falling(self) -> bool:
        """Whether the fall is significant."""
        return self.z < -SURE and self.high < 0


def trend(xs: Sequence[float], ys: Sequence[float]) -> Trend | None:
    """Return the Theil–Sen slope with its uncertainty, or None for fewer than four points or if all x are equal.

    >>> trend([0, 1, 2, 3, 4], [0, 2, 4, 6, 100]).slope
    2.0
    >>> trend([1, 2], [1, 2]) is None
    True
    """
    step = max(1, -(-len(xs) // MOST_POINTS))
    # From the end, because the latest points matter most.
    points = sorted(zip(xs, ys, strict=True))[::-1][::step][::-1]
    n = len(points)
    if n < 4:
        return None
    slopes: list[float] = []
    score = 0
    for i in range(n):
        x, y = points[i]
        for j in range(i + 1, n):
            dx, dy = points[j][0] - x, points[j][1] - y
            if dx > 0:
                slopes.append(dy / dx)
            score += (dy > 0) - (dy < 0)
    if not slopes:
        return None
    slopes.sort()
    # The variance of the Mann–Kendall score, corrected for ties.
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(y for _, y in points).values())
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18)
    z = 0.0 if not score or not deviation else (score - math.copysign(1, score)) / deviation
    half = SURE * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = slopes[max(0, math.floor((len(slopes) - half) / 2))]
    high = slopes[min(len(slopes) - 1, math.ceil((len(slopes) + half) / 2))]
    slope = median(slopes)
    return Trend(
        slope=slope,
        low=low,
        high=high,
        z=z,
        rise=slope * (points[-1][0] - points[0][0]),
        points=n,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`y = base + per_x * x`, fitted robustly, with its median error."""

    base: float
    per_x: float
    error: float
    points: int
    low_x: float
    high_x: float

    @property
    def spread(self) -> float:
        """The range of x relative to the largest x. Below a tenth, the line is not reliable."""
        return (self.high_x - self.low_x) / self.high_x if self.high_x else 0.0

    def at(self, x: float) -> float:
        return self.base + self.per_x * x


def fit(xs: Sequence[float], ys: Sequence[float]) -> Line | None:
    """Fit a cost per batch and a cost per record. Return None if the points do not allow a fit.

    Neither cost can be negative. A negative slope means that x explains nothing, and a negative base means that the
    batch has no fixed cost.

    >>> line = fit([10, 20, 30, 40, 50], [110, 120, 130, 140, 150])
    >>> line.base, line.per_x, line.error
    (100.0, 1.0, 0.0)
    """
    top = max(xs, default=0.0)
    if top <= 0:
        return None
    points = list(zip(xs, ys, strict=True))
    points = points[:: max(1, -(-len(points) // MOST_POINTS))]
    # Batches of similar size only show noise, so a slope needs batches of different sizes.
    slopes = [
        (v - y) / (u - x)
        for i, (x, y) in enumerate(points)
        for u, v in points[i + 1 :]
        if abs(u - x) >= APART * top
    ]
    if len(points) < 4 or len(slopes) < len(points):
        return None
    slope = max(0.0, median(slopes))
    base = median(y - slope * x for x, y in zip(xs, ys, strict=True))
    if base < 0:
        base = 0.0
        ratios = [y / x for x, y in zip(xs, ys, strict=True) if x > 0]
        slope = median(ratios) if ratios else 0.0
    error = median(abs(y - base - slope * x) for x, y in zip(xs, ys, strict=True))
    return Line(base=base, per_x=slope, error=error, points=len(xs), low_x=min(xs), high_x=max(xs))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile by the nearest-rank method.

    >>> quantile([3, 1, 2, 4], 0.5), quantile([3, 1, 2, 4], 0.9)
    (2, 4)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
