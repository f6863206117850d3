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
The present are the last third of the triggers, without the first of each run. With the trigger
interval known (`--trigger-interval`, the driver's log, or the grid of the starts): more than three
fifths of the triggers overrun it, and the median does. Without: durations rise by a robust slope,
or rows come in clearly faster than they are processed while each trigger reads more than the last.
Or the backlog (latest less end offsets) rises. In real-time mode (`--real-time`, the configuration, the
driver's log) only the backlog counts: there a trigger lasts as long as it is told to. Where triggers
look like that and nothing says so, the rule is inconclusive. `Once` and `AvailableNow` read what is there and
end: their rates are equal, so that they are never reported. Critical from `failing` intervals per
trigger on.

What to do
----------
Look at which part of the trigger takes the time, and at RT303 for one slow task. More partitions
and cores; a limit of rows per trigger keeps single triggers short, not the query alive.

False alarms
------------
A restart that works off a backlog: it ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.facts import ApplicationFacts, QueryFacts, Trigger
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class OverloadedQueryLimits(Limits):
    """What RT401 compares with."""

    failing: float = limit(
        rate_state.FAILING_DELAY,
        "intervals",
        "a trigger that takes ten intervals is no burst any more",
    )


def judge(assessed: Assessed, limits: OverloadedQueryLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query that falls behind."""
    for query, state in assessed.queries:
        if state.stability is Stability.INCONCLUSIVE:
            real_time = query.real_time is None and "real-time" in state.because
            yield Inconclusive(
                reason=f"{state.because} of query {query.name or query.id}"
                if not real_time
                else f"query {query.name or query.id}: {state.because}",
                remedy="--real-time or --no-real-time"
                if real_time
                else "a longer event log or driver log",
                job=assessed.key,
            )
        elif state.stability is Stability.OVERLOADED:
            yield _finding(assessed, query, state, limits.failing)


def eaten_by(triggers: tuple[Trigger, ...]) -> tuple[str, float] | None:
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


_PARTS: Final = {
    "addBatch": "the job itself",
    "latestOffset": "asking the source what is there",
    "getOffset": "asking the source what is there",
    "queryPlanning": "planning",
    "walCommit": "writing the offsets",
    "commitOffsets": "writing the commit",
    "getBatch": "preparing the batch",
    "commitBatch": "committing the batch",
}


def _finding(assessed: Assessed, query: QueryFacts, state: StreamState, failing: float) -> Finding:
    app = assessed.app
    late = rate_state.late_triggers(query.triggers)
    intervals = None
    if state.interval_ms and late:
        intervals = (late[-1].duration_ms or 0) / state.interval_ms
    eaten = eaten_by(late)
    explain = ""
    if eaten is not None:
        explain = (
            f"{eaten[1]:.0%} of the time goes to {_PARTS.get(eaten[0], eaten[0])} ({eaten[0]})."
        )
    measurements = [
        Measurement(
            name="trigger-duration",
            value=state.processing_ms,
            unit="ms",
            threshold=state.interval_ms,
            population=f"median of {count_of(late)}",
        )
    ]
    if state.headroom_per_s is not None:
        measurements.append(
            Measurement(
                name="sustainable-rate",
                value=round(state.headroom_per_s, 1),
                unit="rows/s",
                population=f"the present rate is {j.rate_text(state.records_per_s)}",
            )
        )
    if state.backlog is not None and late and late[-1].backlog is not None:
        measurements.append(Measurement(name="backlog", value=late[-1].backlog, unit="rows"))
    return Finding(
        job=assessed.key,
        severity=(
            Severity.CRITICAL
            if intervals is not None and intervals >= failing
            else Severity.WARNING
        ),
        state=State.ONGOING,
        subject=j.query_subject(app, query),
        title=f"Query {query.name or query.id} cannot keep up: {state.because}",
        explain=explain,
        why=state.because,
        cause="overloaded",
        rank=Rank.SYMPTOM,
        first_us=late[0].time_us if late else None,
        last_us=late[-1].time_us if late else None,
        count=len(late),
        measurements=tuple(measurements),
        evidence=j.of_triggers(sorted(late, key=lambda t: -(t.duration_ms or 0))[:10]),
        actions=tuple(_actions(app, query, state, eaten)),
    )


_REMEDIES: Final = {
    "latestOffset": "See why the source is slow to say what is there: brokers, or many files to list",
    "getOffset": "See why the source is slow to say what is there: brokers, or many files to list",
    "queryPlanning": "Plan less per trigger: fewer columns, files and unions in the query",
    "getBatch": "See what the source does to prepare a batch",
    "walCommit": "Put the checkpoint location on a faster file system",
    "commitOffsets": "Put the checkpoint location on a faster file system",
}


def _actions(
    app: ApplicationFacts,
    query: QueryFacts,
    state: StreamState,
    eaten: tuple[str, float] | None,
) -> Iterator[Action]:
    if eaten is not None and eaten[0] in _REMEDIES and eaten[1] >= 0.4:
        yield Action(text=_REMEDIES[eaten[0]], verify=f"{eaten[0]} in durationMs of the triggers")
    late = rate_state.late_triggers(query.triggers)
    tasks = [t.stage.tasks for t in late if t.stage is not None]
    cores = cores_of(app)
    most = f"; now {max(tasks)} tasks for {cores} cores" if tasks and cores else ""
    option = "spark.sql.shuffle.partitions"
    yield Action(
        text=f"More cores, and as many partitions of source and shuffle as cores{most}",
        option=option,
        current=app.settings.get(option),
        restart_needed=True,
        verify="triggerExecution against the trigger interval",
    )
    line = state.line
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        yield Action(
            text=f"A trigger costs {duration_text(line.base)} by itself: make the interval longer",
            current=duration_text(state.interval_ms),
            proposed=duration_text(2 * line.base),
            restart_needed=True,
            verify="triggerExecution against the trigger interval",
        )


def count_of(triggers: tuple[Trigger, ...]) -> str:
    """How many triggers, in words."""
    return "1 trigger" if len(triggers) == 1 else f"{len(triggers)} triggers"


RULE: Final = Rule("RT401", judge, OverloadedQueryLimits, core=True)
