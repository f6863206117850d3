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
aggregated before count once.

What to do
----------
Allow for more lateness in `withWatermark`, at the price of more state; or fix the clock or the
delivery of the source that is late.

False alarms
------------
Replays of old data; sources that are late on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class LateRowsLimits(Limits):
    """What RT404 compares with."""

    share: float = limit(0.001, "share", "one in a thousand rows missing is worth knowing")


def judge(assessed: Assessed, limits: LateRowsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query that drops rows."""
    for query, _ in assessed.queries:
        dropped = [t for t in query.triggers if t.dropped]
        rows = sum(t.rows or 0 for t in query.triggers)
        lost = sum(t.dropped for t in dropped)
        if not lost or lost < limits.share * max(rows, 1):
            continue
        share = min(1.0, lost / max(rows, 1))
        ongoing = any(t.dropped for t in query.triggers[-5:])
        state = State.ONGOING if ongoing else State.RECOVERED
        yield Finding(
            job=assessed.key,
            severity=grade(state=state, share=share),
            state=state,
            subject=j.query_subject(assessed.app, query),
            title=(
                f"Query {query.name or query.id} dropped {lost} of {rows} rows ({share:.1%}) that "
                "came later than the watermark allows"
            ),
            explain="They are missing from the results; the query goes on without an error.",
            why=f"dropped {lost} of {rows} rows as too late",
            cause="late-rows",
            rank=Rank.ROOT_CAUSE,
            first_us=dropped[0].time_us,
            last_us=dropped[-1].time_us,
            count=len(dropped),
            measurements=(
                Measurement(name="dropped-rows", value=lost, unit="rows"),
                Measurement(
                    name="dropped-share",
                    value=round(share, 5),
                    unit="share",
                    threshold=limits.share,
                ),
            ),
            evidence=j.of_triggers(dropped),
            evidence_total=len(dropped),
            actions=(
                Action(
                    text="Allow for more lateness in withWatermark",
                    risk="more state is kept, and results come later",
                    restart_needed=True,
                    verify="numRowsDroppedByWatermark stays at zero",
                ),
            ),
        )


RULE: Final = Rule("RT404", judge, LateRowsLimits)
