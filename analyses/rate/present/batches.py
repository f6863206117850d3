"""The present of a DStreams application: its last batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch, Record
from flowdiag.analyses.rate.limits import limit_of
from flowdiag.analyses.rate.present.caps import dstream_caps
from flowdiag.analyses.rate.present.parts import (
    called,
    capped,
    harmless_failure,
    parted,
    too_few,
)
from flowdiag.analyses.rate.present.state import (
    COLD,
    FAILED_LAST,
    FAILED_SHARE,
    FEW,
    GROWN,
    LATE,
    LOST,
    NARROW,
    RISE,
    SILENCE_MS,
    SILENT,
    TURNING,
    StreamState,
)
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Line, Stability, fit, trend


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
    return parted(batches, gaps, SILENT * median(b - a for a, b in pairwise(times)))


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
            because=too_few(
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
    return called(state, word, because, turned)


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
            f"{len(failed)} of {fmt.plural(len(done), 'batch', 'batches')} failed",
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
            f"processing takes {fmt.percent(state.use or 0.0)} of the interval, and the delay is short so far",
        )
    if state.caps:
        return Stability.THROTTLED, capped(state.caps[0])
    if state.use is not None and state.use >= NARROW:
        return (
            Stability.BORDERLINE,
            f"processing takes {fmt.percent(state.use)} of the interval",
        )
    if waits(state):
        return Stability.BORDERLINE, f"batches wait {state.delay_intervals:.1f} intervals"
    use = fmt.percent(state.use) if state.use is not None else "an unknown part"
    because = f"processing takes {use} of the interval"
    if not counted and (limit := _limit_set(app)):
        told = f"{because}, {limit}, and no input counts the records that come in"
        return Stability.INCONCLUSIVE, told
    return Stability.STABLE, because


def _limit_set(app: ApplicationFacts) -> str | None:
    """That something may hold the source back, in a clause: whether it does, only counts of records tell."""
    if pid.enabled(app):
        return "back pressure is on"
    for name in (pid.MAX_RATE, pid.MAX_PER_PARTITION):
        if 0 < (pid.number(app.settings.get(name)) or 0) < pid.NO_LIMIT:
            return f"{name} is set"
    return None


def _turning(app: ApplicationFacts, done: Sequence[Batch]) -> int:
    """How many batches at the end took longer than the interval, each waiting longer, the last one for an interval.

    A stream that has begun to fall behind where the inputs end: too short for an overload, and no health.
    """
    interval = app.interval_ms or 1
    full = at_once(app.settings) * interval
    waits = [batch.waited_ms for batch in app.batches if batch.waited_ms is not None]
    if not waits or waits[-1] < interval:
        return 0
    late: list[Batch] = []
    for batch in done:
        longer = not late or (batch.waited_ms or 0) > (late[-1].waited_ms or 0)
        if (batch.processing_ms or 0) <= full:
            late = []
        else:
            late = [*late, batch] if longer else [batch]
    # What a throttled stream waits for goes up and down by less.
    grown = late and waits[-1] - (late[0].waited_ms or 0) >= RISE * interval
    return len(late) if grown else 0


def _recovers(state: StreamState) -> bool:
    return state.waiting is not None and state.waiting.falls


def waits(state: StreamState, *, delay: float = GROWN) -> bool:
    """Whether batches wait so many intervals, and not less and less."""
    late = state.delay_intervals
    return late is not None and late >= delay and not _recovers(state)


def climbs(state: StreamState) -> bool:
    """Whether batches take longer than the interval and wait longer: no limit holds them back, or not yet.

    A few batches are too few for a trend that is sure, and enough to tell that a limit has no effect so far.
    """
    slope = state.waiting
    sure = slope is None or slope.rises or slope.points < LATE
    risen = slope is None or slope.rise > RISE * (state.interval_ms or 0)
    return sure and risen and state.use is not None and state.use > 1


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
        f", processing takes {fmt.percent(state.use)} of the interval"
        if state.use is not None
        else ""
    )
    return f"batches are {intervals:.1f} intervals late{use}"


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
