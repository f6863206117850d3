"""Judges how well the batches of a DStream application keep up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise, takewhile
from statistics import median
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment import parts
from flowdiag.analyses.rate.assessment import state as d
from flowdiag.analyses.rate.assessment.caps import dstream_caps
from flowdiag.analyses.rate.assessment.endings import harmless_failure
from flowdiag.analyses.rate.assessment.state import StreamState
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch, Record
from flowdiag.analyses.rate.limits import limit_of
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Line, Stability, Trend, fit, trend

# Failures that only concern a cancelled stage, a speculative copy, or an attempt that committed too late.
_ENDED_ON_PURPOSE: Final = ("TaskKilled", "TaskCommitDenied")


def failed_batches(app: ApplicationFacts) -> tuple[Batch, ...]:
    """Return the batches with a failed output."""
    return tuple(b for b in app.completed if b.failed_outputs)


def failed_tasks(app: ApplicationFacts) -> list[Record]:
    """Return the task exceptions without a successful retry, in a fragment that has no application, batch or query.

    With batches or queries, their outcome shows whether a retry succeeded.
    """
    if app.application or app.kind != "other":
        return []
    retries = _last_retries(app)
    return [record for record in _task_exceptions(app) if not _is_retried(record, retries)]


def _last_retries(app: ApplicationFacts) -> dict[tuple[str | None, str | None], int]:
    """Return when a retry of each task last succeeded, in microseconds, by stage and index."""
    found: dict[tuple[str | None, str | None], int] = {}
    for retry in app.incidents_of("task-retried"):
        task = _task_of(retry)
        found[task] = max(found.get(task, 0), retry.time_us or 0)
    return found


def _task_of(record: Record) -> tuple[str | None, str | None]:
    return record.fields.get("stage"), record.fields.get("index")


def _is_retried(record: Record, retries: Mapping[tuple[str | None, str | None], int]) -> bool:
    """Return whether a later attempt of the task succeeded."""
    return retries.get(_task_of(record), -1) >= (record.time_us or 0)


def handled_failures(app: ApplicationFacts) -> list[Record]:
    """Return the exceptions of jobs that failed, although their trigger completed: its code caught the exception.

    They come from the log, with the tasks of jobs that Spark aborted. Without them, they come from the event log, with
    one record per failed job.
    """
    given_up = {record.fields.get("stage") for record in app.incidents_of("job-given-up")}
    last = _last_end_us(app)
    logged = [
        record
        for record in _task_exceptions(app)
        if record.fields.get("stage") in given_up and (record.time_us or last) < last
    ]
    return logged or [
        Record(
            kind="spark_job",
            template=None,
            time_us=trigger.time_us,
            name=query.name,
            cause=trigger.work.cause,
            ref=trigger.ref,
        )
        for query in app.queries
        for trigger in query.triggers
        if trigger.work is not None and trigger.work.failed
        if trigger.work.cause and not harmless_failure(trigger.work.cause)
        for _ in range(trigger.work.failed)
    ]


def retried_tasks(app: ApplicationFacts) -> list[Record]:
    """Return the task exceptions after which a retry succeeded, or batches or triggers completed."""
    last, retries = _last_end_us(app), _last_retries(app)
    handled = {record.ref for record in handled_failures(app)}
    return [
        record
        for record in _task_exceptions(app)
        if ((record.time_us or last) < last and not str(record.cause).startswith("ExecutorLost"))
        or _is_retried(record, retries)
        if record.ref not in handled
    ]


def _last_end_us(app: ApplicationFacts) -> int:
    """Return the end of the last successful batch or trigger, or 0."""
    ends = [(batch.end_ms or 0) * 1000 for batch in app.completed if not batch.failed_outputs]
    ends += [
        trigger.time_us + (trigger.duration_ms or 0) * 1000
        for query in app.queries
        for trigger in query.triggers
    ]
    return max(ends, default=0)


def _task_exceptions(app: ApplicationFacts) -> Iterator[Record]:
    return (
        record
        for record in app.incidents
        if record.template in ("task-lost", "task-exception")
        and record.cause
        and not record.cause.startswith(_ENDED_ON_PURPOSE)
        and not harmless_failure(record.cause)
    )


def split_at_gaps(batches: Sequence[Batch]) -> tuple[tuple[Batch, ...], ...]:
    """Split the batches at gaps.

    The driver always creates one batch per interval. If many batches are missing, lines are missing or the application
    was not running, and durations across the gap are unknown. A batch that ended after the gap bridges it, because it
    waited that long. An event log only has batches with jobs, so there a series of empty batches also looks like a
    gap.
    """
    times = [batch.time_ms for batch in batches]
    if len(times) < 2:
        return (tuple(batches),)
    heard = accumulate((b.end_ms or b.start_ms or b.time_ms for b in batches), max)
    gaps = [after - until for until, after in zip(heard, times[1:], strict=False)]
    return parts.split_where(batches, gaps, d.SILENT * median(b - a for a, b in pairwise(times)))


def late_window(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Return the recent batches: the last third of the warm batches after the last gap, but at least `LATE`."""
    *before, last = split_at_gaps(batches)
    warm = last[d.COLD :] if not before and len(last) > d.COLD + d.FEW else last
    return tuple(warm[-max(d.LATE, len(warm) // 3) :])


def cost_line(batches: Sequence[Batch]) -> Line | None:
    """Fit the processing time of the warm, successful batches to their number of records."""
    points = [
        (float(b.records), float(b.processing_ms))
        for b in batches[d.COLD :]
        if b.records is not None and b.processing_ms is not None and not b.failed_outputs
    ]
    if len(points) < d.FEW:
        return None
    return fit([x for x, _ in points], [y for _, y in points])


def concurrent_jobs(settings: Mapping[str, str]) -> int:
    """Return how many batches may run concurrently (`spark.streaming.concurrentJobs`)."""
    text = settings.get("spark.streaming.concurrentJobs", "1").strip()
    return max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1


def unfinished_batches(app: ApplicationFacts) -> tuple[Batch, ...]:
    """Return the batches that are waiting or running at the end of the input.

    Batches run in order. If more later batches than may run concurrently have ended, an unfinished batch never ends,
    and is not returned. Restarts and lost events cause such batches.
    """
    slots, behind, found = concurrent_jobs(app.settings), 0, []
    for batch in reversed(split_at_gaps(app.batches)[-1]):
        if batch.state == "completed":
            behind += 1
        elif behind <= slots:
            found.append(batch)
        if behind > slots:
            break
    return tuple(reversed(found))


def running_batch(app: ApplicationFacts) -> tuple[Batch, int] | None:
    """Return the oldest batch that is running at the end of the input, and how long it has run, in ms."""
    running = [
        b for b in unfinished_batches(app) if b.state == "processing" and b.start_ms is not None
    ]
    ends = [us for us in (app.last_us, app.stopped_us) if us is not None]
    if not running or not ends:
        return None
    oldest = min(running, key=lambda b: b.start_ms or 0)
    begun = oldest.start_ms or 0
    return oldest, min(min(ends) // 1000, contiguous_until_ms(app, begun)) - begun


def abandoned_batches(app: ApplicationFacts) -> tuple[Batch, ...]:
    """Return the unfinished batches that precede an ended batch or a gap."""
    waiting = {batch.time_ms for batch in unfinished_batches(app)}
    return tuple(b for b in app.batches if b.state != "completed" and b.time_ms not in waiting)


def contiguous_until_ms(app: ApplicationFacts, since_ms: int) -> int:
    """Return the time in ms up to which the input continues without a gap after `since_ms`.

    The driver creates a batch per interval even if one hangs. If many are missing, lines are missing or the driver
    stalled, and durations are unknown.
    """
    times = {us // 1000 for us in (app.last_us, app.ended_us) if us is not None}
    for batch in app.batches:
        known = (batch.time_ms, batch.submission_ms, batch.start_ms, batch.end_ms)
        times.update(ms for ms in known if ms is not None)
    for record in (*app.incidents, *app.receivers, *app.limits, *app.traces):
        if record.time_us is not None:
            times.add(record.time_us // 1000)
    until, longest = since_ms, max(d.SILENCE_MS, d.SILENT * (app.interval_ms or 0))
    for moment in sorted(time for time in times if time > since_ms):
        if moment - until >= longest:
            break
        until = moment
    return until


# -- the verdict ---------------------------------------------------------------------------------


def dstream_state(
    app: ApplicationFacts, estimators: Sequence[Replay], retention_ms: int | None = None
) -> StreamState:
    """Judge the batches of an application.

    Args:
        app: its batches and settings.
        estimators: the estimators, replayed from its batches.
        retention_ms: retention time of the topics that it reads; None for Kafka's default.
    """
    interval, waiting = app.interval_ms, unfinished_batches(app)
    *before, present = split_at_gaps(app.batches)
    ended = [b for b in present if b.state == "completed"] if before else app.completed
    if interval is None or (len(ended) < d.FEW and len(waiting) < 3):
        because = parts.too_few_clause(
            len(ended), "completed batch", "completed batches", after_gap=bool(before)
        )
        return StreamState(
            stability=Stability.INCONCLUSIVE,
            because=because,
            interval_ms=interval,
            queued=_queued_count(waiting),
        )
    state = _measure(app, interval, waiting, estimators)
    limit = limit_of(app, state.delay_trend, state.delay_ms, retention_ms)
    word, because = _verdict(state, app, interval)
    since = _behind_since(present, interval) if word is Stability.OVERLOADED else None
    return replace(state, stability=word, because=because, behind_since_ms=since, limit=limit)


def _measure(
    app: ApplicationFacts,
    interval: int,
    waiting: Sequence[Batch],
    estimators: Sequence[Replay],
) -> StreamState:
    """Measure the recent batches, without a verdict yet."""
    done, slots = app.completed, concurrent_jobs(app.settings)
    late, line = late_window(done), cost_line(done)
    processing = [float(b.processing_ms) for b in late if b.processing_ms is not None]
    waits = [(float(b.time_ms), float(b.waited_ms)) for b in late if b.waited_ms is not None]
    records = [b.records for b in late if b.records is not None]
    middle = median(processing) if processing else None
    use = middle / (slots * interval) if middle is not None else None
    slope = trend([time for time, _ in waits], [wait for _, wait in waits])
    running = running_batch(app)
    return StreamState(
        stability=Stability.STABLE,
        because="",
        interval_ms=interval,
        processing_ms=middle,
        use=use,
        delay_ms=_delay_ms(app, [wait for _, wait in waits], waiting),
        delay_trend=slope,
        drains=_drains(use, [wait for _, wait in waits], slope, interval),
        queued=_queued_count(waiting),
        running_ms=running[1] if running is not None else None,
        line=line,
        headroom_per_s=parts.sustainable_per_s(line, interval, slots),
        records_per_s=median(records) / (interval / 1000) if records else None,
        caps=dstream_caps(app, late, estimators),
        failed=len(failed_batches(app)),
    )


def _verdict(state: StreamState, app: ApplicationFacts, interval: int) -> tuple[Stability, str]:
    done, failed = app.completed, failed_batches(app)
    counts = [b.records for b in app.batches if b.records is not None]
    overruns = _overruns_at_end(app, interval)
    use = "an unknown share" if state.use is None else fmt.percent(state.use)
    takes, delay = f"processing takes {use} of the interval", state.delay_intervals or 0.0
    limit = None if counts else _limit_set(app)
    return parts.first_verdict(
        (
            (
                failed and _keeps_failing(failed, done),
                Stability.FAILING,
                f"{len(failed)} of {fmt.plural(len(done), 'batch', 'batches')} failed",
            ),
            (
                is_overloaded(state),
                Stability.OVERLOADED,
                f"batches are {delay:.1f} intervals late"
                + (f", {takes}" if state.use is not None else ""),
            ),
            (
                is_stuck(state),
                Stability.INCONCLUSIVE,
                f"a batch is still running after {fmt.duration(state.running_ms)}"
                + (
                    f"; in the other batches, {takes}"
                    if state.use is not None
                    else ", and none has ended"
                ),
            ),
            (
                delay >= d.GROWN and _waiting_at_end(app, interval) < d.FEW,
                Stability.INCONCLUSIVE,
                f"batches wait for {delay:.1f} intervals, but only a few of them have ended",
            ),
            (
                counts and not any(counts) and (state.use or 0.0) < 0.5,
                Stability.IDLE,
                "no batch contains a record",
            ),
            (
                overruns >= d.TURNING,
                Stability.INCONCLUSIVE,
                (
                    f"the last {overruns} batches take longer than the interval and wait longer "
                    "each time, and then the input ends"
                ),
            ),
            (
                delay_rises(state),
                Stability.INCONCLUSIVE,
                f"{takes}, and the delay is short so far",
            ),
            (state.caps, Stability.THROTTLED, parts.cap_clause(state.caps)),
            ((state.use or 0.0) >= d.NARROW, Stability.BORDERLINE, takes),
            (is_waiting(state), Stability.BORDERLINE, f"batches wait for {delay:.1f} intervals"),
            (
                limit is not None,
                Stability.INCONCLUSIVE,
                f"{takes}, {limit}",
            ),
            (True, Stability.STABLE, takes),
        )
    )


def _keeps_failing(failed: Sequence[Batch], done: Sequence[Batch]) -> bool:
    several = len(failed) > 1 and len(failed) >= d.FAILED_SHARE * len(done)
    return several or all(b in failed for b in done[-d.FAILED_LAST :])


def _limit_set(app: ApplicationFacts) -> str | None:
    """Return what may limit the source, as a clause. Whether it does would only show in record counts."""
    without_counts = "and the input has no counts of incoming records"
    if pid.is_enabled(app):
        return f"back pressure is on, {without_counts}"
    for name in (pid.MAX_RATE, *([] if app.partitions else [pid.MAX_PER_PARTITION])):
        if 0 < (pid.number(app.settings.get(name)) or 0) < pid.NO_LIMIT:
            return f"{name} is set, {without_counts}"
    sizes = {size for one in app.partitions for size in (one.fewest, one.most)}
    tasks = min((one.tasks for one in app.partitions), default=0)
    if not app.settings and len(sizes) == 1 and tasks >= d.FEW and any(sizes):
        return (
            f"each task reads exactly {fmt.plural(sizes.pop() or 0, 'record')} of its partition, as with a limit, "
            "and the input has no settings"
        )
    return None


def _overruns_at_end(app: ApplicationFacts, interval: int) -> int:
    """Return how many of the last batches overrun, each having waited longer than the one before.

    Such a stream has begun to fall behind, but the input ends too early to call it overloaded.
    """
    full = concurrent_jobs(app.settings) * interval
    waits = [batch.waited_ms for batch in app.batches if batch.waited_ms is not None]
    if not waits or waits[-1] < interval:
        return 0
    series: list[int] = []  # rising waits of the last overruns
    for batch in app.completed:
        wait = batch.waited_ms or 0
        if (batch.processing_ms or 0) <= full:
            series = []
        elif series and wait <= series[-1]:
            series = [wait]
        else:
            series.append(wait)
    # The waits of a throttled stream vary less.
    return len(series) if series and waits[-1] - series[0] >= d.RISE * interval else 0


def _waiting_at_end(app: ApplicationFacts, interval: int) -> int:
    """Return how many batches in a row waited at the end of the input."""
    late = ((batch.waited_ms or 0) >= d.GROWN * interval for batch in reversed(app.completed))
    return sum(1 for _ in takewhile(bool, late))


def is_stuck(state: StreamState, *, lost: float = d.LOST) -> bool:
    """Return whether batches wait for a running batch that is the first one or the only long one."""
    if state.running_ms is None:
        return False
    if state.use is None:
        return state.running_ms < d.COLD_MS
    return state.use <= 1 and state.running_ms >= lost * (state.interval_ms or 0)


def is_waiting(state: StreamState, *, delay: float = d.GROWN) -> bool:
    """Return whether batches wait for at least `delay` intervals and the wait does not shrink."""
    late = state.delay_intervals
    return late is not None and late >= delay and not _recovers(state)


def _recovers(state: StreamState) -> bool:
    return state.drains or (state.delay_trend is not None and state.delay_trend.is_falling)


def _drains(use: float | None, waits: Sequence[float], slope: Trend | None, interval: int) -> bool:
    """Return whether batches are clearly shorter than the interval, and the delay falls accordingly.

    A few batches after a slow start show no trend, so it is enough that they waited.
    """
    if use is None or use >= d.DRAINS:
        return False
    if slope is None:
        return bool(waits) and waits[-1] >= d.GROWN * interval
    return slope.slope <= (use - 1) / 2


def delay_rises(state: StreamState) -> bool:
    """Return whether batches overrun and wait longer each time, so that no limit restricts the source yet.

    A few batches show no reliable trend, but they show that a limit has no effect yet.
    """
    slope = state.delay_trend
    sure = slope is None or slope.is_rising or slope.points < d.LATE
    risen = slope is None or slope.rise > d.RISE * (state.interval_ms or 0)
    return sure and risen and state.use is not None and state.use > 1


def has_low_headroom(state: StreamState, *, use: float = d.NARROW) -> bool:
    """Return whether the stream keeps up although batches wait or take at least `use` of the interval."""
    if state.stability not in (Stability.STABLE, Stability.BORDERLINE):
        return False
    if state.use is not None and state.use >= use:
        return True
    waiting = state.use is None or state.use < d.NARROW
    return waiting and state.stability is Stability.BORDERLINE


def is_overloaded(
    state: StreamState, *, delay: float = d.GROWN, rise: float = d.RISE, lost: float = d.LOST
) -> bool:
    """Return whether the delay grows, or is too large to recover.

    Args:
        state: the state of the batches.
        delay: minimum delay, in intervals, if it grows.
        rise: minimum growth of the delay within the recent batches, in intervals.
        lost: minimum delay, in intervals, if it does not fall and batches queue.
    """
    interval, late = state.interval_ms, state.delay_ms
    if interval is None or late is None:
        return False
    slope = state.delay_trend
    grows = slope is not None and slope.is_rising and slope.rise >= rise * interval
    if grows and late >= delay * interval:
        return True
    if is_stuck(state, lost=lost) or _recovers(state):
        return False
    slow = state.use is not None and state.use > 1
    return late >= lost * interval and (slow or state.queued >= lost)


def _queued_count(waiting: Sequence[Batch]) -> int:
    """Return how many batches have not begun. An event log alone contains only batches that have begun."""
    return sum(batch.state == "queued" for batch in waiting)


def _delay_ms(
    app: ApplicationFacts, waits: Sequence[float], waiting: Sequence[Batch]
) -> float | None:
    """Return the current delay: the median of the last waits, or the age of the oldest queued batch."""
    delay = float(median(waits[-3:])) if waits else None
    # The last time of any batch, because the application may end later without harm.
    last_ms = max((b.end_ms or b.submission_ms or b.time_ms for b in app.batches), default=None)
    if not waiting or last_ms is None:
        return delay
    age = float(last_ms - min(b.time_ms for b in waiting))
    if delay is None:
        return age
    return max(delay, age) if len(waiting) > 1 else delay


def _behind_since(batches: Sequence[Batch], interval: int) -> int | None:
    """Return the batch time since which every batch has waited longer than an interval."""
    since = None
    for batch in reversed(batches):
        if batch.state == "completed" and (batch.waited_ms or 0) <= interval:
            break
        since = batch.time_ms
    return since
