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
of `dropDuplicates`; a timeout for groups with own state.

False alarms
------------
A set of keys that is still being met for the first time, and ends at some size: see whether the
growth slows down.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import Trend, trend


class Growing(h.Limits):
    """What RT406 compares with."""

    triggers: float = h.limit(12, "triggers", "the first ones of any query fill its state")
    rise: float = h.limit(0.1, "share", "of the state, within the present")
    floor: float = h.limit(10_000, "rows", "less fits anywhere")


def judge(assessed: h.Assessed, limits: Growing) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query whose state grows."""
    for query, _ in assessed.queries:
        late = [t for t in h.late_triggers(query.triggers) if t.rows and t.state_rows is not None]
        if len(late) < max(1, limits.triggers) or removed(late):
            continue
        last = late[-1].state_rows or 0
        slope = trend([t.time_us / 1e6 for t in late], [float(t.state_rows or 0) for t in late])
        if slope is None or not slope.rises or last < limits.floor:
            continue
        if slope.rise >= limits.rise * (last - slope.rise) and could_be_dropped(late):
            yield _finding(assessed, query, late, slope, limits)


def removed(triggers: h.Sequence[h.Trigger]) -> bool:
    """Whether any operator dropped state; told from Spark 3.2 on."""
    return any(one.get("removed") for t in triggers for one in t.state)


def could_be_dropped(triggers: h.Sequence[h.Trigger]) -> bool:
    """Whether something should have left the state by now, or never can."""
    marks = [t.watermark_us for t in triggers if t.watermark_us is not None and t.watermark_us > 0]
    if not marks:
        return True
    span = triggers[-1].time_us - triggers[0].time_us
    newest = max((t.max_event_us or 0 for t in triggers), default=0)
    # What came in at the beginning of the present is older than the watermark now.
    return bool(newest) and marks[-1] >= newest - span // 2 and marks[-1] - marks[0] > span // 2


def _finding(
    assessed: h.Assessed,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    slope: Trend,
    limits: Growing,
) -> h.Finding:
    last = late[-1].state_rows or 0
    growth = slope.rise / max(1.0, last - slope.rise)
    span = h.fmt.duration((late[-1].time_us - late[0].time_us) / 1000)
    watermark = any((t.watermark_us or 0) > 0 for t in late)
    why_not = (
        "The query has a watermark, but nothing in its state ever becomes older."
        if watermark
        else "The query has no watermark: nothing may be dropped."
    )
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"The state of {query.label} grew to {h.fmt.plural(last, 'row')}, by {h.fmt.percent(growth)} within "
        f"{span}, and no row left it",
        explain=f"At this pace it doubles in {h.fmt.duration(last / slope.slope * 1000)}. {why_not}",
        why=f"its state grows by {h.fmt.rate(slope.slope, 'rows')} and nothing leaves it",
        cause="growing-state",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("state-rows", last, "rows"),
            h.measurement(
                "growth",
                round(growth, 3),
                "share",
                limits.rise,
                over=h.fmt.plural(len(late), "trigger"),
            ),
            h.measurement(
                "state-memory", sum(one.get("bytes") or 0 for one in late[-1].state), "bytes"
            ),
        ),
        actions=h.remedies(
            "growing-state", assessed.app, "event-time" if watermark else "watermark"
        ),
    )


RULE = h.Rule("RT406", judge, Growing, causes=("growing-state",))
