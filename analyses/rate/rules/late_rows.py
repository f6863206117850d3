"""Rows arrive too late for the watermark.

What it reports
---------------
Rows that a stateful operator dropped because they arrived later than the watermark allows.

Why it matters
--------------
The rows are missing from the results, and Spark reports no error.

How it decides
--------------
The rule adds up `numRowsDroppedByWatermark` (`numLateInputs` before 3.1.1) of all triggers. Each operator counts
the rows of its own input. After an aggregation or a join, this count cannot be compared with the rows that the
query read. The rule therefore counts triggers: at least `share` of the triggers that read rows must drop some of
them. The finding is recovered if none of the last `recent` triggers dropped a row. RT411 covers rows that are only
late because the watermark is ahead of the clock.

What to do
----------
Increase the delay in `withWatermark`, which requires more state. Alternatively, fix the clock or the
delivery of the late source.

False alarms
------------
Late rows are normal in a replay of old data, or if a source is expected to be late.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.event_time import is_ahead


class Limits(h.Limits):
    share: float = h.limit(
        0.05, "share", "minimum share of triggers with late rows; a few late rows are normal"
    )
    recent: float = h.limit(
        5, "triggers", "number of latest triggers in which late rows count as ongoing"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query that drops rows."""
    for query, _ in assessed.queries:
        dropped = [t for t in query.triggers if t.dropped and not is_ahead(t)]
        reading = sum(bool(t.rows) or bool(t.dropped) for t in query.triggers)
        if not dropped or len(dropped) < limits.share * reading:
            continue
        lost = h.fmt.plural(sum(t.dropped for t in dropped), "late row")
        ongoing = any(t.dropped for t in query.triggers[-max(1, int(limits.recent)) :])
        state = h.State.ONGOING if ongoing else h.State.RECOVERED
        of = f"{len(dropped)} of {h.fmt.plural(reading, 'trigger')}"
        yield h.trigger_finding(
            assessed,
            query,
            dropped,
            severity=h.grade(state=state, share=len(dropped) / reading),
            state=state,
            title=f"{h.fmt.capital(query.label)} dropped {lost} in {of} that read rows",
            why=f"its stateful operators dropped {lost} in {of}",
            cause="late-rows",
            rank=h.Rank.ROOT_CAUSE,
            measurements=(
                h.measurement("dropped-rows", sum(t.dropped for t in dropped), "rows"),
                h.measurement(
                    "dropping-triggers", round(len(dropped) / reading, 5), "share", limits.share
                ),
            ),
            actions=h.remedies("late-rows", assessed.app),
        )


RULE = h.Rule("RT404", judge, Limits, causes=("late-rows",), needs="triggers")
