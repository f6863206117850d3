"""A streaming query cannot keep up.

What it reports
---------------
A query whose triggers take longer than their interval, or read more each time because each takes
longer, or leave a backlog that grows.

Why it matters
--------------
Results are later with every trigger, and what waits in the source is lost when its retention ends.

How it decides
--------------
The present are the last third of the triggers (at least twelve), without the first of each run. With
the trigger interval known (`--trigger-interval`, the driver's log, or the grid of the starts): more
than `overrun` of the triggers overrun it, and the median does, and the next one follows at once (behind a
pause all that was there is read, as in spark/4.3.0/query-no-interval-stable). Without: durations rise by a robust
slope, or as many rows come in as `faster` of what is processed, while each trigger reads more than
the last. Or the backlog (latest less end offsets) rises. In real-time mode (`--real-time`, the
configuration, the driver's log) only the backlog counts: there a trigger lasts as long as it is told
to. Where triggers look like that and nothing says so, the rule is inconclusive. `Once` and
`AvailableNow` read what is there and end: their rates are equal, so that they are never reported.
The confidence is low with fewer than `few` triggers,
unless the last one is the longest; where these take less than one and a half intervals, they may be those of
a start, and the rule is inconclusive.
Critical from `failing` intervals per trigger on. (The word `stability` in the report's data goes by the
defaults, whatever limits are set.)

What to do
----------
Look at which part of the trigger takes the time, and at RT303 for one slow task. More partitions
and cores; a limit of rows per trigger keeps single triggers short, not the query alive.

False alarms
------------
A restart that works off a backlog: it ends by itself.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of

# What parts of a trigger are, and which remedy there is for each.
_PARTS: Final = {
    "addBatch": ("the job itself", None),
    "latestOffset": ("asking the source what is there", "source"),
    "getOffset": ("asking the source what is there", "source"),
    "queryPlanning": ("planning", "planning"),
    "walCommit": ("writing the offsets", "location"),
    "commitOffsets": ("writing the commit", "location"),
    "getBatch": ("preparing the batch", "batch"),
    "commitBatch": ("committing the batch", None),
}


class Late(h.Limits):
    """What RT401 compares with."""

    overrun: float = h.limit(h.defaults.MOSTLY, "share", "of the triggers; single ones are bursts")
    faster: float = h.limit(
        h.defaults.FASTER, "share", "of what is processed: no two rates are equal"
    )
    few: float = h.limit(
        h.defaults.LATE,
        "triggers",
        "less may be a start that catches up, unless the last is the worst",
    )
    failing: float = h.limit(
        h.defaults.FAILING_DELAY,
        "intervals",
        "a trigger that takes ten intervals is no burst any more",
    )


def judge(assessed: h.Assessed, limits: Late) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query that falls behind."""
    for query, state in assessed.queries:
        if state.stability is h.Stability.INCONCLUSIVE:
            yield _cannot_tell(assessed, query, state)
        elif state.stability not in (h.Stability.FAILING, h.Stability.IDLE):
            late = h.triggers.timed_triggers(query)
            because = h.triggers.falling_behind(
                state, query, late, overrun=limits.overrun, faster=limits.faster
            )
            if because is not None:
                yield _finding(assessed, query, state, because, limits)


def _cannot_tell(assessed: h.Assessed, query: h.QueryFacts, state: h.StreamState) -> h.Inconclusive:
    if query.real_time is None and "real-time" in state.because:
        reason, remedy = f"{query.label}: {state.because}", "--real-time or --no-real-time"
    elif len(query.triggers) >= h.defaults.FEW:
        reason = f"{query.label}: {state.because}"
        longer = "a longer event log or driver log"
        remedy = longer if state.interval_ms is not None else "--trigger-interval"
    else:
        reason, remedy = f"{state.because} of {query.label}", "a longer event log or driver log"
    return h.Inconclusive(reason=reason, remedy=remedy, job=assessed.key)


def eaten_by(triggers: h.Sequence[h.Trigger]) -> tuple[str, float] | None:
    """The part of `durationMs` that takes most of the triggers, and its share."""
    total = sum(t.duration_ms or 0 for t in triggers)
    parts: dict[str, int] = {}
    for trigger in triggers:
        for name, value in trigger.durations.items():
            if name != "triggerExecution":
                parts[name] = parts.get(name, 0) + value
    if not parts or not total:
        return None
    name = max(sorted(parts), key=lambda part: parts[part])
    return name, parts[name] / total


def _finding(
    assessed: h.Assessed, query: h.QueryFacts, state: h.StreamState, because: str, limits: Late
) -> h.Finding:
    late = h.late_triggers(query.triggers)
    lasted = (late[-1].duration_ms or 0) if late else 0
    fatal = bool(state.interval_ms and late) and (
        lasted / (state.interval_ms or 1) >= limits.failing
    )
    eaten, explain = eaten_by(late), ""
    if eaten is not None:
        what = _PARTS.get(eaten[0], (eaten[0], None))[0]
        if eaten[0] == "addBatch" and _outside_jobs(late):
            what = "what the sink does while no job runs"
        explain = f"{h.fmt.percent(eaten[1])} of the time goes to {what} ({eaten[0]})."
    return h.trigger_finding(
        assessed,
        query,
        late,
        severity=h.Severity.CRITICAL if fatal else h.Severity.WARNING,
        title=f"{h.fmt.capital(query.label)} cannot keep up: {because}",
        explain=explain,
        why=because,
        cause="overloaded",
        confidence=h.overload_confidence([t.duration_ms for t in query.triggers], limits.few),
        rank=h.Rank.SYMPTOM,
        measurements=tuple(_measurements(state, late)),
        evidence=h.evidence_of(sorted(late, key=lambda t: -(t.duration_ms or 0))),
        ranked=True,
        actions=tuple(_actions(assessed, state, late, eaten)),
    )


def _outside_jobs(late: h.Sequence[h.Trigger]) -> bool:
    """Whether no Spark job runs in most of what the triggers spend on their batches."""
    told = [
        (t.durations["addBatch"], t.work.busy_ms)
        for t in late
        if t.work is not None and t.work.busy_ms is not None and t.durations.get("addBatch")
    ]
    return sum(busy for _, busy in told) * 2 < sum(lasted for lasted, _ in told)


def _measurements(state: h.StreamState, late: h.Sequence[h.Trigger]) -> h.Iterator[h.Measurement]:
    yield h.measurement(
        "trigger-duration",
        state.processing_ms,
        "ms",
        state.interval_ms,
        over=f"median of {h.fmt.plural(len(late), 'trigger')}",
    )
    if state.headroom_per_s is not None:
        yield h.measurement(
            "sustainable-rate",
            round(state.headroom_per_s, 1),
            "rows/s",
            over=f"the present rate is {h.fmt.rate(state.records_per_s)}",
        )
    if state.backlog is not None and late and late[-1].backlog is not None:
        yield h.measurement("backlog", late[-1].backlog, "rows")


def _actions(
    assessed: h.Assessed,
    state: h.StreamState,
    late: h.Sequence[h.Trigger],
    eaten: tuple[str, float] | None,
) -> h.Iterator[h.Action]:
    app, line = assessed.app, state.line
    part, share = eaten or ("", 0.0)
    remedy = _PARTS.get(part, ("", None))[1]
    if remedy is not None and share >= 0.4:
        yield from h.remedies("overloaded", app, remedy, part=part)
    tasks = [t.stage.tasks for t in late if t.stage is not None]
    cores = cores_of(app)
    now = (
        f"; now {h.fmt.plural(max(tasks), 'task')} for {h.fmt.plural(cores, 'core')}"
        if tasks and cores
        else ""
    )
    yield from h.remedies("overloaded", app, "partitions", now=now)
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        yield h.longer_interval(
            h.TRIGGER_INTERVAL,
            state.interval_ms,
            2 * line.base,
            f"A trigger costs {h.fmt.duration(line.base)} by itself: make the interval longer",
            verify="triggerExecution against the trigger interval",
        )


RULE = h.Rule("RT401", judge, Late, core=True, causes=("overloaded",))
