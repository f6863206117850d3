"""Failures that no rule with a known cause reports."""

from __future__ import annotations

from flowdiag.analyses.knowledge.unknown_failures import (
    FailureGroup,
    Occurrence,
)
from flowdiag.analyses.rate import helpers as h


def is_end(group: FailureGroup) -> bool:
    """Return whether the text shows that a failure ended the application."""
    return group.ended == "application" and group.confidence is not h.Confidence.LOW


def is_slow_start_heartbeat(app: h.ApplicationFacts, record: h.Record) -> bool:
    """Return whether a failure is a heartbeat at the end of a slow start in local mode."""
    local = (app.application or "").startswith("local-")
    return local and "CoarseGrainedScheduler@" in (record.cause or "")


def occurrence_of(record: h.Record) -> Occurrence:
    return Occurrence(
        failure=record.cause or "",
        text=record.fields,
        time_us=record.time_us,
        ref=record.ref,
        place=record.host,
    )


def reported_texts(app: h.ApplicationFacts) -> h.Iterator[str]:
    """Yield the texts of the failures that other rules report."""
    for record in (*app.incidents, *(event for query in app.queries for event in query.events)):
        yield from filter(None, (record.cause, record.fields.get("exception")))
    for output in app.outputs:
        yield output.failure or ""
    for executor in app.executors:
        yield executor.reason or ""


def is_last(app: h.ApplicationFacts, group: FailureGroup) -> bool:
    """Return whether no batch or trigger begins after a failure."""
    last_us = group.times[1]
    begun = [batch.start_ms * 1000 for batch in app.batches if batch.start_ms is not None]
    begun += [trigger.time_us for query in app.queries for trigger in query.triggers]
    return last_us is None or not any(time_us > last_us for time_us in begun)
