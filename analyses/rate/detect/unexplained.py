"""Failures that no rule with a known cause reports."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.knowledge.unknown_failures import (
    FailureGroup,
    Occurrence,
)
from flowdiag.analyses.rate import helpers as h

_OUTLIVED_US: Final = 10_000_000
"""Minimum time from a handled failure to the end of the log. Spark logs a failed task or query within a second."""


def is_end(group: FailureGroup) -> bool:
    """Return whether the text shows that a failure ended the application."""
    return group.ended == "application" and group.confidence is not h.Confidence.LOW


def is_slow_start_heartbeat(app: h.ApplicationFacts, record: h.Record) -> bool:
    """Return whether a failure is a heartbeat at the end of a slow start in local mode."""
    local = (app.application or "").startswith("local-")
    return local and "CoarseGrainedScheduler@" in (record.cause or "")


def handled_until(app: h.ApplicationFacts) -> int | None:
    """Return the time until which the application must have handled every logged error, or None.

    Batches or triggers ran, no task, batch or query failed, and the log continues. Spark logs a failed task immediately.
    """
    events = [event for query in app.queries for event in query.events]
    troubles = (*app.incidents, *(one for one in events if one.what == "terminated" and one.cause))
    worked = app.batches or app.late_us or any(query.triggers for query in app.queries)
    ended = any(one.fields.get("ended") for one in app.failures)
    if not worked or troubles or ended or app.last_us is None:
        return None
    return app.last_us - _OUTLIVED_US


def occurrence_of(record: h.Record, handled_us: int | None = None) -> Occurrence:
    """Return a failure with its texts. `handled_us` is the time until which failures were handled (`handled_until`)."""
    text = record.fields
    if handled_us is not None and record.time_us is not None and record.time_us <= handled_us:
        text = {**text, "survived": "stream"}
    return Occurrence(
        failure=record.cause or "",
        text=text,
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
