"""Rows arrive too late for the watermark.

What it reports
---------------
Rows that a stateful operator dropped because they arrived later than the watermark allows.

Why it matters
--------------
The rows are missing from the results, and Spark reports no error.

How it decides
--------------
The rule divides `numRowsDroppedByWatermark` (`numLateInputs` before 3.1.1) by the number of rows read,
both over all triggers. The result must be at least `share`. An operator after a shuffle counts its own
input, so rows that were aggregated before the shuffle count as one. The finding is recovered if none of
the last `recent` triggers dropped a row.

What to do
----------
Increase the delay in `withWatermark`, which requires more state. Alternatively, fix the clock or the
delivery of the late source.

False alarms
------------
Replays of old data, and sources that are expected to be late.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    share: float = h.limit(0.001, "share", "one missing row in a thousand is worth reporting")
    recent: float = h.limit(
        5,
        "triggers",
        "last triggers of the query; if none of them dropped rows, the problem is over",
    )


def judge(
    assessed: h.AssessedApplication, limits: Limits
) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per query that drops rows."""
    for query, _ in assessed.queries:
        dropped = [t for t in query.triggers if t.dropped]
        rows = sum(t.rows or 0 for t in query.triggers)
        lost = sum(t.dropped for t in dropped)
        if not lost or lost < limits.share * max(rows, 1):
            continue
        share = min(1.0, lost / max(rows, 1))
        ongoing = any(t.dropped for t in query.triggers[-max(1, int(limits.recent)) :])
        state = h.State.ONGOING if ongoing else h.State.RECOVERED
        of = f"{h.fmt.thousands(lost)} of {h.fmt.plural(rows, 'row')}"
        yield h.trigger_finding(
            assessed,
            query,
            dropped,
            severity=h.grade(state=state, share=share),
            state=state,
            title=f"{h.fmt.capital(query.label)} dropped {of} ({h.fmt.share(share)}) that arrived "
            "later than the watermark allows",
            why=f"dropped {of} as too late",
            cause="late-rows",
            rank=h.Rank.ROOT_CAUSE,
            measurements=(
                h.measurement("dropped-rows", lost, "rows"),
                h.measurement("dropped-share", round(share, 5), "share", limits.share),
            ),
            actions=h.remedies("late-rows", assessed.app),
        )


RULE = h.Rule("RT404", judge, Limits, causes=("late-rows",))
