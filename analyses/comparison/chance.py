"""Whether two series of measurements differ: a test for few, skewed values that resemble their neighbours.

Durations and delays are skewed, so that means say little: ranks are compared (Mann and Whitney). A slow
checkpoint is followed by slow ones, so that ten in a row are not ten independent values: both series are cut into
stretches so long that one hardly resembles the next, by their own autocorrelation, and each stretch counts by its
median. A handful of values is few: up to `_EXACT` of them the test is exact, by counting, ties among them.

The autocorrelation is that of the calmer series: under the hypothesis that is tested nothing has changed, so that both
have the same, and a series that fell sick half-way resembles itself for that alone. Shares of time, of which reports hold the mean of so many samples only, are compared as proportions: no
quantity between 0 and 1 scatters more than one that is either.

scipy has no such test either (its exact one knows no ties), and would be 35 MB for what is below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist, median
from typing import Final

LEVEL: Final = 0.01
"""The chance of a false claim that is accepted, over all measures of a comparison together."""
FEWEST: Final = 5
"""Independent values of a side below which nothing can be told: of four and four the rarest order has 2.9%."""

_EXACT: Final = 24  # values of both sides together
_HIGHEST: Final = 0.97  # of an autocorrelation: more would be a series without a level
_RESEMBLANCE: Final = 2.0  # samples of a share that tell as much as an independent one


def autocorrelation(*series: Sequence[float]) -> float:
    """How much each value resembles the one before it, in the series where it does least; 0 to `_HIGHEST`.

    Of ranks, which outliers do not distort; made larger by what short series underestimate (Marriott and Pope
    1954: about (1 + 3 rho) / n), and by its standard error: to take it for too small makes false claims.

    >>> autocorrelation([1, 9, 2, 8, 3, 7, 4, 6] * 4, list(range(50)))
    0.0
    >>> autocorrelation(list(range(50))) > 0.9
    True
    """
    found = []
    for values in series:
        if len(values) > 2 and len(set(values)) > 1:
            rho = _resemblance(values)
            rho += (1 + 3 * rho) / len(values)
            rho += math.sqrt(max(0.0, 1 - rho * rho) / len(values))
            found.append(min(max(rho, 0.0), _HIGHEST))
    return min(found, default=0.0)


def _resemblance(values: Sequence[float]) -> float:
    """How far the rank of each value is that of the one before it: -1 to 1."""
    centred = [rank - (len(values) + 1) / 2 for rank in ranks(values)]
    spread = sum(rank * rank for rank in centred)
    return sum(map(float.__mul__, centred[1:], centred[:-1])) / spread


def independent(count: int, rho: float) -> int:
    """Into how many stretches a series can be cut that hardly resemble each other.

    As many as it has independent values, n (1 - rho) / (1 + rho), would still resemble each other at their ends:
    with three times the rho below the line the test keeps its word (`python -m benchmarks.compare`).

    >>> independent(40, 0.0), independent(40, 0.5), independent(3, 0.9)
    (40, 8, 1)
    """
    return max(1, math.floor(count * (1 - rho) / (1 + 3 * rho) + 1e-9)) if count else 0


def stretches(
    values: Sequence[float], count: int, middle: Callable[[Sequence[float]], float] = median
) -> list[float]:
    """The series cut into so many stretches of about the same length, each by its middle.

    >>> stretches([1, 2, 3, 10, 20, 30], 2)
    [2, 20]
    """
    ends = [round(number * len(values) / count) for number in range(count + 1)]
    return [middle(values[low:high]) for low, high in pairwise(ends)]


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal ones share the mean of theirs.

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
    """How often chance alone parts two groups of independent values at least so far, to either side.

    >>> round(rank_test([1, 2, 3, 4], [5, 6, 7, 8]), 4)  # 2 of 70 orders
    0.0286
    >>> rank_test([1, 2], [1, 2])
    1.0
    """
    pooled = ranks([*before, *after])
    size, total = len(before), len(pooled)
    # Doubled, so that shared ranks are whole numbers, too.
    doubled = [round(2 * rank) for rank in pooled]
    seen, expected = sum(doubled[:size]), size * (total + 1)
    if total <= _EXACT:
        return _by_counting(doubled, size, abs(seen - expected))
    ties = sum(count**3 - count for count in Counter(pooled).values())
    variance = size * (total - size) / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    away = max(0.0, abs(seen - expected) / 2 - 0.5)  # half a rank, for what is not continuous
    return min(1.0, 2 * NormalDist().cdf(-away / math.sqrt(variance)))


def _by_counting(doubled: Sequence[int], size: int, away: int) -> float:
    """Of all choices of so many ranks, the part whose sum is at least so far from its mean."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in doubled:
        for chosen in range(size, 0, -1):
            for value, count in ways[chosen - 1].items():
                ways[chosen][value + rank] += count
    mean = size * (len(doubled) + 1)
    far = sum(count for value, count in ways[size].items() if abs(value - mean) >= away)
    return far / math.comb(len(doubled), size)


def share_test(before: float, samples: int, after: float, others: int) -> float | None:
    """How often chance alone parts two shares of time so far; None: of too few samples.

    Each is the mean of so many samples. Agresti and Caffo's interval (2000): one success and one failure more on
    each side, which keeps its word with few samples and near 0 and 1.

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
    """The chances, made larger by how many were looked at (Holm 1979): one of many is always rare.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    found, worst = [0.0] * len(chances), 0.0
    for place, number in enumerate(order):
        worst = max(worst, min(1.0, (len(chances) - place) * chances[number]))
        found[number] = worst
    return found
