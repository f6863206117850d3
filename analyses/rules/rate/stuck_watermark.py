"""The watermark does not advance.

What it reports
---------------
A query with an event-time watermark that stands still while rows are read.

Why it matters
--------------
Nothing that waits for the watermark is written in append mode, and the state grows.

How it decides
--------------
Over the present (at least `triggers` triggers with rows) the watermark stays the same while the
latest event time does not: one of several inputs is idle, and the minimum of their watermarks
counts. Or both stand still: the source sends old time stamps.

What to do
----------
Let the idle input go, or set `spark.sql.streaming.multipleWatermarkPolicy` to max if late rows of
the slower inputs may be lost.

False alarms
------------
Rows of one and the same time, as in a replay of one hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.findings import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.state import Assessment
from flowdiag.analyses.rules.base import Signal, Threshold, Thresholds


class StuckWatermark:
    """RT405."""

    code: Final = "RT405"
    name: Final = "stuck-watermark"
    title: Final = "The watermark does not advance"
    core: Final = False
    thresholds: Final = (
        Threshold("triggers", 10, "triggers", "a watermark moves with the next trigger"),
    )
    signals: Final[tuple[Signal, ...]] = ()

    def judge(self, facts: Assessment, thresholds: Thresholds) -> Iterator[Finding | Inconclusive]:
        """One finding per query whose watermark stands still."""
        for assessed, query, _ in j.queries(facts):
            late = [
                t
                for t in rate_state.late_triggers(query.triggers)
                if t.watermark_us is not None and t.rows
            ]
            if len(late) < thresholds["triggers"]:
                continue
            marks = {t.watermark_us for t in late}
            newest = [t.max_event_us for t in late if t.max_event_us is not None]
            if len(marks) > 1 or len(set(newest)) < 3:
                continue
            span = (late[-1].time_us - late[0].time_us) / 1e6
            yield Finding(
                job=assessed.key,
                severity=Severity.WARNING,
                state=State.ONGOING,
                subject=j.query_subject(assessed.app, query),
                title=(
                    f"The watermark of query {query.name or query.id} has not moved for {len(late)} "
                    f"triggers ({span:.0f} s)"
                ),
                explain="What waits for it is not written, and its state is kept.",
                why=f"its watermark stands still for {span:.0f} s",
                cause="stuck-watermark",
                rank=Rank.ROOT_CAUSE,
                first_us=late[0].time_us,
                last_us=late[-1].time_us,
                count=len(late),
                measurements=(
                    Measurement(
                        name="triggers",
                        value=len(late),
                        unit="triggers",
                        threshold=thresholds["triggers"],
                    ),
                ),
                evidence=j.of_triggers(late),
                actions=(
                    Action(
                        text="Find the input that is idle, or let the fastest one decide",
                        option="spark.sql.streaming.multipleWatermarkPolicy",
                        current=assessed.app.settings.get(
                            "spark.sql.streaming.multipleWatermarkPolicy"
                        ),
                        proposed="max",
                        risk="rows of slower inputs may be dropped as late",
                        restart_needed=True,
                        verify="eventTime.watermark advances",
                    ),
                ),
            )


RULE: Final = StuckWatermark()
