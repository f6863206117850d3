"""The state of a query grows without bound.

What it reports
---------------
A stateful query whose state grows with every trigger while no rows are removed from it.

Why it matters
--------------
Executors keep the state in memory, or on disk with RocksDB, and each state checkpoint is larger than the
last. Triggers take longer and longer until an executor runs out of memory.

How it decides
--------------
Over at least `triggers` recent triggers with rows, the number of state rows follows a rising robust trend
and grows by at least `growth`. The state has at least `floor` rows, and no row was removed. If the query
has a watermark, it must have passed the events of the first recent triggers. Until then, windows are
still filling.

What to do
----------
Add a watermark so that Spark can remove old state. Replace `dropDuplicates` with
`dropDuplicatesWithinWatermark`. Set a timeout for groups with custom state.

False alarms
------------
After a start, the set of keys may still grow and level off later. Check whether the growth slows down.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import Trend, trend


class Limits(h.Limits):
    triggers: float = h.limit(
        12, "triggers", "minimum number of triggers; the first triggers only fill the state"
    )
    growth: float = h.limit(0.1, "share", "minimum growth of the state, as a share of its size")
    floor: float = h.limit(
        10_000, "rows", "minimum number of rows in the state; fewer rows fit on any executor"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query whose state grows."""
    for query, _ in assessed.queries:
        late = [t for t in h.late_triggers(query.triggers) if t.rows and t.state_rows is not None]
        # Spark reports removed rows from 3.2 on.
        removed = any(operator.get("removed") for t in late for operator in t.state)
        if removed or len(late) < max(1, limits.triggers):
            continue
        slope = _growth(late, limits)
        if slope is not None and is_removal_due(late):
            yield _finding(assessed, query, late, slope, limits)


def _growth(late: h.Sequence[h.Trigger], limits: Limits) -> Trend | None:
    """Return the growth of the state in rows per second, or None if it is too small."""
    last = late[-1].state_rows or 0
    slope = trend([t.time_us / 1e6 for t in late], [float(t.state_rows or 0) for t in late])
    if slope is None or not slope.is_rising or last < limits.floor:
        return None
    return slope if slope.rise >= limits.growth * (last - slope.rise) else None


def is_removal_due(triggers: h.Sequence[h.Trigger]) -> bool:
    """Return whether rows should have left the state by now, or never will."""
    marks = [t.watermark_us for t in triggers if t.watermark_us is not None and t.watermark_us > 0]
    if not marks:
        return True
    half = (triggers[-1].time_us - triggers[0].time_us) // 2
    newest = max((t.max_event_us or 0 for t in triggers), default=0)
    # The watermark has passed the rows of the first recent trigger.
    return bool(newest) and marks[-1] >= newest - half and marks[-1] - marks[0] > half


def _finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    slope: Trend,
    limits: Limits,
) -> h.Finding:
    last = late[-1].state_rows or 0
    growth = slope.rise / max(1.0, last - slope.rise)
    span = h.fmt.duration((late[-1].time_us - late[0].time_us) / 1000)
    size = sum(operator.get("bytes") or 0 for operator in late[-1].state)
    watermark = any((t.watermark_us or 0) > 0 for t in late)
    reason = (
        "The query has a watermark, but no row of its state ever expires."
        if watermark
        else "The query has no watermark, so Spark cannot remove any rows."
    )
    over = h.fmt.plural(len(late), "trigger")
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"The state of {query.label} grew to {h.fmt.plural(last, 'row')}, by "
        f"{h.fmt.percent(growth)} within {span}, and no rows were removed",
        explain=f"At this rate it doubles in {h.fmt.duration(last / slope.slope * 1000)}. {reason}",
        why=f"its state grows by {h.fmt.rate(slope.slope, 'rows')} and no rows are removed",
        cause="growing-state",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(
            h.measurement("state-rows", last, "rows"),
            h.measurement("growth", round(growth, 3), "share", limits.growth, over=over),
            h.measurement("state-memory", size, "bytes"),
        ),
        actions=h.remedies(
            "growing-state", assessed.app, "event-time" if watermark else "watermark"
        ),
    )


RULE = h.Rule("RT406", judge, Limits, causes=("growing-state",), needs="triggers")
