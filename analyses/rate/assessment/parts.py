"""Helpers for both batches and triggers: gaps, exceptions, and clauses for verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment.state import Cap
from flowdiag.analyses.rate.facts import Batch, QueryFacts, Record, Trigger
from flowdiag.analyses.rate.stability import Line, Stability

Unit = TypeVar("Unit", Batch, Trigger)
Verdict = tuple[object, Stability, str]
"""A condition, the verdict that follows if the condition holds, and the reason."""

_CAPS: Final = {
    "pid": "the estimator's rate",
    "max-rate": pid.MAX_RATE,
    "max-per-partition": pid.MAX_PER_PARTITION,
    "rows": "a fixed number of rows",
    "files": "maxFilesPerTrigger",
}


def records_of_stream(batches: Iterable[Batch], stream: int) -> list[int]:
    return [s.records for b in batches for s in b.streams if s.stream == stream]


def split_where(
    units: Sequence[Unit], gaps: Sequence[float], longest: float
) -> tuple[tuple[Unit, ...], ...]:
    """Split the units at gaps longer than `longest`. The result has at least one part."""
    bounds = [0, *(n for n, gap in enumerate(gaps, 1) if gap > longest), len(units)]
    return tuple(tuple(units[a:b]) for a, b in pairwise(bounds))


def first_verdict(verdicts: Sequence[Verdict]) -> tuple[Stability, str]:
    """Return the first verdict whose condition holds, with its reason."""
    return next((word, because) for condition, word, because in verdicts if condition)


def cap_clause(caps: Sequence[Cap]) -> str:
    """Return a clause about the limit that recent batches reach, or an empty string."""
    if not caps:
        return ""
    cap = caps[0]
    # A limit on files does not limit the rows per second.
    rate = f" ({cap.per_s:.0f} records/s)" if cap.kind != "files" else ""
    return f"{fmt.percent(cap.share)} of the recent batches reach {_CAPS[cap.kind]}{rate}"


def exception_records(query: QueryFacts) -> tuple[Record, ...]:
    """Return the records of runs that ended with an exception. Listener and event log may both have one."""
    return tuple(record for record in query.events if record.what == "terminated" and record.cause)


def too_few_clause(count: int, noun: str, several: str, *, after_gap: bool) -> str:
    """Return a clause about a number of batches or triggers that is too small for a verdict."""
    where = " since the last gap in the input" if after_gap else ""
    return f"{fmt.plural(count, noun, several)}{where} {'is' if count == 1 else 'are'} too few for a verdict"


def sustainable_per_s(line: Line | None, interval_ms: int | None, slots: int = 1) -> float | None:
    """Return how many records per second the job can process, according to the fitted cost."""
    if line is None or line.per_x <= 0 or not interval_ms:
        return None
    return max(0.0, (slots * interval_ms - line.base) / line.per_x) / (interval_ms / 1000)
