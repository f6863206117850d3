"""Findings about queries that fall behind."""

from __future__ import annotations

from itertools import groupby
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of

# The parts of a trigger, with a phrase and the remedy for each.
_PARTS: Final = {
    "addBatch": ("the job itself", None),
    "latestOffset": ("requesting the latest offsets from the source", "source"),
    "getOffset": ("requesting the latest offsets from the source", "source"),
    "queryPlanning": ("planning", "planning"),
    "walCommit": ("writing the offsets", "location"),
    "commitOffsets": ("writing the commit", "location"),
    "getBatch": ("preparing the batch", "batch"),
    "commitBatch": ("committing the batch", None),
}
_AGAIN: Final = 10  # minimum number of records of a table per row of the sources
_MOST: Final = 0.5  # share of a trigger that makes a part the reason for its length


def inconclusive_query(
    assessed: h.AssessedApplication, query: h.QueryFacts, state: h.StreamState
) -> h.Inconclusive:
    """Return why the rule cannot judge a query, with the input or option that would allow it."""
    remedy: str | None = None
    reason = f"{query.label}: {state.because}"
    if query.real_time is None and "real-time" in state.because:
        remedy = "--real-time or --no-real-time"
    elif len(query.triggers) < h.defaults.FEW:
        reason = f"{state.because} of {query.label}"
    elif state.interval_ms is None:
        remedy = "--trigger-interval"
    checks = () if remedy else ("later-events",)
    return h.Inconclusive(reason=reason, checks=checks, remedy=remedy, job=assessed.key)


def late_query(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    state: h.StreamState,
    because: str,
    *,
    failing: float,
    few: float,
) -> h.Finding:
    """Return the finding about a query that falls behind.

    Args:
        assessed: the application.
        query: one of its queries.
        state: the state of its triggers.
        because: the reason, as a clause.
        failing: duration of a trigger, in intervals, at which the finding is critical.
        few: number of triggers for high confidence.
    """
    late = h.late_triggers(query.triggers)
    lasted = (late[-1].duration_ms or 0) if late else 0
    fatal = bool(state.interval_ms and late) and lasted / (state.interval_ms or 1) >= failing
    part, share = largest_part(late) or ("", 0.0)
    again = _repeated_reads(query, late)
    explain, reason = _reason_texts(late, again, part, share)
    return h.trigger_finding(
        assessed,
        query,
        late,
        severity=h.Severity.CRITICAL if fatal else h.Severity.WARNING,
        title=f"{h.fmt.capital(query.label)} cannot keep up: {because}",
        explain=explain,
        why=f"{because}; {reason}" if reason else because,
        cause="overloaded",
        confidence=h.overload_confidence([t.duration_ms for t in query.triggers], few),
        rank=h.Rank.SYMPTOM,
        measurements=tuple(_measurements(state, late)),
        evidence=h.evidence_of(sorted(late, key=lambda t: -(t.duration_ms or 0))),
        ranked=True,
        actions=(
            *(h.remedies("overloaded", assessed.app, "table") if again else ()),
            *_actions(assessed, state, late, part, share),
        ),
    )


def _reason_texts(
    late: h.Sequence[h.Trigger], again: str | None, part: str, share: float
) -> tuple[str, str | None]:
    """Return the explanation and the reason: the part that takes most of the time, or a table that is read again."""
    what, remedy = _PARTS.get(part, (part, None))
    if part == "addBatch" and _mostly_outside_jobs(late):
        what = "the sink while no job runs"
    takes = h.fmt.percent(share)
    sentences = [f"{takes} of the time goes to {what} ({part})."] if part else []
    sentences += [f"{h.fmt.capital(again)}."] if again else []
    reason = f"{what} takes {takes}" if remedy is not None and share >= _MOST else again
    return " ".join(sentences), reason


def past_late_query(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    state: h.StreamState,
    *,
    failing: float,
    before: float,
) -> h.Finding | None:
    """Return the finding about the last series of overrunning triggers that has ended, or None.

    A start that catches up does not count, so triggers before the series must be on time.

    Args:
        assessed: the application.
        query: one of its queries.
        state: the state of its recent triggers.
        failing: minimum duration of the series, in intervals.
        before: minimum number of triggers on time before the series, and after it.
    """
    interval = query.trigger_interval_ms
    if not interval or query.real_time or state.periodic is not None:
        return None
    series, outcome = _ended_series(query, failing * interval) or _last_overruns(
        query.triggers, interval, failing * interval, before
    )
    if not series:
        return None
    lasted = sum(t.duration_ms or 0 for t in series)
    longest = max(series, key=lambda t: t.duration_ms or 0)
    rows = "" if longest.rows is None else f" for {h.fmt.plural(longest.rows, 'row')}"
    return h.trigger_finding(
        assessed,
        query,
        series,
        severity=h.Severity.WARNING,
        state=h.State.RECOVERED,
        title=f"{h.fmt.capital(query.label)} could not keep up for {h.fmt.duration(lasted)}, "
        "then caught up",
        explain="For a while, triggers took longer than the interval. Later triggers are on time.",
        why=f"a trigger took up to {h.fmt.duration(longest.duration_ms or 0)}{rows}, and {outcome}",
        cause="overloaded",
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement(
                "worst-trigger",
                round((longest.duration_ms or 0) / interval, 1),
                "intervals",
                over=f"of {h.fmt.duration(interval)}",
            ),
            h.measurement("late-triggers", len(series), "triggers"),
        ),
        evidence=h.evidence_of(sorted(series, key=lambda t: -(t.duration_ms or 0))),
        ranked=True,
        actions=h.remedies("overloaded", assessed.app, "partitions", now=""),
    )


def _ended_series(query: h.QueryFacts, least_ms: float) -> tuple[list[h.Trigger], str] | None:
    """Return the late triggers of an overload that ended in a log at WARN, with a clause on the time after it."""
    if sum(t.duration_ms or 0 for t in query.ended_overload) < least_ms:
        return None
    return [*query.ended_overload], "no later trigger is late"


def _last_overruns(
    triggers: h.Sequence[h.Trigger], interval: int, least_ms: float, before: float
) -> tuple[list[h.Trigger], str]:
    """Return the last overruns that triggers on time surround, with a clause on the usual duration before them."""
    timed = [(t.duration_ms, t) for t in triggers if t.duration_ms is not None]
    parts = [[*part] for _, part in groupby(timed, lambda one: (one[1].run_id, one[0] > interval))]
    found: tuple[list[h.Trigger], str] = [], ""
    for on_time, series, after in zip(parts, parts[1:], parts[2:], strict=False):
        is_whole = len({part[0][1].run_id for part in (on_time, series, after)}) == 1
        lasts = series[0][0] > interval and sum(ms for ms, _ in series) >= least_ms
        if is_whole and lasts and min(len(on_time), len(after)) >= before:
            typical = h.fmt.duration(median(ms for ms, _ in on_time))
            found = [trigger for _, trigger in series], f"{typical} before"
    return found


def largest_part(triggers: h.Sequence[h.Trigger]) -> tuple[str, float] | None:
    """Return the part of `durationMs` that takes the most time, and its median share of a trigger.

    The first triggers of a query run cold code, mostly in `addBatch`, so sums over all triggers would mislead.
    """
    timed = [t for t in triggers if t.duration_ms and t.durations]
    names = sorted({name for t in timed for name in t.durations} - {"triggerExecution"})
    shares = {
        name: median(t.durations.get(name, 0) / (t.duration_ms or 1) for t in timed)
        for name in names
    }
    return max(shares.items(), key=lambda one: one[1]) if shares else None


def _repeated_reads(query: h.QueryFacts, late: h.Sequence[h.Trigger]) -> str | None:
    """Return a clause about a table that each trigger reads again, if it has most of the records, or None."""
    stages = [(t.stage.largest or t.stage, t.rows) for t in late if t.stage is not None and t.rows]
    reads = [(stage.records, rows) for stage, rows in stages if stage.records >= _AGAIN * rows]
    if not query.plan.tables or len(reads) <= _MOST * len(stages):
        return None
    records, rows = median(records for records, _ in reads), median(rows for _, rows in reads)
    return (
        f"each trigger reads {h.fmt.listed(query.plan.tables)} again: {h.fmt.thousands(records)} records, "
        f"for {h.fmt.thousands(rows)} rows of the sources"
    )


def _mostly_outside_jobs(late: h.Sequence[h.Trigger]) -> bool:
    """Return whether no Spark job runs for most of `addBatch`."""
    times = [
        (t.durations["addBatch"], t.work.busy_ms)
        for t in late
        if t.work is not None and t.work.busy_ms is not None and t.durations.get("addBatch")
    ]
    return sum(busy for _, busy in times) * 2 < sum(lasted for lasted, _ in times)


def _measurements(state: h.StreamState, late: h.Sequence[h.Trigger]) -> h.Iterator[h.Measurement]:
    over = f"median of {h.fmt.plural(len(late), 'trigger')}"
    yield h.measurement("trigger-duration", state.processing_ms, "ms", state.interval_ms, over=over)
    if state.headroom_per_s is not None:
        over = f"the current rate is {h.fmt.rate(state.records_per_s)}"
        yield h.measurement("sustainable-rate", round(state.headroom_per_s, 1), "rows/s", over=over)
    if state.backlog is not None and late and late[-1].backlog is not None:
        yield h.measurement("backlog", late[-1].backlog, "rows")


def _actions(
    assessed: h.AssessedApplication,
    state: h.StreamState,
    late: h.Sequence[h.Trigger],
    part: str,
    share: float,
) -> h.Iterator[h.Action]:
    app, line, cores = assessed.app, state.line, cores_of(assessed.app)
    remedy = _PARTS.get(part, ("", None))[1]
    if remedy is not None and share >= 0.4:
        yield from h.remedies("overloaded", app, remedy, part=part)
    if remedy is None or share < _MOST:  # the driver does the other parts alone, without tasks
        tasks = [t.stage.tasks for t in late if t.stage is not None]
        now = ""
        if tasks and cores:
            now = f"; now {h.fmt.plural(max(tasks), 'task')} for {h.fmt.plural(cores, 'core')}"
        yield from h.remedies("overloaded", app, "partitions", now=now)
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        yield h.longer_interval(
            h.TRIGGER_INTERVAL,
            state.interval_ms,
            2 * line.base,
            f"Use a longer interval: each trigger has a fixed cost of {h.fmt.duration(line.base)}",
            verify="triggers end within the trigger interval",
        )
