"""Tests whether two series of measurements differ. The test is for few, skewed, autocorrelated values.

Durations and delays are skewed, so the test compares ranks instead of means (Mann and Whitney). Slow checkpoints follow
each other, so ten in a row are not ten independent values. Both series are therefore cut into stretches, and each
stretch counts with its median. The length of the stretches depends on the autocorrelation, so that consecutive
stretches are almost independent. Up to `_EXACT` values, the test is exact: it counts all cases, including ties.

The lower of the two autocorrelations counts. Under the null hypothesis both series have the same one, and a series
that changes half-way has a high one for that reason alone. Reports contain only the mean of shares of time, so these
are compared as proportions. No quantity between 0 and 1 has a larger variance than one that is either 0 or 1.

scipy has no such test (its exact test does not support ties) and would add 35 MB.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist, median
from typing import Final

LEVEL: Final = 0.01
"""The accepted probability of a false positive for all measures of a comparison together."""
FEWEST: Final = 5
"""Minimum number of independent values per side. With four and four, the rarest order has a probability of 2.9%."""

_EXACT: Final = 24  # maximum number of values of both sides together for the exact test
_HIGHEST: Final = 0.97  # maximum autocorrelation; above it, a series has no level
_RESEMBLANCE: Final = 2.0  # number of samples of a share that count as one independent sample


def autocorrelation(*series: Sequence[float]) -> float:
    """Return the smallest autocorrelation of the series at lag 1, from 0 to `_HIGHEST`.

    It uses ranks, which outliers do not distort. It adds the bias of short series (Marriott and Pope 1954: about
    (1 + 3 rho) / n) and the standard error, because a value that is too small causes false positives.

    >>> autocorrelation([1, 9, 2, 8, 3, 7, 4, 6] * 4, list(range(50)))
    0.0
    >>> autocorrelation(list(range(50))) > 0.9
    True
    """
    found = []
    for values in series:
        if len(values) > 2 and len(set(values)) > 1:
            centred = [rank - (len(values) + 1) / 2 for rank in ranks(values)]
            spread = sum(rank * rank for rank in centred)
            # The correlation of each rank with the previous one, from -1 to 1.
            rho = sum(map(float.__mul__, centred[1:], centred[:-1])) / spread
            rho += (1 + 3 * rho) / len(values)
            rho += math.sqrt(max(0.0, 1 - rho * rho) / len(values))
            found.append(min(max(rho, 0.0), _HIGHEST))
    return min(found, default=0.0)


def independent_stretches(count: int, rho: float) -> int:
    """Return the number of almost independent stretches of a series.

    With n (1 - rho) / (1 + rho) stretches, neighbouring stretches would still correlate at their ends.
    Three times rho in the denominator keeps the promised error rate (see `python -m benchmarks.compare`).

    >>> independent_stretches(40, 0.0), independent_stretches(40, 0.5), independent_stretches(3, 0.9)
    (40, 8, 1)
    """
    return max(1, math.floor(count * (1 - rho) / (1 + 3 * rho) + 1e-9)) if count else 0


def stretches(
    values: Sequence[float], count: int, middle: Callable[[Sequence[float]], float] = median
) -> list[float]:
    """Cut the series into stretches of about equal length, and return the median of each.

    >>> stretches([1, 2, 3, 10, 20, 30], 2)
    [2, 20]
    """
    ends = [round(number * len(values) / count) for number in range(count + 1)]
    return [middle(values[low:high]) for low, high in pairwise(ends)]


def ranks(values: Sequence[float]) -> list[float]:
    """Return the 1-based rank of each value. Ties get their mean rank.

    >>> ranks([5, 1, 5])
    [2.5, 1.0, 2.5]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    low = 0
    while low < len(order):
        high = low
        while high + 1 < len(order) and values[order[high + 1]] == values[order[low]]:
            high += 1
        for place in range(low, high + 1):
            found[order[place]] = (low + high) / 2 + 1
        low = high + 1
    return found


def rank_test(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the two-sided p-value for two groups of independent values.

    >>> round(rank_test([1, 2, 3, 4], [5, 6, 7, 8]), 4)  # 2 of 70 orders
    0.0286
    >>> rank_test([1, 2], [1, 2])
    1.0
    """
    pooled = ranks([*before, *after])
    size, total = len(before), len(pooled)
    # Doubled, so that the ranks of ties are also integers.
    doubled = [round(2 * rank) for rank in pooled]
    seen, expected = sum(doubled[:size]), size * (total + 1)
    if total <= _EXACT:
        return _exact_p_value(doubled, size, abs(seen - expected))
    ties = sum(count**3 - count for count in Counter(pooled).values())
    variance = size * (total - size) / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    away = max(0.0, abs(seen - expected) / 2 - 0.5)  # half a rank as continuity correction
    return min(1.0, 2 * NormalDist().cdf(-away / math.sqrt(variance)))


def _exact_p_value(doubled: Sequence[int], size: int, away: int) -> float:
    """Return the share of all choices of `size` ranks whose sum is at least `away` from the mean."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in doubled:
        for chosen in range(size, 0, -1):
            for value, count in ways[chosen - 1].items():
                ways[chosen][value + rank] += count
    mean = size * (len(doubled) + 1)
    far = sum(count for value, count in ways[size].items() if abs(value - mean) >= away)
    return far / math.comb(len(doubled), size)


def share_test(before: float, samples: int, after: float, others: int) -> float | None:
    """Return the p-value for two shares of time, or None if there are too few samples.

    Each share is a mean of samples. Agresti and Caffo's interval (2000) adds one success and one failure per side,
    which keeps the error rate even with few samples and near 0 and 1.

    >>> share_test(0.05, 14, 0.98, 14) < 0.001, share_test(0.05, 8, 0.98, 8)
    (True, None)
    """
    first, second = samples / _RESEMBLANCE, others / _RESEMBLANCE
    if min(first, second) < FEWEST:
        return None
    low, high = (before * first + 1) / (first + 2), (after * second + 1) / (second + 2)
    scatter = low * (1 - low) / (first + 2) + high * (1 - high) / (second + 2)
    return min(1.0, 2 * NormalDist().cdf(-abs(high - low) / math.sqrt(scatter)))


def holm(chances: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for multiple tests (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    found, worst = [0.0] * len(chances), 0.0
    for place, number in enumerate(order):
        worst = max(worst, min(1.0, (len(chances) - place) * chances[number]))
        found[number] = worst
    return found
