"""The watermark does not advance, or falls behind.

What it reports
---------------
A query with an event-time watermark that stands still while rows are read, or that falls further
and further behind the newest of them.

Why it matters
--------------
Nothing that waits for the watermark is written in append mode, and the state grows.

How it decides
--------------
Over the present (at least `triggers` triggers with rows) the watermark stays the same while the
latest event time does not: one of several inputs is idle, and the minimum of their watermarks
counts. Behind: the distance from the watermark to the newest event rises by a robust slope, by `lag`
at least and by a quarter of what it was.

What to do
----------
Let the idle input go, or set `spark.sql.streaming.multipleWatermarkPolicy` to max if late rows of
the slower inputs may be lost.

False alarms
------------
Rows of one and the same time, as in a replay of one hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import QueryFacts, Trigger
from flowdiag.analyses.rate.stability import Trend, trend
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class StuckWatermarkLimits(Limits):
    """What RT405 compares with."""

    triggers: float = limit(10, "triggers", "a watermark moves with the next trigger")
    lag: float = limit(60_000, "ms", "within the present; less is jitter of the sources")


def judge(assessed: Assessed, limits: StuckWatermarkLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query whose watermark stands still."""
    for query, _ in assessed.queries:
        late = [
            t
            for t in rate_state.late_triggers(query.triggers)
            if t.watermark_us is not None and t.rows
        ]
        if len(late) < limits.triggers:
            continue
        marks = {t.watermark_us for t in late}
        newest = [t.max_event_us for t in late if t.max_event_us is not None]
        if len(marks) > 1:
            behind = _lagging(late, limits.lag)
            if behind is not None:
                yield _finding(assessed, query, late, behind, limits.lag)
            continue
        if len(set(newest)) < 3:
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
                    threshold=limits.triggers,
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


def _lagging(late: Sequence[Trigger], least_ms: float) -> Trend | None:
    """The growth of the distance to the newest event, in milliseconds per second, if it grows."""
    told = [
        (t.time_us / 1e6, (t.max_event_us - t.watermark_us) / 1000)
        for t in late
        # The first watermark of a query is the epoch.
        if t.max_event_us is not None and t.watermark_us is not None and t.watermark_us > 0
    ]
    if len(told) < len(late) / 2:
        return None
    slope = trend([x for x, _ in told], [y for _, y in told])
    if slope is None or not slope.rises or slope.rise < least_ms:
        return None
    first = min(y for _, y in told[:3])
    return slope if slope.rise >= 0.25 * max(0.0, first) else None


def _finding(
    assessed: Assessed, query: QueryFacts, late: Sequence[Trigger], slope: Trend, limit: float
) -> Finding:
    last = max(0, (late[-1].max_event_us or 0) - (late[-1].watermark_us or 0)) / 1000
    name = query.name or query.id
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.query_subject(assessed.app, query),
        title=(
            f"The watermark of query {name} is {duration_text(last)} behind the newest event, "
            f"{duration_text(slope.rise)} more than {len(late)} triggers before"
        ),
        explain=(
            "Of several inputs the slowest decides the watermark; with one, rows far ahead of the "
            "others come in. Results wait for it, and state is kept."
        ),
        why=f"its watermark falls behind by {slope.slope / 1000:.2f} s per s",
        cause="lagging-watermark",
        rank=Rank.MECHANISM,
        first_us=late[0].time_us,
        last_us=late[-1].time_us,
        count=len(late),
        measurements=(
            Measurement(
                name="growth",
                value=round(slope.rise),
                unit="ms",
                threshold=limit,
                population=f"{len(late)} triggers",
            ),
            Measurement(name="behind", value=round(last), unit="ms"),
        ),
        evidence=j.of_triggers(late),
        actions=(
            Action(
                text="Find the input that is behind: its backlog, or its clock",
                verify="eventTime.max less eventTime.watermark",
            ),
        ),
    )


RULE: Final = Rule("RT405", judge, StuckWatermarkLimits)
