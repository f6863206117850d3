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
latest event time takes `times` values or more: one of several inputs is idle, and the minimum of
their watermarks counts. Behind: the distance from the watermark to the newest event rises by a robust
slope, by `lag` at least and by `growth` of what it was.

What to do
----------
Let the idle input go, or set `spark.sql.streaming.multipleWatermarkPolicy` to max if late rows of
the slower inputs may be lost.

False alarms
------------
Rows of one and the same time, as in a replay of one hour.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import Trend, trend


class Stuck(h.Limits):
    """What RT405 compares with."""

    triggers: float = h.limit(10, "triggers", "a watermark moves with the next trigger")
    times: float = h.limit(3, "times", "of newest events: one and the same hour may be replayed")
    lag: float = h.limit(60_000, "ms", "within the present; less is jitter of the sources")
    growth: float = h.limit(0.25, "share", "of what it was behind before; less is jitter too")


def judge(assessed: h.Assessed, limits: Stuck) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query whose watermark stands still, or falls behind."""
    for query, _ in assessed.queries:
        late = [t for t in h.late_triggers(query.triggers) if t.watermark_us is not None and t.rows]
        if len(late) < max(1, limits.triggers):
            continue
        newest = {t.max_event_us for t in late if t.max_event_us is not None}
        if len({t.watermark_us for t in late}) > 1:
            behind = _lagging(late, limits)
            if behind is not None:
                yield _behind(assessed, query, late, behind, limits)
        elif len(newest) >= limits.times:
            yield _still(assessed, query, late, limits)


def _still(
    assessed: h.Assessed, query: h.QueryFacts, late: h.Sequence[h.Trigger], limits: Stuck
) -> h.Finding:
    span = (late[-1].time_us - late[0].time_us) / 1e6
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"The watermark of {query.label} has not moved for {h.fmt.plural(len(late), 'trigger')} "
        f"({span:.0f} s)",
        why=f"its watermark stands still for {span:.0f} s",
        cause="stuck-watermark",
        rank=h.Rank.ROOT_CAUSE,
        measurements=(h.measurement("triggers", len(late), "triggers", limits.triggers),),
        actions=h.remedies("stuck-watermark", assessed.app),
    )


def _lagging(late: h.Sequence[h.Trigger], limits: Stuck) -> Trend | None:
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
    if slope is None or not slope.rises or slope.rise < limits.lag:
        return None
    first = min(y for _, y in told[:3])
    return slope if slope.rise >= limits.growth * max(0.0, first) else None


def _behind(
    assessed: h.Assessed,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    slope: Trend,
    limits: Stuck,
) -> h.Finding:
    last = max(0, (late[-1].max_event_us or 0) - (late[-1].watermark_us or 0)) / 1000
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"The watermark of {query.label} is {h.fmt.duration(last)} behind the "
        f"newest event, {h.fmt.duration(slope.rise)} more than {len(late)} triggers before",
        why=f"its watermark falls behind by {slope.slope / 1000:.2f} s per s",
        cause="lagging-watermark",
        rank=h.Rank.MECHANISM,
        measurements=(
            h.measurement(
                "growth",
                round(slope.rise),
                "ms",
                limits.lag,
                over=h.fmt.plural(len(late), "trigger"),
            ),
            h.measurement("behind", round(last), "ms"),
        ),
        actions=h.remedies("lagging-watermark", assessed.app),
    )


RULE = h.Rule("RT405", judge, Stuck, causes=("stuck-watermark", "lagging-watermark"))
