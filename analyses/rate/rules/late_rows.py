"""Rows come too late for the watermark.

What it reports
---------------
Rows that a stateful operator dropped since they came later than the watermark allows.

Why it matters
--------------
They are missing from the results, and no error says so.

How it decides
--------------
`numRowsDroppedByWatermark` (before 3.1.1 `numLateInputs`) over the rows read, of all triggers:
reported above `share`. An operator behind a shuffle counts what reaches it, so that rows which were
aggregated before count once. It is over where none of the `recent` last triggers dropped a row.

What to do
----------
Allow for more lateness in `withWatermark`, at the price of more state; or fix the clock or the
delivery of the source that is late.

False alarms
------------
Replays of old data; sources that are late on purpose.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Dropped(h.Limits):
    """What RT404 compares with."""

    share: float = h.limit(0.001, "share", "one in a thousand rows missing is worth knowing")
    recent: float = h.limit(5, "triggers", "the last ones: rows that none of them dropped are over")


def judge(assessed: h.Assessed, limits: Dropped) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query that drops rows."""
    for query, _ in assessed.queries:
        dropped = [t for t in query.triggers if t.dropped]
        rows = sum(t.rows or 0 for t in query.triggers)
        lost = sum(t.dropped for t in dropped)
        if not lost or lost < limits.share * max(rows, 1):
            continue
        share = min(1.0, lost / max(rows, 1))
        ongoing = any(t.dropped for t in query.triggers[-max(1, int(limits.recent)) :])
        state = h.State.ONGOING if ongoing else h.State.RECOVERED
        yield h.trigger_finding(
            assessed,
            query,
            dropped,
            severity=h.grade(state=state, share=share),
            state=state,
            title=f"{h.fmt.capital(query.label)} dropped {h.fmt.thousands(lost)} of {h.fmt.plural(rows, 'row')} "
            f"({h.fmt.share(share)}) that "
            "came later than the watermark allows",
            why=f"dropped {h.fmt.thousands(lost)} of {h.fmt.plural(rows, 'row')} as too late",
            cause="late-rows",
            rank=h.Rank.ROOT_CAUSE,
            measurements=(
                h.measurement("dropped-rows", lost, "rows"),
                h.measurement("dropped-share", round(share, 5), "share", limits.share),
            ),
            actions=h.remedies("late-rows", assessed.app),
        )


RULE = h.Rule("RT404", judge, Dropped, causes=("late-rows",))
