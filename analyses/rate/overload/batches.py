"""Findings about batches that fall behind, or that fell behind and caught up."""

from __future__ import annotations

from statistics import median
from typing import Final, Unpack

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.cores import free_cores

SPARK_FLOOR: Final = 100.0  # records per second: the default of minRate
RISEN: Final = 1.5  # minimum ratio of records per batch
SAME_COST: Final = 1.3  # maximum ratio of the costs per record, in both directions
REPEATED: Final = 3  # minimum number of batches in a window; two overlap in every sliding window


def late_batches(
    assessed: h.AssessedApplication,
    state: h.StreamState,
    *,
    failing: float,
    few: float,
    delay: float,
) -> h.Finding:
    """Return the finding about an application whose delay grows.

    Args:
        assessed: the application.
        state: the state of its batches.
        failing: delay in intervals at which the finding is critical.
        few: number of batches for high confidence.
        delay: delay in intervals that counts as an overload.
    """
    app, since = assessed.app, state.behind_since_ms
    late = state.delay_intervals or 0.0
    queued = ""
    if state.queued:
        queued = f", with {h.fmt.plural(state.queued, 'batch', 'batches')} queued"
    tail = [b for b in app.batches if b.time_ms >= (since or 0)]
    trend = "fall further behind" if state.delay_grows else "do not catch up"
    took, interval = h.fmt.duration(state.processing_ms), h.fmt.duration(state.interval_ms)
    doubled = h.time_to(state, 2 * late)
    notes = (
        "More records arrive per interval than one interval can process.",
        doubled and f"At this rate, the delay doubles in {doubled}.",
        state.limit and state.limit.text,
        risen_input(app),
        _back_pressure_text(app),
        _earlier_batches_text(app),
    )
    return h.application_finding(
        assessed,
        severity=h.Severity.CRITICAL if late >= failing else h.Severity.WARNING,
        title=f"Batches are {late:.1f} intervals late and {trend}{queued}: a batch takes {took}, "
        f"and the interval is {interval}",
        explain=" ".join(note for note in notes if note),
        why=f"needs {took} to process {interval} of records",
        cause="overloaded",
        confidence=h.overload_confidence([b.waited_ms for b in app.completed], few),
        rank=h.Rank.SYMPTOM,
        first_us=None if since is None else since * 1000,
        count=len(tail),
        measurements=tuple(_measurements(state, late, delay)),
        evidence=h.evidence_of(h.slowest_first(tail)),
        ranked=True,
        actions=tuple(_actions(assessed, state)),
    )


def _back_pressure_text(app: h.ApplicationFacts) -> str:
    if h.pid.ignores_rate(app):
        return "Back pressure cannot help: only receivers and Kafka follow a rate limit."
    return "Back pressure is off." if h.pid.is_enabled(app) is False else ""


def _earlier_batches_text(app: h.ApplicationFacts) -> str:
    """Return a sentence about the work of earlier batches that each batch repeats."""
    window = _window_batches(app)
    if window >= REPEATED:
        return f"Each batch reads the {window} batches of its window again."
    return "Each batch reads the whole state of all keys." if _has_state(app) else ""


def _window_batches(app: h.ApplicationFacts) -> int:
    return max((batch.window_batches for batch in app.batches), default=0)


def _has_state(app: h.ApplicationFacts) -> bool:
    return any("state" in batch.lineage for batch in app.batches)


def unread_text(state: h.StreamState) -> str:
    """Return a sentence about the records that back pressure leaves unread in the source."""
    now, able = state.records_per_s or 0.0, state.headroom_per_s or 0.0
    if not able or now <= able:
        return ""
    return (
        f" At {h.fmt.rate(now)}, {h.fmt.percent(1 - able / now)} of the records stay unread in the source, and "
        "the backlog grows every second."
    )


def risen_input(app: h.ApplicationFacts) -> str | None:
    """Return a sentence if the input rate rose while the cost per record did not, so that the input is the cause."""
    done = [b for b in app.completed[h.defaults.COLD :] if b.records and b.processing_ms]
    if len(done) < 2 * h.defaults.FEW:
        return None
    third = len(done) // 3
    before, after = done[:third], done[-third:]
    (low, cost), (high, later) = (_input(part) for part in (before, after))
    if high < RISEN * low or not 1 / SAME_COST <= later / cost <= SAME_COST:
        return None
    interval = app.interval_ms or 1000
    each = h.fmt.duration(later)
    return (
        f"The input rate rose from {h.fmt.rate(low * 1000 / interval)} to "
        f"{h.fmt.rate(high * 1000 / interval)}, and a record still takes {each}: the higher "
        "input rate is the cause."
    )


def _input(batches: h.Sequence[h.Batch]) -> tuple[float, float]:
    """Return the median number of records per batch, and the median time per record in ms."""
    records = median(b.records or 0 for b in batches)
    return records, median((b.processing_ms or 0) / (b.records or 1) for b in batches)


def _measurements(state: h.StreamState, late: float, delay: float) -> h.Iterator[h.Measurement]:
    yield h.measurement("delay", round(late, 1), "intervals", delay)
    yield h.measurement(
        "processing-time",
        state.processing_ms,
        "ms",
        state.interval_ms,
        over="median of the last third of the batches",
    )
    if state.queued:
        yield h.measurement("queued-batches", state.queued, "batches")
    if state.delay_trend is not None:
        low, high = state.delay_trend.low, state.delay_trend.high
        slope, over = round(state.delay_trend.slope, 3), f"95% between {low:.3f} and {high:.3f}"
        yield h.measurement("growth", slope, "s of delay per s", over=over)
    if state.headroom_per_s is not None:
        over = f"the current rate is {h.fmt.rate(state.records_per_s)}"
        yield h.measurement(
            "sustainable-rate", round(state.headroom_per_s, 1), "records/s", over=over
        )


def _actions(assessed: h.AssessedApplication, state: h.StreamState) -> h.Iterator[h.Action]:
    app, line, able = assessed.app, state.line, state.headroom_per_s or 0.0
    if _window_batches(app) >= REPEATED:
        yield from h.remedies("overloaded", app, "window", batches=str(_window_batches(app)))
    if _has_state(app):
        yield from h.remedies("overloaded", app, "state")
    if h.pid.is_enabled(app) is not True and not h.pid.ignores_rate(app):
        # Spark's floor of 100 records/s may be more than the job can process, and the first batch has no limit.
        floor, first = max(1.0, min(SPARK_FLOOR, able / 10)), max(1.0, 0.9 * able)
        yield from h.remedies(
            "overloaded",
            app,
            "back-pressure",
            *(("initial-rate",) if able else ()),
            *(("min-rate",) if 0 < able < 2 * SPARK_FLOOR else ()),
            proposed={"initial-rate": first, "min-rate": floor},
            model=what_if(assessed, state, back_pressure=True, min_rate=floor, initial_rate=first)
            + unread_text(state),
        )
    if line is not None and state.interval_ms and line.base >= 0.5 * state.interval_ms:
        yield h.longer_interval(
            h.BATCH_INTERVAL,
            state.interval_ms,
            # Not shorter than the interval that RT202 proposes, because a fixed cost may be the cause.
            max(2 * state.interval_ms, 2 * line.base),
            f"Use a longer interval: each batch has a fixed cost of {h.fmt.duration(line.base)}",
            verify="the processing time is well below the interval",
        )
    cores = free_cores(app)
    tasks = [b.stage.tasks for b in h.late_window(app.completed) if b.stage is not None]
    now = ""
    if cores and tasks:
        now = f"; now {h.fmt.plural(max(tasks), 'task')} for {h.fmt.plural(cores, 'free core')}"
    yield from h.remedies("overloaded", app, "cores", now=now)


def drained_overload(
    assessed: h.AssessedApplication,
    state: h.StreamState,
    *,
    failing: float,
    before: float,
    settled: float,
) -> h.Finding | None:
    """Return the finding about the last overload that has ended, or None.

    A start that catches up does not count, so batches before the overload must be on time.

    Args:
        assessed: the application.
        state: the state of its batches.
        failing: minimum wait of a batch, in intervals.
        before: minimum number of batches on time before the overload.
        settled: number of batches on time; after fewer, back pressure was still finding its rate.
    """
    interval = state.interval_ms
    batches = [b for b in assessed.app.completed if b.waited_ms is not None]
    if not interval or not batches or (batches[-1].waited_ms or 0) >= interval:
        return None
    series, on_time = _last_overload(batches, interval, failing * interval, before)
    if not series:
        return None
    peak = max(batch.waited_ms or 0 for batch in series) / interval
    if h.pid.is_enabled(assessed.app) and on_time < settled:
        return _past_finding(
            assessed,
            series,
            peak,
            severity=h.Severity.INFO,
            title=f"Batches were up to {peak:.1f} intervals late at the start, until back pressure "
            "found its rate",
            explain="The estimator lowers the rate once batches are late. The queue has drained.",
            cause=None,
            actions=(
                h.Action(
                    text="No action is needed unless the first batches must be on time. In that "
                    "case, set an initial rate to limit them",
                    verify="the first batches have a short scheduling delay",
                ),
            ),
        )
    lasted = series[-1].time_ms - series[0].time_ms + (series[-1].waited_ms or 0)
    longest = h.fmt.duration(max((b.processing_ms or 0 for b in series), default=0))
    return _past_finding(
        assessed,
        series,
        peak,
        severity=h.Severity.WARNING,
        title=f"Batches were up to {peak:.1f} intervals late for {h.fmt.duration(lasted)}, "
        "and caught up",
        explain="For a while, more records arrived than were processed. The queue has drained.",
        why=f"needed up to {longest} to process {h.fmt.duration(interval)} of records",
        cause="overloaded",
        actions=h.remedies("overloaded", assessed.app, "cores", now=""),
    )


def _last_overload(
    batches: list[h.Batch], interval: int, worst_ms: float, before: float
) -> tuple[list[h.Batch], int]:
    """Return the last series of late batches that ended, and how many batches were on time before it."""
    found, found_on_time = [], 0
    series: list[h.Batch] = []
    on_time = 0
    for batch in batches:
        if (batch.waited_ms or 0) >= interval:
            series.append(batch)
            continue
        if series and max(b.waited_ms or 0 for b in series) >= worst_ms and on_time >= before:
            found, found_on_time = series, on_time
        on_time += 1
        series = []
    return found, found_on_time


def _past_finding(
    assessed: h.AssessedApplication,
    series: list[h.Batch],
    worst: float,
    **fields: Unpack[h.SubjectFields],
) -> h.Finding:
    interval = h.fmt.duration(assessed.app.interval_ms)
    past: h.SubjectFields = {
        "state": h.State.RECOVERED,
        "rank": h.Rank.SYMPTOM,
        "measurements": (
            h.measurement("worst-delay", round(worst, 1), "intervals", over=f"of {interval}"),
            h.measurement("late-batches", len(series), "batches"),
        ),
        "evidence": h.evidence_of(h.slowest_first(series)),
        "ranked": True,
    }
    return h.batch_finding(assessed, series, **(past | fields))
