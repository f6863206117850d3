"""A query reads rows but writes none.

What it reports
---------------
- A query in append mode that reads rows but has written none, although its windows should have closed.
- The same, if the watermark delay is many windows long.
- Otherwise, an inconclusive verdict, because long windows or a filter that no row passes may be intended. A note shows
  when the first window is due.

Why it matters
--------------
Triggers succeed, and no other metric shows that the result is empty. The state grows until the first window closes.

How it decides
--------------
At least `triggers` triggers of the query read rows, and no trigger wrote one: `sink.numOutputRows` is zero. If the
sink does not report this count, the rule uses the rows that an aggregation in append mode removes from its state. For
files and Delta tables, it uses the records that the tasks wrote, from an event log of Spark 3 or later.
Queries whose watermark is ahead of the clock (RT411) or does not advance (RT405) are left out.

In append mode, a window is written once the watermark has passed its end. The plan in an event log shows the
watermark delay and the length of the windows. The rule reports a finding if event time has advanced by `elapsed`
times the sum of the two, or if the delay is at least `delay-windows` times the length.

False alarms
------------
A filter after the aggregation, for example for alerts, may remove all rows on purpose.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.event_time import (
    delay_ms,
    emitted_rows,
    event_span_ms,
    is_ahead,
    stuck_triggers,
)


class Limits(h.Limits):
    triggers: float = h.limit(
        5, "triggers", "minimum number of triggers; the first triggers only fill the state"
    )
    elapsed: float = h.limit(
        1.5, "ratio", "minimum ratio of event time to window plus delay, to close the first window"
    )
    delay_windows: float = h.limit(
        10, "ratio", "minimum watermark delay in window lengths; a longer delay is rarely intended"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield a note, a finding or an inconclusive result per query without output."""
    for query, state in assessed.queries:
        reading = [t for t in query.triggers if t.rows]
        if len(reading) < max(1, limits.triggers) or state.failed or not _is_silent(query):
            continue
        read = h.fmt.plural(sum(t.rows or 0 for t in reading), "row")
        if any(t.watermark_us is not None and t.state for t in reading):
            yield from _overdue_windows(assessed, query, reading, read, limits)
            continue
        yield h.Inconclusive(
            reason=f"{query.label} read {read} and wrote none: no row passes its filters or joins",
            checks=("user-code",),
            job=assessed.key,
        )


def _is_silent(query: h.QueryFacts) -> bool:
    """Return whether no trigger wrote a row, and no other rule reports the reason."""
    if any(emitted_rows(query, t) != 0 for t in query.triggers):
        return False
    return not is_ahead(query.triggers[-1]) and not stuck_triggers(query)


def _overdue_windows(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    reading: h.Sequence[h.Trigger],
    read: str,
    limits: Limits,
) -> h.Results:
    """Yield a finding if windows of the query should have been written, or a note about when they are due."""
    delay, window, seen = delay_ms(query) or 0.0, query.plan.window_ms, event_span_ms(reading)
    due, number = delay + (window or 0), h.fmt.plural(len(reading), "trigger")
    overdue = window is not None and seen >= limits.elapsed * due
    serious = overdue or (window is not None and delay >= limits.delay_windows * window)
    clause = f"its watermark is {h.fmt.duration(delay)} behind the newest event"
    title = f"{h.fmt.capital(query.label)} read {read} in {number} and wrote none"
    if window is not None:
        clause += f", and its windows last {h.fmt.duration(window)}"
    if not serious:
        of = f"within {h.fmt.duration(seen)} of event time"
        yield h.Inconclusive(
            reason=f"{query.label} read {read} {of} and wrote none: a window is written once the watermark has passed "
            f"its end. Here {clause}",
            checks=() if window else ("query-plan",),
            job=assessed.key,
        )
        title += f" {of}" + (
            f": the first window is due after {h.fmt.duration(due)}" if window else ""
        )
    yield h.trigger_finding(
        assessed,
        query,
        reading,
        severity=h.Severity.WARNING if serious else h.Severity.INFO,
        title=title,
        explain=f"{h.explanation('no-output')} Here {clause}.",
        why=f"it wrote no row: {clause}",
        cause="no-output",
        confidence=h.Confidence.HIGH if overdue else h.Confidence.MEDIUM,
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("written-rows", 0, "rows", over=number),
            h.measurement("watermark-delay", round(delay), "ms"),
            h.measurement("event-time-span", round(seen), "ms", round(due)),
            h.measurement("state-rows", reading[-1].state_rows, "rows"),
        ),
        actions=h.remedies("no-output", assessed.app, "filter" if overdue else "delay", "update"),
    )


RULE = h.Rule("RT412", judge, Limits, core=True, causes=("no-output",), needs="triggers")
