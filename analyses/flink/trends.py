"""Measures trends in a series of checkpoint sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median_high
from typing import Final

_SAMPLE: Final = 200  # checkpoints for the rank correlation, whose cost grows quadratically


def kendall(values: Sequence[float]) -> float:
    """Return Kendall's rank correlation of the values with their order, from -1 to 1. Ties count as 0.

    >>> kendall([1, 2, 3]), kendall([3, 2, 1]), kendall([5, 5]), kendall([5])
    (1.0, -1.0, 0.0, 0.0)
    """
    most = min(len(values), _SAMPLE)
    pairs = list(combinations([values[i * len(values) // most] for i in range(most)], 2))
    return sum((right > left) - (right < left) for left, right in pairs) / max(1, len(pairs))


def fifth_medians(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the medians of the first, the middle and the last fifth.

    >>> fifth_medians([1, 2, 3, 4, 5])
    (1, 3, 5)
    """
    fifth, half = max(1, len(values) // 5), len(values) // 2
    middle = median_high(values[half - fifth // 2 : half + fifth // 2 + 1])
    return median_high(values[:fifth]), middle, median_high(values[-fifth:])


def is_straight(values: Sequence[float], share: float) -> bool:
    """Return whether the second half rises by at least the given share of the first half's rise.

    >>> is_straight([1, 2, 3, 4, 5], 0.7), is_straight([1, 4, 5, 5, 5], 0.7)
    (True, False)
    """
    before, middle, after = fifth_medians(values)
    return after - middle >= (middle - before) * share
