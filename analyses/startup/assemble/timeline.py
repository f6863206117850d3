"""Keeps rows in time order, and refers to their records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from flowdiag.analyses.model.keys import Ref

Row = Mapping[str, Any]


def ref_of(row: Row) -> Ref:
    """Return the position of a row's record."""
    return Ref(row["source"], row["offset"])


class Timeline:
    """Rows in time order with fast access to a span."""

    def __init__(self, rows: Sequence[Any], times: Sequence[int]) -> None:
        """Store rows and their times, both in the same order."""
        self._rows, self._times = rows, times

    def within(self, low: int, high: int) -> Sequence[Any]:
        """Return rows with low <= time < high."""
        return self._rows[bisect_left(self._times, low) : bisect_left(self._times, high)]
