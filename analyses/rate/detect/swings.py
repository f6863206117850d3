"""How much the rate of an estimator oscillates."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import quantile


def late_updates(estimator: h.Replay, fewest: float) -> int:
    return max(int(fewest), len(estimator.updates) // 2)


def swing(estimator: h.Replay, fewest: float = 8) -> tuple[float, float] | None:
    """Return the spread of the recent rates over their median, and the share of updates that reverse the trend."""
    late = [step.new_rate for step in estimator.updates[-late_updates(estimator, fewest) :]]
    rates = [rate for rate in late if rate is not None]
    if len(rates) < max(1, fewest):
        return None
    middle = median(rates)
    spread = (quantile(rates, 0.9) - quantile(rates, 0.1)) / middle if middle else 0.0
    steps = [b - a for a, b in pairwise(rates) if a != b]
    turns = sum((a > 0) != (b > 0) for a, b in pairwise(steps))
    return spread, turns / max(1, len(steps) - 1)
