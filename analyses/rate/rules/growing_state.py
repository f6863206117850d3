"""The state of a query grows without end.

What it reports
---------------
A stateful query whose state grows by every trigger while nothing ever leaves it.

Why it matters
--------------
State is kept in the memory of executors (or on their disks, with RocksDB), and each checkpoint of it
is larger than the last one: triggers become longer until an executor runs out of memory.

How it decides
--------------
Over the present (at least `triggers` triggers with rows) the rows in the state rise by a robust slope,
by `rise` of what they were at least, from `floor` rows on, and no row was removed. With a watermark
that advances, the rule waits until it has passed the whole present: before that, windows are still
being filled.

What to do
----------
Give the query a watermark, so that old state can be dropped; `dropDuplicatesWithinWatermark` instead
of `dropDuplicates`; a time-out for groups with own state.

False alarms
------------
A set of keys that is still being met for the first time, and ends at some size: see whether the
growth slows down.
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


class GrowingStateLimits(Limits):
    """What RT406 compares with."""

    triggers: float = limit(12, "triggers", "the first ones of any query fill its state")
    rise: float = limit(0.1, "share", "of the state, within the present")
    floor: float = limit(10_000, "rows", "less fits anywhere")


def judge(assessed: Assessed, limits: GrowingStateLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query whose state grows."""
    for query, _ in assessed.queries:
        late = [
            t
            for t in rate_state.late_triggers(query.triggers)
            if t.rows and t.state_rows is not None
        ]
        if len(late) < limits.triggers or removed(late):
            continue
        last = late[-1].state_rows or 0
        slope = trend([t.time_us / 1e6 for t in late], [float(t.state_rows or 0) for t in late])
        if slope is None or not slope.rises or last < limits.floor:
            continue
        if slope.rise < limits.rise * (last - slope.rise) or not may_leave(late):
            continue
        yield _finding(assessed, query, late, slope, limits.rise)


def removed(triggers: Sequence[Trigger]) -> bool:
    """Whether any operator dropped state; told from Spark 3.2 on."""
    return any(one.get("removed") for t in triggers for one in t.state)


def may_leave(triggers: Sequence[Trigger]) -> bool:
    """Whether something should have left the state by now, or never can."""
    marks = [t.watermark_us for t in triggers if t.watermark_us is not None and t.watermark_us > 0]
    if not marks:
        return True
    span = triggers[-1].time_us - triggers[0].time_us
    newest = max((t.max_event_us or 0 for t in triggers), default=0)
    # What came in at the beginning of the present is older than the watermark now.
    return bool(newest) and marks[-1] >= newest - span // 2 and marks[-1] - marks[0] > span // 2


def _finding(
    assessed: Assessed,
    query: QueryFacts,
    late: Sequence[Trigger],
    slope: Trend,
    limit: float,
) -> Finding:
    last = late[-1].state_rows or 0
    first = max(1.0, last - slope.rise)
    memory = sum(one.get("bytes") or 0 for one in late[-1].state)
    watermark = any((t.watermark_us or 0) > 0 for t in late)
    span = (late[-1].time_us - late[0].time_us) / 1000
    doubles = duration_text(last / slope.slope * 1000)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.query_subject(assessed.app, query),
        title=(
            f"The state of query {query.name or query.id} grew to {last} rows, by {slope.rise / first:.0%} "
            f"within {duration_text(span)}, and no row left it"
        ),
        explain=(
            f"At this pace it has doubled in {doubles}. "
            + (
                "The query has a watermark, but nothing in its state ever becomes older."
                if watermark
                else "The query has no watermark: nothing may be dropped."
            )
        ),
        why=f"its state grows by {slope.slope:.0f} rows/s and nothing leaves it",
        cause="growing-state",
        rank=Rank.ROOT_CAUSE,
        first_us=late[0].time_us,
        last_us=late[-1].time_us,
        count=len(late),
        measurements=(
            Measurement(name="state-rows", value=last, unit="rows"),
            Measurement(
                name="growth",
                value=round(slope.rise / first, 3),
                unit="share",
                threshold=limit,
                population=f"{len(late)} triggers",
            ),
            Measurement(name="state-memory", value=memory, unit="bytes"),
        ),
        evidence=j.of_triggers(late),
        actions=(
            Action(
                text="Let old state go: a watermark with dropDuplicatesWithinWatermark, or a time-out"
                if not watermark
                else "Put the event time into the key of the state, or give groups a time-out",
                risk="rows that come later than that are dropped",
                restart_needed=True,
                verify="stateOperators.numRowsTotal levels off",
            ),
        ),
    )


RULE: Final = Rule("RT406", judge, GrowingStateLimits)
