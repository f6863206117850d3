"""Detects task failures that recur until the end of the input."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h

_RECENT: Final = 20
_FEW: Final = 5
_LAST: Final = 3
_PRECISION_US: Final = 999_999  # Spark's logs print whole seconds


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How often tasks fail. `among` is the number of the last batches or triggers, 0 if the input does not number them."""

    affected: int
    among: int
    unit: str


def recurrence(
    app: h.ApplicationFacts, records: h.Sequence[h.Record], *, few: float = _FEW
) -> Recurrence | None:
    """Return how often tasks fail, if they still fail in most batches or triggers at the end of the input.

    A log at WARN shows only the late triggers. Then, the failures must follow each other until the end.

    Args:
        app: the application.
        records: the failures.
        few: minimum number of batches or triggers, or of failures in a log without them.
    """
    times = sorted(record.time_us for record in records if record.time_us is not None)
    spans, unit = _spans(app)
    if len(times) < few:
        return None
    if not spans:
        return Recurrence(len(times), 0, unit) if _continues(app, times) else None
    starts = [first for first, _ in spans]
    owners = {bisect(starts, time + _PRECISION_US) - 1 for time in times}
    hits = [number in owners for number in range(len(spans))]
    is_recent = len(hits) >= few and any(hits[-_LAST:])
    return (
        Recurrence(sum(hits), len(hits), unit) if is_recent and 2 * sum(hits) > len(hits) else None
    )


def _spans(app: h.ApplicationFacts) -> tuple[list[tuple[int, int]], str]:
    """Return the start and end of the last batches or triggers in microseconds, and their name."""
    batches = [(b.start_ms, b.end_ms) for b in app.completed if b.start_ms and b.end_ms]
    if batches:
        return [(start * 1000, end * 1000) for start, end in batches[-_RECENT:]], "batches"
    triggers = [
        (t.time_us, t.time_us + (t.duration_ms or 0) * 1000)
        for query in app.queries
        for t in query.triggers
        if t.batch is not None
    ]
    return sorted(triggers)[-_RECENT:], "triggers"


def _continues(app: h.ApplicationFacts, times: h.Sequence[int]) -> bool:
    """Return whether another failure was due when the input ended."""
    apart = median(after - before for before, after in pairwise(times))
    return app.last_us is not None and app.last_us - times[-1] <= 2 * apart
