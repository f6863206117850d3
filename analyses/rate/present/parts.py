"""What serves batches and triggers alike: stops that look as failures, holes, and how a word is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.facts import Batch, QueryFacts, Record, Trigger
from flowdiag.analyses.rate.present.state import Cap, StreamState
from flowdiag.analyses.rate.stability import Stability

Told = TypeVar("Told", Batch, Trigger)


def harmless_failure(reason: str | None) -> bool:
    """Whether a failure is that of a stop: stopping a context cancels what runs."""
    text = (reason or "").lower()
    return any(
        word in text
        for word in (
            "sparkcontext was shut down",
            "sparkcontext is shutting down",
            "cancelled because sparkcontext",
            "sparkcontext was stopped",
            "as part of cancellation",
            "cancelled part of cancelled job group",
            "part of cancelled job group",
        )
    )


def parted(
    told: Sequence[Told], gaps: Sequence[float], longest: float
) -> tuple[tuple[Told, ...], ...]:
    """Cut wherever the distance to the next one is longer than that; one part at least."""
    bounds = [0, *(n for n, gap in enumerate(gaps, 1) if gap > longest), len(told)]
    return tuple(tuple(told[a:b]) for a, b in pairwise(bounds))


def called(
    state: StreamState, word: Stability, because: str, turned: int | None = None
) -> StreamState:
    """A state with its word, the clause behind it, and since which batch time it is so."""
    return replace(state, stability=word, because=because, turned_ms=turned)


def capped(cap: Cap) -> str:
    """Which limit the latest batches are filled up to, in a clause."""
    of = {
        "pid": "the estimator's rate",
        "max-rate": pid.MAX_RATE,
        "max-per-partition": pid.MAX_PER_PARTITION,
        "rows": "a fixed number of rows",
        "files": "maxFilesPerTrigger",
    }[cap.kind]
    # Of files the option says how many; how many rows they hold is the files' matter.
    rate = f" ({cap.per_s:.0f} records/s)" if cap.kind != "files" else ""
    return f"{fmt.percent(cap.share)} of the latest batches are filled up to {of}{rate}"


def ended(query: QueryFacts) -> tuple[Record, ...]:
    """The records that a run ended with an exception; listener and event log may both tell of one."""
    return tuple(
        record
        for record in query.events
        if record.what == "terminated" and record.cause and not harmless_failure(record.cause)
    )


def too_few(count: int, one: str, several: str, *, behind: bool) -> str:
    """That so many tell nothing; `behind`: as many as there are since the last hole."""
    told = (
        f"{fmt.plural(count, one, several)}{' since the last hole in the input' if behind else ''}"
    )
    return f"{told} {'is' if count == 1 else 'are'} too few"
