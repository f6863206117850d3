"""The watermark does not advance, or falls behind.

What it reports
---------------
A query whose event-time watermark does not advance although rows are read, or falls further and further
behind the newest event.

Why it matters
--------------
In append mode, results that wait for the watermark are not written, and the state grows.

How it decides
--------------
The rule needs at least `triggers` recent triggers with rows.

Stuck: the watermark does not change while the newest event time takes at least `event-times` different values. In most
cases, one of several inputs of a join or union is idle, because Spark uses the minimum of their watermarks by
default. The finding names the sources that read no rows (`sources[].numInputRows`). RT411 reports a watermark that
is ahead of the clock.

A watermark that still has its initial value, 1970, is stuck from the third batch on. One trigger is then enough.

Falling behind: the gap between the watermark and the newest event grows steadily. The growth is at least
`lag`, and at least `growth` of the earlier gap.

False alarms
------------
Many rows may have the same event time, for example in a replay of a single hour.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.event_time import (
    STUCK_TIMES,
    STUCK_TRIGGERS,
    idle_sources,
    lag_growth,
    marked_triggers,
    stuck_triggers,
)
from flowdiag.analyses.rate.stability import Trend


class Limits(h.Limits):
    triggers: float = h.limit(
        STUCK_TRIGGERS, "triggers", "minimum number of triggers; most advance the watermark"
    )
    event_times: float = h.limit(STUCK_TIMES, "times", "minimum number of distinct event times")
    lag: float = h.limit(
        60_000, "ms", "minimum growth of the watermark's lag; sources jitter by less"
    )
    growth: float = h.limit(
        0.25, "share", "minimum growth of the watermark's lag, as a share of the earlier lag"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query whose watermark stalls or falls behind."""
    for query, _ in assessed.queries:
        if stuck := stuck_triggers(query, fewest=limits.triggers, times=limits.event_times):
            yield _stuck_finding(assessed, query, stuck, limits)
            continue
        late = marked_triggers(query, limits.triggers)
        if late and (slope := lag_growth(late, lag_ms=limits.lag, share=limits.growth)) is not None:
            yield _behind(assessed, query, late, slope, limits)


def _stuck_finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    stuck: h.Sequence[h.Trigger],
    limits: Limits,
) -> h.Finding:
    seconds = h.fmt.duration((stuck[-1].time_us - stuck[0].time_us) / 1000)
    number, idle = h.fmt.plural(len(stuck), "trigger"), idle_sources(stuck)
    title = f"The watermark of {query.label} has not advanced for {number} ({seconds})"
    why = f"its watermark has not advanced for {seconds}"
    if not stuck[-1].watermark_us:
        title = f"The watermark of {query.label} still has its initial value (1970) at batch {stuck[-1].batch}"
        why = "its watermark still has its initial value, 1970"
    measured = [h.measurement("triggers", len(stuck), "triggers", limits.triggers)]
    if idle:
        rows = h.fmt.plural(sum(t.rows or 0 for t in stuck), "row")
        named = h.fmt.listed(h.fmt.shorten(name) for name in idle)
        title += f": no row came from {named}"
        why = f"no row came from {named}, while other sources delivered {rows}"
        measured.append(h.measurement("idle-source", named, over=f"{rows} of other sources"))
    first, last = stuck[0].state_rows, stuck[-1].state_rows
    if first is not None and last is not None and last > first:
        measured.append(h.measurement("state-rows", last, "rows", over=f"{first} at first"))
    if stuck[-1].written is not None:
        written = sum(t.written or 0 for t in stuck)
        measured.append(h.measurement("written-rows", written, "rows", over=number))
    return h.trigger_finding(
        assessed,
        query,
        stuck,
        title=title,
        why=why,
        cause="stuck-watermark",
        rank=h.Rank.ROOT_CAUSE,
        measurements=tuple(measured),
        actions=h.remedies(
            "stuck-watermark",
            assessed.app,
            *(("heartbeat", "policy") if idle else ("input", "policy")),
        ),
    )


def _behind(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    late: h.Sequence[h.Trigger],
    slope: Trend,
    limits: Limits,
) -> h.Finding:
    last = max(0, (late[-1].max_event_us or 0) - (late[-1].watermark_us or 0)) / 1000
    rise, over = round(slope.rise), h.fmt.plural(len(late), "trigger")
    return h.trigger_finding(
        assessed,
        query,
        late,
        title=f"The watermark of {query.label} is {h.fmt.duration(last)} behind the newest event, "
        f"{h.fmt.duration(slope.rise)} more than {len(late)} triggers earlier",
        why=f"its watermark falls {slope.slope / 1000:.2f} s further behind every second",
        cause="lagging-watermark",
        rank=h.Rank.MECHANISM,
        measurements=(
            h.measurement("growth", rise, "ms", limits.lag, over=over),
            h.measurement("watermark-lag", round(last), "ms"),
        ),
        actions=h.remedies("lagging-watermark", assessed.app),
    )


RULE = h.Rule(
    "RT405", judge, Limits, causes=("stuck-watermark", "lagging-watermark"), needs="triggers"
)
