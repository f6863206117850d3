"""Flink's score of data skew."""

from __future__ import annotations

from collections.abc import Iterable


def skew_score(values: Iterable[float]) -> float | None:
    """Return Flink's score of data skew from 0 (even) to 100: the mean deviation in percent of the mean.

    Since Flink 1.19, `DoubleAccumulator.DoubleDataSkew` calculates it for the Web UI.

    >>> skew_score([100, 100, 100]), skew_score([300, 0, 0]), skew_score([])
    (0.0, 100.0, None)
    """
    known = list(values)
    if not known:
        return None
    mean = sum(known) / len(known)
    if mean == 0:
        return 0.0
    return min(100.0, sum(abs(value - mean) for value in known) / len(known) / mean * 100)
