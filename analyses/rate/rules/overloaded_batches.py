"""Batches wait longer and longer.

What it reports
---------------
An application whose batches wait longer and longer for their processing: by how many intervals they
are late, how fast the delay grows, since when, and how many wait in the queue.

Why it matters
--------------
Each waiting batch of a receiver stays in memory until the executors have no more of it; for a
direct stream the delay eats the retention of the topic. Results are as late as the queue is long.

How it decides
--------------
The present are the last third of the completed batches (at least twelve), without the cold ones at
the start. The delay is the wait of the last batches, or the age of the oldest one that waits.
Overloaded: the delay rises by a robust slope (Theil-Sen with its confidence interval, Mann-Kendall),
by `rise` intervals within the present at least, and has reached `delay` of them; or it is above
`lost` intervals, does not fall, and processing takes longer than the interval or as many batches
wait. From `failing` intervals on it is critical. The confidence is low with fewer than `few` batches,
unless the last one waited longest. Where the inputs end while batches take longer than the interval and
wait longer each time, and the delay is short so far, nothing is found and nothing is well: the application
is inconclusive (the first half of spark/3.5.7/overloaded ends like that). What was above `failing` intervals, after `before` batches on time, and is
back below one is told as over, with its worst delay; with back pressure on, before `settled` batches
on time it is how the estimator finds its rate, a remark and no sickness. (The word `stability` in the report's data goes
by the defaults, whatever limits are set.)

What to do
----------
Look at RT301 to RT304 for one part that is slow. Otherwise fewer records per batch (back pressure),
more cores and as many blocks as cores, or a longer interval where a batch has a high cost of its
own.

False alarms
------------
A long pause of the driver, or a restart that works off a backlog: the delay falls again, and the
rule says at most that it is over.
"""

from __future__ import annotations

from typing import Any

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.cores import free_cores


class Late(h.Limits):
    """What RT101 compares with."""

    delay: float = h.limit(h.defaults.GROWN, "intervals", "a single long batch delays by less")
    rise: float = h.limit(h.defaults.RISE, "intervals", "within the present; less is noise")
    lost: float = h.limit(h.defaults.LOST, "intervals", "no batch makes up for that by itself")
    few: float = h.limit(
        h.defaults.LATE,
        "batches",
        "less may be a start that catches up, unless the last is the worst",
    )
    before: float = h.limit(
        3, "batches", "on time before an overload that is over: the first ones are a start"
    )
    settled: float = h.limit(
        h.defaults.LATE, "batches", "on time, with back pressure: it finds its rate by being late"
    )
    failing: float = h.limit(
        h.defaults.FAILING_DELAY,
        "intervals",
        "ten intervals of delay are ten batches in memory, and no burst any more",
    )


def judge(assessed: h.Assessed, limits: Late) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose delay grows."""
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE:
            yield h.Inconclusive(
                reason=state.because,
                remedy="flowdiag listener export DIR writes what records batches",
                job=assessed.key,
            )
        elif h.batches.overloaded(state, delay=limits.delay, rise=limits.rise, lost=limits.lost):
            yield _finding(assessed, state, limits)
        elif (drained := _drained(assessed, state, limits)) is not None:
            series, on_time = drained
            if h.pid.enabled(assessed.app) and on_time < limits.settled:
                yield _settled(assessed, state, series)
            else:
                yield _over(assessed, state, series)


def _drained(
    assessed: h.Assessed, state: h.StreamState, limits: Late
) -> tuple[list[h.Batch], int] | None:
    """The batches of the last overload that is over, and how many were on time before; None without one.

    They are those from the first that waited to the last. A start that catches up is none: a batch before it
    must have been on time.
    """
    interval = state.interval_ms
    batches = [b for b in assessed.app.completed if b.waited_ms is not None]
    if not interval or not batches or (batches[-1].waited_ms or 0) >= interval:
        return None
    found: tuple[list[h.Batch], int] | None = None
    series: list[h.Batch] = []
    on_time = 0
    for batch in batches:
        if (batch.waited_ms or 0) >= interval:
            series.append(batch)
            continue
        worst = max((b.waited_ms or 0 for b in series), default=0)
        if worst >= limits.failing * interval and on_time >= limits.before:
            found = series, on_time
        on_time += 1
        series = []
    return found


def _over(assessed: h.Assessed, state: h.StreamState, series: list[h.Batch]) -> h.Finding:
    """It was overloaded, and has drained what had piled up."""
    lasted = series[-1].time_ms - series[0].time_ms + (series[-1].waited_ms or 0)
    longest = max((b.processing_ms or 0 for b in series), default=0)
    interval = h.fmt.duration(state.interval_ms)
    return _of_series(
        assessed,
        state,
        series,
        severity=h.Severity.WARNING,
        title=f"Batches were up to {_worst(state, series):.1f} intervals late for {h.fmt.duration(lasted)}, "
        "and caught up",
        explain="For a while more came in than was processed; what had piled up is drained.",
        why=f"needed up to {h.fmt.duration(longest)} for what came in within {interval}",
        cause="overloaded",
        actions=h.remedies("overloaded", assessed.app, "cores", now=""),
    )


def _settled(assessed: h.Assessed, state: h.StreamState, series: list[h.Batch]) -> h.Finding:
    """Back pressure found its rate, and what had piled up until then is drained: no sickness."""
    return _of_series(
        assessed,
        state,
        series,
        severity=h.Severity.INFO,
        title=f"Batches were up to {_worst(state, series):.1f} intervals late at the start, until back "
        "pressure had found its rate",
        explain="The estimator lowers the rate once batches are late: what piled up before is drained.",
        cause=None,
        actions=(
            h.Action(
                text="Nothing to do while starts may be late; an initial rate limits the first batches",
                verify="waits of the first batches",
            ),
        ),
    )


def _worst(state: h.StreamState, series: list[h.Batch]) -> float:
    """The longest wait, in intervals."""
    return max(batch.waited_ms or 0 for batch in series) / (state.interval_ms or 1)


def _of_series(
    assessed: h.Assessed, state: h.StreamState, series: list[h.Batch], **said: Any
) -> h.Finding:
    """A finding about batches that were late, and are no more."""
    return h.application_finding(
        assessed,
        state=h.State.RECOVERED,
        rank=h.Rank.SYMPTOM,
        first_us=series[0].time_ms * 1000,
        last_us=series[-1].time_ms * 1000,
        count=len(series),
        measurements=(
            h.measurement(
                "worst-delay",
                round(_worst(state, series), 1),
                "intervals",
                over=f"of {h.fmt.duration(state.interval_ms)}",
            ),
            h.measurement("late-batches", len(series), "batches"),
        ),
        evidence=h.evidence_of(h.slowest_first(series)),
        ranked=True,
        **said,
    )


def _finding(assessed: h.Assessed, state: h.StreamState, limits: Late) -> h.Finding:
    app, slope = assessed.app, state.delay_trend
    late = state.delay_intervals or 0.0
    queued = f", {h.fmt.plural(state.queued, 'batch', 'batches')} waiting" if state.queued else ""
    tail = [
        b
        for b in app.batches
        if state.behind_since_ms is None or b.time_ms >= state.behind_since_ms
    ]
    further = "fall back further" if slope is not None and slope.rises else "do not catch up"
    took, interval = h.fmt.duration(state.processing_ms), h.fmt.duration(state.interval_ms)
    return h.application_finding(
        assessed,
        severity=h.Severity.CRITICAL if late >= limits.failing else h.Severity.WARNING,
        title=f"Batches are {late:.1f} intervals late and {further}{queued}; one takes {took}, and the "
        f"interval is {interval}",
        explain=_explain(assessed, state, h.time_to(state, 2 * late)),
        why=f"needs {took} for what comes in within {interval}",
        cause="overloaded",
        confidence=h.overload_confidence([b.waited_ms for b in app.completed], limits.few),
        rank=h.Rank.SYMPTOM,
        first_us=None if state.behind_since_ms is None else state.behind_since_ms * 1000,
        count=len(tail),
        measurements=tuple(_measurements(state, late, limits)),
        evidence=h.evidence_of(h.slowest_first(tail)),
        ranked=True,
        actions=tuple(_actions(assessed, state)),
    )


def _measurements(state: h.StreamState, late: float, limits: Late) -> h.Iterator[h.Measurement]:
    yield h.measurement("delay", round(late, 1), "intervals", limits.delay)
    yield h.measurement(
        "processing-time",
        state.processing_ms,
        "ms",
        state.interval_ms,
        over="median of the last third of the batches",
    )
    yield h.measurement("queued-batches", state.queued, "batches")
    if state.delay_trend is not None:
        yield h.measurement(
            "growth",
            round(state.delay_trend.slope, 3),
            "s of delay per s",
            over=f"95% between {state.delay_trend.low:.3f} and {state.delay_trend.high:.3f}",
        )
    if state.headroom_per_s is not None:
        yield h.measurement(
            "sustainable-rate",
            round(state.headroom_per_s, 1),
            "records/s",
            over=f"the present rate is {h.fmt.rate(state.records_per_s)}",
        )


def _explain(assessed: h.Assessed, state: h.StreamState, doubled: str | None) -> str:
    parts = ["More comes in per interval than is processed in one."]
    if doubled is not None:
        parts.append(f"At this slope the delay doubles in {doubled}.")
    if state.limit is not None:
        parts.append(state.limit.text)
    if h.pid.enabled(assessed.app) is False:
        parts.append("Back pressure is off.")
    return " ".join(parts)


def _actions(assessed: h.Assessed, state: h.StreamState) -> h.Iterator[h.Action]:
    app, line = assessed.app, state.line
    if h.pid.enabled(app) is not True:
        yield from _hold_back(assessed, state)
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        yield h.longer_interval(
            h.BATCH_INTERVAL,
            state.interval_ms,
            # No shorter than what RT202 proposes for a job of which this is the cause.
            max(2 * state.interval_ms, 2 * line.base),
            f"A batch costs {h.fmt.duration(line.base)} by itself: make the interval longer",
            verify="processing time over interval",
        )
    cores = free_cores(app)
    tasks = [b.stage.tasks for b in h.late_window(app.completed) if b.stage is not None]
    now = (
        f"; now {h.fmt.plural(max(tasks), 'task')} for {h.fmt.plural(cores, 'free core')}"
        if cores and tasks
        else ""
    )
    yield from h.remedies("overloaded", app, "cores", now=now)


def _hold_back(assessed: h.Assessed, state: h.StreamState) -> tuple[h.Action, ...]:
    able = state.headroom_per_s or 0.0
    # Spark's own floor of 100 may be more than the job can do, and its first batch has no limit.
    floor, first = max(1.0, min(100.0, able / 10)), max(1.0, 0.9 * able)
    names = ["back-pressure"]
    if able:
        names.append("initial-rate")
    if 0 < able < 200:
        names.append("min-rate")
    return h.remedies(
        "overloaded",
        assessed.app,
        *names,
        proposed={"initial-rate": first, "min-rate": floor},
        model=what_if(assessed, state, back_pressure=True, min_rate=floor, initial_rate=first),
    )


RULE = h.Rule("RT101", judge, Late, core=True, causes=("overloaded",))
