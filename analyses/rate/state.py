"""How an application's batches, or a query's triggers, keep up: one word, and the numbers behind it.

What counts is the present: the late window, medians and robust slopes (`stability`). The first batches
are cold and are left out. Rules and the report read the same `StreamState`, so that they cannot differ.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise
from math import gcd
from statistics import median
from typing import Final, TypeVar

from flowdiag.analyses import say
from flowdiag.analyses.keys import JobKey
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    QueryFacts,
    RateFacts,
    Record,
    Trigger,
)
from flowdiag.analyses.rate.limits import Limit, limit_of
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Line, Stability, Trend, fit, trend

# What the present is, and when something is said of it at all.
COLD: Final = 2  # batches at the beginning that load classes and compile
FEW: Final = 5  # completed ones below which nothing is said
LATE: Final = 12  # at least so many, or a third of them, are the present
# Defaults of the limits that rules publish: the words of `data` always go by these.
SILENT: Final = 10  # intervals without a batch: lines are missing
SILENCE_MS: Final = 600_000  # and so long at least
GROWN: Final = 2.0  # intervals of delay from which growth is an overload
LOST: Final = 5.0  # intervals of delay that are one even where it does not grow
RISE: Final = 0.5  # intervals that the delay has to rise by within the present
NARROW: Final = 0.8  # of the interval: what takes more has no room
AT_LIMIT: Final = 0.85  # of the permitted records, that a batch has to hold to be "at the limit"
MOSTLY: Final = 0.6  # of the latest batches
FASTER: Final = 1.15  # times as fast as rows are processed: no two rates are equal
SAME: Final = 0.95  # of the most rows that a trigger read: it took as many
PERIODIC: Final = 1.5  # times the usual length, for a batch that is long at regular distances
LONGER_MS: Final = 200.0  # and so much longer at least
TIMES: Final = 3  # so often at least: two are at some distance in any case
REAL_TIME_MS: Final = 5000  # spark.sql.streaming.realTimeMode.minBatchDuration
START: Final = (
    1.5  # intervals that the first triggers of a run may take: they load classes and compile
)
PAUSE_MS: Final = 100.0  # what lies between two triggers that follow each other at once
LONG_MS: Final = 1000.0  # of a trigger: less is what one costs that has next to nothing to do
FAILED_SHARE: Final = 0.05
FAILED_LAST: Final = 3  # failed batches at the end: it does not work any more
TURNING: Final = 2  # batches at the end that overrun, each waiting longer
WORKED: Final = 3  # triggers behind an exception: it works again
FAILING_DELAY: Final = 10.0  # intervals of delay at which "overloaded" becomes "failing"


Told = TypeVar("Told", Batch, Trigger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit that the batches reach.

    Args:
        kind: `pid`, `max-rate`, `max-per-partition`, `rows`, `files`.
        per_s: records per second and stream, in the median.
        share: of the latest batches that reach it.
        stream: whose it is.
    """

    kind: str
    per_s: float
    share: float
    stream: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """Batches that take longer at regular distances, as those that merge metadata do.

    Args:
        every: batches.
        phase: of the batch ids: `id % every`.
        usual_ms, long_ms: medians of the others and of these.
        batches: their ids.
    """

    every: int
    phase: int
    usual_ms: float
    long_ms: float
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of a DStream application or of a query.

    Args:
        stability: the word.
        because: one clause with the number that decided.
        interval_ms: batch or trigger interval; None where not known.
        processing_ms: median of the present.
        use: processing over interval.
        delay_ms: how late the present is: the wait of the last batch, or the age of the oldest queued.
        waiting: trend of the waits, milliseconds per millisecond.
        queued: batches that were waiting when the input ended.
        turned_ms: batch time at which the delay began to grow for good.
        line: cost of a batch over its records.
        headroom_per_s: most records per second that fit into the interval, by that line.
        caps: limits that are reached.
        failed: failed batches or runs.
        limit: what ends a growing delay, and when.
        periodic: for queries, batches that are long at regular distances.
        rows_void: whether rows are counted more than once, so that no rate of them means anything.
    """

    stability: Stability
    because: str
    interval_ms: int | None = None
    processing_ms: float | None = None
    use: float | None = None
    delay_ms: float | None = None
    waiting: Trend | None = None
    queued: int = 0
    turned_ms: int | None = None
    line: Line | None = None
    headroom_per_s: float | None = None
    records_per_s: float | None = None
    caps: tuple[Cap, ...] = ()
    failed: int = 0
    backlog: Trend | None = None
    limit: Limit | None = None
    periodic: Periodic | None = None
    rows_void: bool = False

    @property
    def delay_intervals(self) -> float | None:
        """The delay in intervals."""
        if self.delay_ms is None or not self.interval_ms:
            return None
        return self.delay_ms / self.interval_ms


# -- DStreams ------------------------------------------------------------------------------------


def harmless_failure(reason: str | None) -> bool:
    """Whether a failure is that of a stop: stopping a context cancels what runs."""
    text = (reason or "").lower()
    return any(
        word in text
        for word in (
            "sparkcontext was shut down",
            "sparkcontext is shutting down",
            "cancelled because sparkcontext",
            "sparkcontext was stopped",
            "as part of cancellation",
            "cancelled part of cancelled job group",
            "part of cancelled job group",
        )
    )


def failed_batches(app: ApplicationFacts) -> tuple[Batch, ...]:
    """The batches whose output failed, other than by a stop."""
    return tuple(b for b in app.completed if b.failed_outputs and not harmless_failure(b.reason))


def failed_tasks(app: ApplicationFacts) -> list[Record]:
    """Exceptions of tasks in a fragment that names no application, no batch and no query.

    Where these are known, they tell themselves what became of a task that was tried again.
    """
    if app.application or app.kind != "other":
        return []
    return [
        record
        for record in app.incidents
        if record.template in ("task-lost", "task-exception")
        and record.cause
        and not record.cause.startswith(_ENDED_ON_PURPOSE)
        and not harmless_failure(record.cause)
    ]


# Of a stage that was cancelled, a speculative copy, an attempt that was late to commit.
_ENDED_ON_PURPOSE: Final = ("TaskKilled", "TaskCommitDenied")


def stretches(batches: Sequence[Batch]) -> tuple[tuple[Batch, ...], ...]:
    """The batches in parts without a hole between them.

    There is a batch time with every interval, whatever the driver does: where there is none for many of
    them, lines are missing, or the application was not there. Nothing that lasts from one part to the next
    was measured. (An event log tells of batches with jobs only: what was empty is a hole there, too.) A batch
    that ended behind it bridges it: it waited for so long.
    """
    times = [batch.time_ms for batch in batches]
    if len(times) < 2:
        return (tuple(batches),)
    heard = accumulate((b.end_ms or b.start_ms or b.time_ms for b in batches), max)
    gaps = [after - until for until, after in zip(heard, times[1:], strict=False)]
    return _parted(batches, gaps, SILENT * median(b - a for a, b in pairwise(times)))


def _parted(
    told: Sequence[Told], gaps: Sequence[float], longest: float
) -> tuple[tuple[Told, ...], ...]:
    """Cut wherever the distance to the next one is longer than that; one part at least."""
    bounds = [0, *(n for n, gap in enumerate(gaps, 1) if gap > longest), len(told)]
    return tuple(tuple(told[a:b]) for a, b in pairwise(bounds))


def late_window(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """The present: the last third of the completed batches, at least `LATE` if there are, warm ones.

    It begins behind the last hole: what was before it is not the present.
    """
    *before, last = stretches(batches)
    warm = last[COLD:] if not before and len(last) > COLD + FEW else last
    return tuple(warm[-max(LATE, len(warm) // 3) :])


def cost_line(batches: Sequence[Batch]) -> Line | None:
    """Processing time over records, of the warm batches that worked."""
    points = [
        (float(b.records), float(b.processing_ms))
        for b in batches[COLD:]
        if b.records is not None and b.processing_ms is not None and not b.failed_outputs
    ]
    if len(points) < FEW:
        return None
    return fit([x for x, _ in points], [y for _, y in points])


def at_once(settings: Mapping[str, str]) -> int:
    """How many batches may be processed at once: `spark.streaming.concurrentJobs`, one by default."""
    text = settings.get("spark.streaming.concurrentJobs", "1").strip()
    return max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1


def unfinished(app: ApplicationFacts) -> tuple[Batch, ...]:
    """The batches that still wait or are processed when the input ends.

    Batches are processed in their order: what has no end, and more completed batches behind it than may
    run at once, never gets one. A restart, or lost events, leave such batches behind.
    """
    slots, behind, found = at_once(app.settings), 0, []
    for batch in reversed(stretches(app.batches)[-1]):
        if batch.state == "completed":
            behind += 1
        elif behind <= slots:
            found.append(batch)
        if behind > slots:
            break
    return tuple(reversed(found))


def abandoned(app: ApplicationFacts) -> tuple[Batch, ...]:
    """The batches without an end behind which others ended, or behind which the input has a hole."""
    waiting = {batch.time_ms for batch in unfinished(app)}
    return tuple(b for b in app.batches if b.state != "completed" and b.time_ms not in waiting)


def heard_until_ms(app: ApplicationFacts, since_ms: int) -> int:
    """Until when an application is heard of without a hole, from a moment on.

    Batches come with every interval, whatever hangs: where none does for many of them, lines are missing or
    the driver stood still, and nobody knows how long anything took.
    """
    times = {us // 1000 for us in (app.last_us, app.ended_us) if us is not None}
    for batch in app.batches:
        known = (batch.time_ms, batch.submission_ms, batch.start_ms, batch.end_ms)
        times.update(ms for ms in known if ms is not None)
    for record in (*app.incidents, *app.receivers, *app.limits, *app.traces):
        if record.time_us is not None:
            times.add(record.time_us // 1000)
    heard, longest = since_ms, max(SILENCE_MS, SILENT * (app.interval_ms or 0))
    for moment in sorted(times):
        if moment > heard:
            if moment - heard >= longest:
                break
            heard = moment
    return heard


_STOPS: Final = ("stop-receivers", "stop-generator", "stop-context", "stop-executors")
_AFTER_US: Final = 10_000_000  # batches may begin so long after a stop did, not later


def stop_us(app: ApplicationFacts) -> int | None:
    """When the stop of an application began, as far as it is told: executors go with it, and tasks fail.

    A context may be stopped and another one begun: what runs on was not stopped.
    """
    begun = [batch.time_ms * 1000 for batch in app.batches]
    begun += [trigger.time_us for query in app.queries for trigger in query.triggers]
    told = [record.time_us for record in app.incidents if record.template in _STOPS]
    told += [r.time_us for r in app.receivers if (r.cause or "").startswith("Stopped by driver")]
    told.append(app.ended_us)
    least = max(begun, default=0) - _AFTER_US
    return min((us for us in told if us is not None and us >= least), default=None)


def dstream_state(
    app: ApplicationFacts, estimators: Sequence[Replay], retention_ms: int | None = None
) -> StreamState:
    """Judge the batches of an application."""
    interval = app.interval_ms
    slots = at_once(app.settings)
    done = app.completed
    waiting = unfinished(app)
    late = late_window(done)
    *before, present = stretches(app.batches)
    ended = done if not before else tuple(b for b in present if b.state == "completed")
    if interval is None or (len(ended) < FEW and len(waiting) < 3):
        return StreamState(
            stability=Stability.INCONCLUSIVE,
            because=_too_few(
                len(ended), "completed batch", "completed batches", behind=bool(before)
            ),
            interval_ms=interval,
            queued=len(waiting),
        )
    processing = [float(b.processing_ms) for b in late if b.processing_ms is not None]
    waits = [(b.time_ms, b.waited_ms) for b in late if b.waited_ms is not None]
    slope = trend([float(t) for t, _ in waits], [float(w) for _, w in waits])
    last_ms = _last_ms(app)
    delay = _delay(waits, waiting, last_ms)
    counted = [b.records for b in app.batches if b.records is not None]
    failed = failed_batches(app)
    line = cost_line(done)
    seconds = interval / 1000
    middle = median(processing) if processing else None
    headroom = None
    if line is not None and line.per_x > 0:
        headroom = max(0.0, (slots * interval - line.base) / line.per_x) / seconds
    taken = [b.records for b in late if b.records is not None]
    caps = dstream_caps(app, late, estimators)
    state = StreamState(
        stability=Stability.STABLE,
        because="",
        interval_ms=interval,
        processing_ms=middle,
        use=middle / (slots * interval) if middle is not None else None,
        delay_ms=delay,
        waiting=slope,
        limit=limit_of(app, slope, delay, retention_ms),
        queued=len(waiting),
        line=line,
        headroom_per_s=headroom,
        records_per_s=median(taken) / seconds if taken else None,
        caps=caps,
        failed=len(failed),
    )
    word, because = _word(state, app, done, failed, counted)
    turned = _turned(present, interval) if word is Stability.OVERLOADED else None
    return _with(state, word, because, turned)


def _with(
    state: StreamState, word: Stability, because: str, turned: int | None = None
) -> StreamState:
    return replace(state, stability=word, because=because, turned_ms=turned)


def _word(
    state: StreamState,
    app: ApplicationFacts,
    done: Sequence[Batch],
    failed: Sequence[Batch],
    counted: Sequence[int],
) -> tuple[Stability, str]:
    last = done[-FAILED_LAST:]
    if failed and (
        (len(failed) >= FAILED_SHARE * len(done) and len(failed) > 1)
        or all(b in failed for b in last)
    ):
        return (
            Stability.FAILING,
            f"{len(failed)} of {say.plural(len(done), 'batch', 'batches')} failed",
        )
    if overloaded(state):
        return Stability.OVERLOADED, _growing(state)
    if counted and not any(counted) and (state.use is None or state.use < 0.5):
        return Stability.IDLE, "no batch holds a record"
    turning = _turning(app, done)
    if turning >= TURNING:
        because = (
            f"the last {turning} batches take longer than the interval and wait longer each time"
        )
        return Stability.INCONCLUSIVE, f"{because}, and no input tells of later ones"
    if climbs(state):
        return (
            Stability.INCONCLUSIVE,
            f"processing takes {say.percent(state.use or 0.0)} of the interval, and the delay is short so far",
        )
    if state.caps:
        return Stability.THROTTLED, _capped(state.caps[0])
    if state.use is not None and state.use >= NARROW:
        return (
            Stability.BORDERLINE,
            f"processing takes {say.percent(state.use)} of the interval",
        )
    if waits(state):
        return Stability.BORDERLINE, f"batches wait {state.delay_intervals:.1f} intervals"
    use = say.percent(state.use) if state.use is not None else "an unknown part"
    because = f"processing takes {use} of the interval"
    if not counted and (limit := _limit_set(app)):
        told = f"{because}, {limit} is on, and no input counts the records that come in"
        return Stability.INCONCLUSIVE, told
    return Stability.STABLE, because


def _limit_set(app: ApplicationFacts) -> str | None:
    """An option that may hold the source back: whether it does, only counts of records tell."""
    if pid.enabled(app):
        return "back pressure"
    return next(
        (
            name
            for name in (pid.MAX_RATE, pid.MAX_PER_PARTITION)
            if pid.number(app.settings.get(name))
        ),
        None,
    )


def _turning(app: ApplicationFacts, done: Sequence[Batch]) -> int:
    """How many batches at the end took longer than the interval, each waiting longer, the last one for an interval.

    A stream that has begun to fall behind where the inputs end: too short for an overload, and no health.
    """
    interval = app.interval_ms or 1
    waits = [batch.waited_ms for batch in app.batches if batch.waited_ms is not None]
    if not waits or waits[-1] < interval:
        return 0
    rising = 0
    for before, batch in pairwise(done):
        longer = (batch.waited_ms or 0) > (before.waited_ms or 0)
        rising = rising + 1 if longer and (batch.processing_ms or 0) > interval else 0
    # The first that took too long had not waited itself.
    first = done[-rising - 1 :][:1]
    return rising + any((batch.processing_ms or 0) > interval for batch in first)


def _recovers(state: StreamState) -> bool:
    return state.waiting is not None and state.waiting.falls


def waits(state: StreamState, *, delay: float = GROWN) -> bool:
    """Whether batches wait so many intervals, and not less and less."""
    late = state.delay_intervals
    return late is not None and late >= delay and not _recovers(state)


def climbs(state: StreamState) -> bool:
    """Whether batches take longer than the interval and wait longer: no limit holds them back, or not yet.

    Four batches are too few for a trend that is sure, and enough to tell that a limit has no effect so far.
    """
    risen = state.waiting is None or state.waiting.rise > RISE * (state.interval_ms or 0)
    return risen and state.use is not None and state.use > 1


def tight(state: StreamState, *, use: float = NARROW) -> bool:
    """Whether it keeps up with little room: processing takes so much of the interval, or batches wait."""
    if state.stability not in (Stability.STABLE, Stability.BORDERLINE):
        return False
    if state.use is not None and state.use >= use:
        return True
    waiting = state.use is None or state.use < NARROW
    return waiting and state.stability is Stability.BORDERLINE


def overloaded(
    state: StreamState, *, delay: float = GROWN, rise: float = RISE, lost: float = LOST
) -> bool:
    """Whether the delay grows, or has grown beyond hope.

    Args:
        state: of batches.
        delay: intervals from which growth is an overload.
        rise: intervals that it has to grow by within the present.
        lost: intervals from which it is one where it does not fall, and batches queue.
    """
    interval, late = state.interval_ms, state.delay_ms
    if interval is None or late is None:
        return False
    slope = state.waiting
    grows = slope is not None and slope.rises and slope.rise >= rise * interval
    if grows and late >= delay * interval:
        return True
    if _recovers(state):
        return False
    slow = state.use is not None and state.use > 1
    return late >= lost * interval and (slow or state.queued >= lost)


def _growing(state: StreamState) -> str:
    interval = state.interval_ms or 1
    intervals = (state.delay_ms or 0) / interval
    use = (
        f", processing takes {say.percent(state.use)} of the interval"
        if state.use is not None
        else ""
    )
    return f"batches are {intervals:.1f} intervals late{use}"


def _capped(cap: Cap) -> str:
    of = {
        "pid": "the estimator's rate",
        "max-rate": pid.MAX_RATE,
        "max-per-partition": pid.MAX_PER_PARTITION,
        "rows": "a fixed number of rows",
        "files": "maxFilesPerTrigger",
    }[cap.kind]
    # Of files the option says how many; how many rows they hold is the files' matter.
    rate = f" ({cap.per_s:.0f} records/s)" if cap.kind != "files" else ""
    return f"{say.percent(cap.share)} of the latest batches are filled up to {of}{rate}"


def _last_ms(app: ApplicationFacts) -> int | None:
    """The last moment that the batches show; the end of the application may be later, and harmless."""
    times = [b.end_ms or b.submission_ms or b.time_ms for b in app.batches]
    return max(times, default=None)


def _delay(
    waits: Sequence[tuple[int, int]], waiting: Sequence[Batch], last_ms: int | None
) -> float | None:
    """How late the present is: the median wait of the last few batches, or the oldest one's age."""
    recent = [wait for _, wait in waits[-3:]]
    delay = float(median(recent)) if recent else None
    if waiting and last_ms is not None:
        age = float(last_ms - min(b.time_ms for b in waiting))
        delay = age if delay is None else max(delay, age) if len(waiting) > 1 else delay
    return delay


def _turned(batches: Sequence[Batch], interval: int) -> int | None:
    """The batch time from which on every batch waited for more than an interval."""
    turned = None
    for batch in reversed(batches):
        if batch.state == "completed" and (batch.waited_ms or 0) <= interval:
            break
        turned = batch.time_ms
    return turned


# -- limits --------------------------------------------------------------------------------------


def dstream_caps(
    app: ApplicationFacts,
    late: Sequence[Batch],
    estimators: Sequence[Replay],
    *,
    full: float = AT_LIMIT,
    permitted: float = MOSTLY,
    fixed: float = NARROW,
) -> tuple[Cap, ...]:
    """The limits that most of the latest batches reach, the one that binds first.

    Args:
        app: its settings.
        late: the batches of the present.
        estimators: of its streams.
        full: share of what is permitted that a batch has to hold to be filled up.
        permitted: share of the batches that have to be filled up to what an estimator permits.
        fixed: the same for a fixed limit.
    """
    seconds = (app.interval_ms or 0) / 1000
    if not seconds:
        return ()
    caps: list[Cap] = []
    streams = sorted({s.stream for b in late for s in b.streams})
    most = pid.number(app.settings.get(pid.MAX_RATE))
    for stream in streams:
        taken = [s.records for b in late for s in b.streams if s.stream == stream]
        share, rate = _share_at_estimate(stream, late, estimators, seconds, full)
        if 0 < share >= permitted and any(taken):
            caps.append(Cap(kind="pid", per_s=rate, share=share, stream=stream))
        elif most is not None and 0 < most < 1e15:
            at_limit = len([n for n in taken if n >= full * most * seconds])
            if taken and at_limit >= fixed * len(taken):
                found = at_limit / len(taken)
                caps.append(Cap(kind="max-rate", per_s=most, share=found, stream=stream))
    caps += _kafka_caps(app, late, seconds, full=full, fixed=fixed)
    return tuple(sorted(caps, key=lambda cap: -cap.share))


def _share_at_estimate(
    stream: int,
    late: Sequence[Batch],
    estimators: Sequence[Replay],
    seconds: float,
    full: float,
) -> tuple[float, float]:
    """How many of the latest batches hold what the estimator permitted, and that rate in the median."""
    mine = next((one for one in estimators if one.stream == stream), None)
    if mine is None:
        return 0.0, 0.0
    # In order of time: an estimator skips what is older than what it has seen.
    published = [step for step in mine.steps if step.new_rate is not None]
    if not published:
        return 0.0, 0.0
    times = [step.observation.time_ms for step in published]
    values = [step.new_rate or 0.0 for step in published]
    reached, counted, rates = 0, 0, []
    for batch in late:
        records = next((s.records for s in batch.streams if s.stream == stream), None)
        # The records of a batch came in during the interval before its time.
        begin = batch.time_ms - seconds * 1000
        known = bisect(times, begin)
        held = values[max(0, known - 1) : max(known, bisect(times, batch.time_ms))]
        if records is None or not held:
            continue
        permitted, lowest = max(held), min(held)
        counted += 1
        rates.append(permitted)
        reached += full * lowest * seconds <= records
    if not counted:
        return 0.0, 0.0
    return reached / counted, median(rates)


def _kafka_caps(
    app: ApplicationFacts, late: Sequence[Batch], seconds: float, *, full: float, fixed: float
) -> list[Cap]:
    limit = pid.number(app.settings.get(pid.MAX_PER_PARTITION))
    if limit is None or limit <= 0:
        return []
    from flowdiag.analyses.rate.model import kafka_ranges

    reached = counted = 0
    for batch in late:
        ranges = [r for s in batch.streams for r in kafka_ranges(s.description)]
        if ranges:
            counted += 1
            reached += any(r.count >= full * limit * seconds for r in ranges)
    if not counted or reached < fixed * counted:
        return []
    return [Cap(kind="max-per-partition", per_s=limit, share=reached / counted)]


# -- Structured Streaming ------------------------------------------------------------------------


def trigger_stretches(triggers: Sequence[Trigger]) -> tuple[tuple[Trigger, ...], ...]:
    """The triggers in parts without a hole, or a long pause, between them."""
    gaps = [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in pairwise(triggers)]
    starts = [(b.time_us - a.time_us) / 1000 for a, b in pairwise(triggers)]
    if not gaps:
        return (tuple(triggers),)
    return _parted(triggers, gaps, max(SILENCE_MS, SILENT * median(starts)))


def late_triggers(triggers: Sequence[Trigger]) -> tuple[Trigger, ...]:
    """The present of a query: the last third of its triggers, without the first of each run.

    It begins behind the last hole: what was before it is not the present.
    """
    last = trigger_stretches(triggers)[-1]
    warm = [
        b
        for a, b in pairwise((None, *last))
        if b is not None and a is not None and a.run_id == b.run_id
    ]
    return tuple(warm[-max(LATE, len(warm) // 3) :]) if len(warm) >= FEW else last


def timed(query: QueryFacts) -> tuple[Trigger, ...]:
    """The present of a query, as far as it tells how long triggers took."""
    return tuple(t for t in late_triggers(query.triggers) if t.duration_ms is not None)


def ended(query: QueryFacts) -> tuple[Record, ...]:
    """The records that a run ended with an exception; listener and event log may both tell of one."""
    return tuple(
        record
        for record in query.events
        if record.what == "terminated" and record.cause and not harmless_failure(record.cause)
    )


def failures(query: QueryFacts) -> int:
    """How many of its runs ended with an exception."""
    return len({record.fields.get("run_id") for record in ended(query)})


def recovered(query: QueryFacts, *, worked: float = WORKED) -> bool:
    """Whether a query went on for so many triggers after its last exception."""
    last = max((record.time_us or 0 for record in ended(query)), default=0)
    return bool(last) and sum(t.time_us > last for t in query.triggers) >= worked


def query_state(query: QueryFacts) -> StreamState:
    """Judge the triggers of a query."""
    failed = failures(query)
    interval = query.trigger_interval_ms
    *before, last = trigger_stretches(query.triggers)
    busy = [t for t in last if t.duration_ms is not None]
    late = timed(query)
    durations = [float(t.duration_ms or 0) for t in late]
    if failed and not recovered(query):
        return StreamState(
            stability=Stability.FAILING,
            because="it ended with an exception"
            if failed == len(query.runs) == 1
            else f"{failed} of {say.plural(len(query.runs), 'run')} ended with an exception",
            interval_ms=interval,
            processing_ms=median(durations) if durations else None,
            failed=failed,
        )
    if len(busy) < 3:
        return StreamState(
            stability=Stability.INCONCLUSIVE,
            because=_too_few(len(busy), "trigger", "triggers", behind=bool(before)),
            interval_ms=interval,
        )
    void = rows_void(query)
    rows = [float(t.rows or 0) for t in late]
    backlog_points = [(float(t.time_us), float(t.backlog)) for t in late if t.backlog is not None]
    backlog = trend([x for x, _ in backlog_points], [y for _, y in backlog_points])
    growth = trend([t.time_us / 1000 for t in late], durations)
    middle = median(durations)
    line = fit(rows, durations) if len(late) >= FEW and not void else None
    headroom = None
    if line is not None and line.per_x > 0 and interval:
        headroom = max(0.0, (interval - line.base) / line.per_x) * 1000 / interval
    known_rates = [t.input_per_s for t in late if t.input_per_s is not None and not void]
    if query.real_time:
        interval, line, headroom, growth = None, None, None, None
    state = StreamState(
        stability=Stability.STABLE,
        because="",
        interval_ms=interval,
        processing_ms=middle,
        use=_use(late, middle, interval),
        delay_ms=max(0.0, durations[-1] - interval) if interval and durations else None,
        waiting=growth,
        line=line,
        headroom_per_s=headroom,
        records_per_s=median(known_rates) if known_rates else None,
        caps=() if query.real_time else query_caps(query, late, void=void),
        backlog=backlog,
        failed=failed,
        periodic=None if query.real_time else periodic(query.triggers),
        rows_void=void,
    )
    word, because = _query_word(state, query, late)
    return _with(state, word, because)


def _use(late: Sequence[Trigger], middle: float, interval: int | None) -> float | None:
    """The share of the time that triggers run.

    Those that overrun their interval and yet wait for the next one wait for rows: the time from one to the
    other counts.
    """
    if not interval:
        return None
    if middle <= interval or not rests(late):
        return middle / interval
    distances = [(b.time_us - a.time_us) / 1000 for a, b in _neighbours(late)]
    return min(middle / interval, middle / max(1.0, median(distances)))


def _neighbours(late: Sequence[Trigger]) -> list[tuple[Trigger, Trigger]]:
    """Triggers and the next one of the same run."""
    return [(a, b) for a, b in pairwise(late) if a.run_id == b.run_id]


def rests(late: Sequence[Trigger], *, pause_ms: float = PAUSE_MS) -> bool:
    """Whether there is a pause behind most triggers that tell of their rows: all that was there is read.

    Lines of a log at WARN tell of the late ones only, and of no rows.
    """
    gaps = [
        (b.time_us - a.time_us) / 1000 - (a.duration_ms or 0)
        for a, b in _neighbours([t for t in late if t.rows is not None])
    ]
    return len(gaps) >= FEW - 1 and median(gaps) > pause_ms


def _query_word(
    state: StreamState, query: QueryFacts, late: Sequence[Trigger]
) -> tuple[Stability, str]:
    because = falling_behind(state, query, late)
    if all(t.rows is None for t in query.triggers):  # a log at WARN: late triggers, and no rows
        if because is not None:
            return Stability.OVERLOADED, because
        return Stability.INCONCLUSIVE, "no input says what the triggers read"
    if not any(t.rows for t in query.triggers):
        return Stability.IDLE, "no trigger read a row"
    if query.real_time:
        if because is not None:
            return Stability.OVERLOADED, because
        return Stability.STABLE, "in real-time mode only the backlog tells, and it does not grow"
    if query.real_time is None and may_be_real_time(late):
        middle = state.processing_ms or 0.0
        return (
            Stability.INCONCLUSIVE,
            f"every trigger lasts {middle / 1000:.0f} s whatever it reads, as in real-time mode",
        )
    if because is not None and _starts(state, late):
        because = f"its first triggers take {say.percent(state.use or 0.0)} of the interval and do not become"
        return Stability.INCONCLUSIVE, f"{because} longer, as those of a start"
    if because is not None:
        return Stability.OVERLOADED, because
    if _piling(state):
        return Stability.THROTTLED, "the backlog grows behind a limit of rows per trigger"
    if state.caps:
        return Stability.THROTTLED, _capped(state.caps[0])
    if state.use is not None and state.use >= NARROW:
        return Stability.BORDERLINE, f"triggers take {say.percent(state.use)} of the interval"
    # A source without a limit is read to its end each time: that nothing is left then tells nothing.
    unknown = state.interval_ms is None and not any(t.backlog for t in query.triggers)
    if unknown and breathless(late) and not drained(query):
        because = (
            f"triggers take {(state.processing_ms or 0.0) / 1000:.1f} s and follow each other "
        )
        because += "without a pause, and no input tells the trigger interval"
        return Stability.INCONCLUSIVE, because
    part = f"{say.percent(state.use)} of the interval" if state.use is not None else "their time"
    return Stability.STABLE, f"triggers take {part}"


def _starts(state: StreamState, late: Sequence[Trigger]) -> bool:
    """Whether triggers that overrun may be those of a start: few, little too long, the last not the longest."""
    lasted = [t.duration_ms or 0 for t in late]
    near = (
        state.interval_ms is not None and (state.processing_ms or 0.0) < START * state.interval_ms
    )
    return near and len(late) < LATE and not _piling(state) and lasted[-1] < max(lasted)


def drained(query: QueryFacts) -> bool:
    """Whether a query ended by itself once everything was read, as those that read what is there do.

    It ends right behind its last trigger, which found less than others: who is stopped is stopped in the
    middle of one, and who falls behind reads more each time.
    """
    last = query.triggers[-1]
    end_us = last.time_us + (last.duration_ms or 0) * 1000
    soon_us = min(1000, (last.duration_ms or 0) / 2) * 1000
    ends = (
        record.time_us - end_us
        for record in query.events
        if record.what == "terminated" and not record.cause and record.time_us is not None
    )
    most = max(t.rows or 0 for t in query.triggers)
    return (last.rows or 0) < most and any(0 <= after <= soon_us for after in ends)


def breathless(
    late: Sequence[Trigger], *, pause_ms: float = PAUSE_MS, long_ms: float = LONG_MS
) -> bool:
    """Whether triggers follow each other at once and take seconds: keeping up, or falling behind.

    Args:
        late: the triggers of the present.
        pause_ms: between the end of one and the beginning of the next, in the median.
        long_ms: that they take, in the median: what takes less is as fast as Spark gets.
    """
    gaps = [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in _neighbours(late)]
    lasted = [t.duration_ms or 0 for t in late]
    return bool(gaps) and median(gaps) <= pause_ms and median(lasted) >= long_ms


def _piling(state: StreamState) -> bool:
    return state.backlog is not None and state.backlog.rises and state.backlog.rise > 0


def falling_behind(
    state: StreamState,
    query: QueryFacts,
    late: Sequence[Trigger],
    *,
    overrun: float = MOSTLY,
    faster: float = FASTER,
) -> str | None:
    """Why a query cannot keep up, in a clause; None where it does.

    Args:
        state: its numbers.
        query: itself.
        late: the triggers of the present.
        overrun: share of them that may take longer than the interval.
        faster: how many times as fast as rows are processed they may come in.
    """
    interval, middle = state.interval_ms, state.processing_ms or 0.0
    grows = state.waiting is not None and state.waiting.rises
    if query.real_time:
        return "the backlog grows" if _piling(state) else None
    if interval:
        over = sum((t.duration_ms or 0) > interval for t in late) / max(1, len(late))
        if middle > interval and over > overrun and not rests(late):
            what = "and take longer each time" if grows else "and do not recover"
            told = f"{say.percent(over)} of the triggers take longer than the interval"
            return f"{told} (median {middle / interval:.1f} intervals) {what}"
    elif grows and state.waiting is not None and state.waiting.rise > middle:
        return "each trigger takes longer and brings more rows"
    elif (short := falling_short(late, faster=faster)) is not None:
        return f"rows come in {short:.2f} times as fast as they are processed"
    held = state.caps and (not interval or middle < interval)
    return "the backlog grows" if _piling(state) and not held else None


def falling_short(late: Sequence[Trigger], *, faster: float = FASTER) -> float | None:
    """Rows per second that were read over those that are processed, where that is clearly above one.

    A trigger reads what came in since the one before: when it takes longer than that took to come in,
    the next one reads more. A limit makes both rates equal, and single rows say nothing.
    """
    ratios = [
        t.input_per_s / t.processed_per_s
        for t in late
        if t.input_per_s and t.processed_per_s and (t.rows or 0) >= 10
    ]
    grown = [b.rows or 0 for a, b in pairwise(late) if (b.rows or 0) > (a.rows or 0)]
    if len(ratios) < 2 or len(grown) < MOSTLY * (len(late) - 1):
        return None
    middle = median(ratios)
    return middle if middle >= faster else None


def may_be_real_time(late: Sequence[Trigger]) -> bool:
    """Whether triggers look as those of a real-time query do: nothing in their reports says it.

    They last as long as they are told to, seconds at least (`minBatchDuration`), one at once behind the
    other, and what they read does not matter. What is overloaded lasts as long as its rows take.
    """
    lasted = [t.duration_ms for t in late if t.duration_ms is not None]
    if len(lasted) < FEW or min(lasted) < REAL_TIME_MS:
        return False
    told = min(lasted) // 1000 * 1000
    if max(lasted) - told > max(500, 0.02 * told):
        return False
    gaps = [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in _neighbours(late)]
    rows = [t.rows or 0 for t in late]
    return bool(gaps) and median(gaps) < 500 and max(rows) >= 1.05 * max(1, min(rows))


def rows_void(query: QueryFacts) -> bool:
    """Whether rows are counted more than once: a function of `foreachBatch` may read its input again.

    Offsets of Kafka tell how many there were; a trigger of a single job can have read them once only.
    Where neither is told, they may be counted more than once.
    """
    if not any("ForeachBatch" in (t.sink or "") for t in query.triggers):
        return False
    ratios = [
        (t.rows or 0) / advanced for t in query.triggers if t.rows and (advanced := _advance(t))
    ]
    if ratios:
        return median(ratios) >= 1.5
    jobs = [t.work.jobs for t in query.triggers if t.work is not None and t.rows]
    return not jobs or median(jobs) > 1


def _advance(trigger: Trigger) -> int | None:
    """How many offsets a trigger went on, where every source counts them; None otherwise."""
    told = [one.get("advance") if one.get("partition_count") else None for one in trigger.sources]
    known = [one for one in told if one is not None]
    return sum(known) if known and len(known) == len(told) else None


def periodic(
    triggers: Sequence[Trigger],
    *,
    ratio: float = PERIODIC,
    longer_ms: float = LONGER_MS,
    times: float = TIMES,
) -> Periodic | None:
    """Batches that are long at regular distances, three times at least; None where none are.

    Metadata of file sinks and sources are merged by every tenth batch (`compactInterval`), and that
    takes longer the more files there are.

    Args:
        triggers: of a query.
        ratio, longer_ms: how much longer than the usual ones.
        times: how often at least.
    """
    lasted = {t.batch: t.duration_ms for t in triggers if t.batch is not None and t.rows}
    known = {batch: ms for batch, ms in lasted.items() if ms is not None and batch is not None}
    if len(known) < 12:
        return None
    usual = median(known.values())
    long = sorted(b for b, ms in known.items() if ms >= ratio * usual and ms >= usual + longer_ms)
    if len(long) < times:
        return None
    distances = [b - a for a, b in pairwise(long)]
    every = reduce(gcd, distances)
    if every < 3:
        return None
    of_phase = [b for b in known if b % every == long[0] % every]
    if len(long) < NARROW * len(of_phase):
        return None
    return Periodic(
        every=every,
        phase=long[0] % every,
        usual_ms=float(median(ms for b, ms in known.items() if b not in set(long))),
        long_ms=float(median(known[b] for b in long)),
        batches=tuple(long),
    )


def query_caps(
    query: QueryFacts,
    late: Sequence[Trigger],
    *,
    void: bool = False,
    filled: float = NARROW,
    behind: float = MOSTLY,
    same: float = SAME,
) -> tuple[Cap, ...]:
    """A limit that triggers mostly reach: of files as the source logs them, or of rows with a backlog.

    Only where triggers wait for their time: one that follows at once is held back by the job itself.

    Args:
        query: its interval, and what its source logs.
        late: the triggers of the present.
        void: whether their counts of rows mean nothing.
        filled: share of the triggers that have to reach the limit.
        behind: share of them that have to leave a backlog, where no limit is told.
        same: of the most rows that one read, what another has to read to have reached the limit.
    """
    if len(late) < FEW or not query.trigger_interval_ms:
        return ()
    seconds = median([(b.time_us - a.time_us) / 1e6 for a, b in pairwise(late)]) or 1.0
    rows = [t.rows for t in late if t.rows]
    if not rows:
        return ()
    files = query.files_taken[-len(late) :]
    if query.file_limit and len(files) >= FEW:
        share = sum(count >= query.file_limit for count in files) / len(files)
        if share >= filled:
            return (Cap(kind="files", per_s=median(rows) / seconds, share=share),)
    if void:
        rows = [n for t in late if (n := _advance(t))]
        if not rows:
            return ()
    more = [t for t in late if (t.backlog or 0) > 0]
    if len(more) < behind * len(late):
        return ()
    top = max(rows)
    full = [t for t in more if ((_advance(t) if void else t.rows) or 0) >= same * top]
    share = len(full) / len(late)
    return (Cap(kind="rows", per_s=top / seconds, share=share),) if share >= filled else ()


# -- together ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """An application with what its batches and triggers come to."""

    app: ApplicationFacts
    state: StreamState | None  # of its DStreams
    estimators: tuple[Replay, ...]
    queries: tuple[tuple[QueryFacts, StreamState], ...]
    others: tuple[ApplicationFacts, ...] = ()  # the other applications of the input

    @property
    def key(self) -> JobKey:
        """The key that findings carry."""
        return self.app.key

    @property
    def dstreams(self) -> tuple[StreamState, ...]:
        """The state of its DStreams: one, or none."""
        return () if self.state is None else (self.state,)


def _too_few(count: int, one: str, several: str, *, behind: bool) -> str:
    """That so many tell nothing; `behind`: as many as there are since the last hole."""
    told = (
        f"{say.plural(count, one, several)}{' since the last hole in the input' if behind else ''}"
    )
    return f"{told} {'is' if count == 1 else 'are'} too few"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What the rules of `rate` judge."""

    applications: tuple[Assessed, ...]


def assess(facts: RateFacts, *, retention_ms: int | None = None) -> Assessment:
    """Replay the estimators and judge the present of every application.

    Args:
        facts: of all applications.
        retention_ms: of the topics that are read; None: Kafka's default.
    """
    return Assessment(
        applications=tuple(
            replace(
                _assess(app, retention_ms),
                others=tuple(one for one in facts.applications if one is not app),
            )
            for app in facts.applications
        )
    )


def _assess(app: ApplicationFacts, retention_ms: int | None) -> Assessed:
    estimators = pid.replays(app)
    return Assessed(
        app=app,
        state=dstream_state(app, estimators, retention_ms) if app.batches else None,
        estimators=estimators,
        queries=tuple((query, query_state(query)) for query in app.queries),
    )
