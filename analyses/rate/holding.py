"""Determines the reason for the rate of an input stream, as a keyword and a clause.

The keyword is `source` (the source delivers less), a term of the estimator (`floor`, `delay` or `processing`), or a
fixed limit (`max-rate` or `max-per-partition`). It is `first-batch` if there is no estimate yet, so that nothing limits
the rate. The others are `not-enabled`, `cannot-act` and `unknown`.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment import AssessedApplication, batches, parts
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.replay import Replay

_FIXED: Final = {"max-rate": pid.MAX_RATE, "max-per-partition": pid.MAX_PER_PARTITION}


def reason_for_rate(assessed: AssessedApplication, stream: int) -> tuple[str, str]:
    """Return why a stream has this many records per batch, as keyword and clause."""
    state, on = assessed.state, pid.is_enabled(assessed.app)
    caps = [cap for cap in (state.caps if state else ()) if cap.stream in (stream, None)]
    for cap in caps:
        if cap.kind in _FIXED:
            return cap.kind, f"{_FIXED[cap.kind]} = {cap.per_s:g}, which most batches reach"
    if on is None:
        return "unknown", "no input shows whether back pressure is on"
    if not on:
        return (
            "not-enabled",
            "back pressure is off, and no limit is reached: Spark reads all available data",
        )
    return _reason_of_estimator(assessed, stream, reached=any(cap.kind == "pid" for cap in caps))


def _reason_of_estimator(
    assessed: AssessedApplication, stream: int, *, reached: bool
) -> tuple[str, str]:
    """Return why back pressure keeps the rate at its current value, as keyword and clause.

    `reached` means that most batches reach the estimator's rate.
    """
    app = assessed.app
    busy = any((b.processing_ms or 0) > 100 for b in app.completed)
    if busy and not any(parts.records_of_stream(app.completed, stream)):
        return _without_records(app)
    estimator = assessed.estimator_of(stream)
    if estimator is None or not estimator.updates:
        unset = app.settings.get(pid.INITIAL_RATE) is None
        outcome = ", and no initialRate is set" if unset else ": initialRate applies"
        return "first-batch", f"no rate has been published yet{outcome}"
    if any(map(batches.is_overloaded, assessed.dstreams)) and _exceeds_published_rate(
        assessed, estimator
    ):
        return "cannot-act", (
            "batches contain far more records than the published rate permits: receivers ignore "
            "the rate"
        )
    late = estimator.updates[-6:]
    if reached or sum(step.is_at_floor for step in late) > len(late) / 2:
        return deciding_term(estimator, several=len(assessed.estimators) > 1)
    last = estimator.updates[-1].new_rate or 0.0
    return (
        "source",
        f"batches contain fewer than the permitted {last:.0f} records/s: the source delivers less",
    )


def _without_records(app: ApplicationFacts) -> tuple[str, str]:
    """Return why the rate stays the same if no batch shows records of the stream."""
    if any(batch.records and not batch.streams for batch in app.completed):
        return "unknown", "no input shows the records of each stream"
    return "cannot-act", "Spark counts no records, so the estimator skips every batch"


def deciding_term(estimator: Replay, *, several: bool = False) -> tuple[str, str]:
    """Return the term of the estimator that determines the recent rates, as keyword and clause.

    Args:
        estimator: the estimator of one stream.
        several: whether there are other streams, so that the estimator only sees some of the records.
    """
    late = [step for step in estimator.updates[-12:] if step.processing_rate]
    if not late:
        return "unknown", "no update with records"
    gains = estimator.gains
    if sum(step.is_at_floor for step in late) > len(late) / 2:
        return "floor", f"the floor (minRate {gains.min_rate:g}); the estimator would go lower"
    taken = median(
        gains.integral * (step.historical_error or 0.0) / (step.processing_rate or 1.0)
        for step in late
    )
    if taken > 0.3:
        return (
            "delay",
            f"the delay: its term subtracts {fmt.percent(taken)} from the processing rate",
        )
    rate = median(step.processing_rate or 0.0 for step in late)
    of = f" of stream {estimator.stream}" if several else ""
    return "processing", f"the processing rate of the job, {rate:.0f} records/s{of}"


def _exceeds_published_rate(assessed: AssessedApplication, estimator: Replay) -> bool:
    late = batches.late_window(assessed.app.completed)
    rate = max((step.new_rate or 0.0 for step in estimator.updates[-6:]), default=0.0)
    most = 2 * rate * ((assessed.app.interval_ms or 0) / 1000 + 1)
    taken = parts.records_of_stream(late, estimator.stream)
    return bool(taken) and median(taken) > most > 0
