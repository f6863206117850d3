"""Requesting new data from the source takes most of the trigger.

What it reports
---------------
A query that spends most of its triggers on fetching the latest offsets of its source, or on listing its files.

Why it matters
--------------
The driver does this work in one thread, before any task starts. More cores or partitions do not speed it up.

How it decides
--------------
`latestOffset` (`getOffset` in older versions) and `getBatch` together take at least `floor` and at least `share`
of a trigger. The rule uses the median of at least `min-triggers` recent triggers with rows. It ignores queries with time
to spare: their triggers take less than `use` of the interval, or have pauses between them if the interval is unknown.

False alarms
------------
If little data arrives, the source takes most of each trigger, but the triggers are short.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h

_PARTS = ("latestOffset", "getOffset", "getBatch")


class Limits(h.Limits):
    floor: float = h.limit(
        500, "ms", "minimum time that the source takes per trigger; a healthy source is faster"
    )
    min_triggers: float = h.limit(
        3, "triggers", "minimum number of triggers; a single trigger may be a coincidence"
    )
    share: float = h.step_share_limit(0.5)
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query whose source responds slowly."""
    for flow in h.flows_of(assessed):
        query = flow.query
        if query is None or not h.has_no_pause(flow, use=limits.use):
            continue
        late = [t for t in h.late_triggers(query.triggers)[1:] if t.rows and t.duration_ms]
        source_ms = [sum(t.durations.get(part, 0) for part in _PARTS) for t in late]
        if len(late) < max(1, limits.min_triggers):
            continue
        took = median(source_ms)
        share = median(ms / (t.duration_ms or 1) for ms, t in zip(source_ms, late, strict=True))
        if took < limits.floor or share < limits.share:
            continue
        of = f"median of {h.fmt.plural(len(late), 'trigger')}"
        yield h.trigger_finding(
            assessed,
            query,
            late,
            title=f"{h.fmt.capital(query.label)} spends {h.fmt.duration(took)} of each trigger on requesting "
            f"new data from its source, {h.fmt.percent(share)} of its time",
            why=f"{h.fmt.percent(share)} of each trigger is spent requesting new data from the source",
            cause="slow-source",
            rank=h.Rank.ROOT_CAUSE,
            measurements=(
                h.measurement("source-time", round(took), "ms", limits.floor, over=of),
                h.measurement("source-share", round(share, 3), "share", limits.share, over=of),
            ),
            actions=h.remedies("slow-source", assessed.app),
        )


RULE = h.Rule("RT410", judge, Limits, causes=("slow-source",), needs="work")
