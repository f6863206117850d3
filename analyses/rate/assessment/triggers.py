"""Judges how well the triggers of a Structured Streaming query keep up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from statistics import median, median_low

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.assessment import parts
from flowdiag.analyses.rate.assessment import state as d
from flowdiag.analyses.rate.assessment.state import Cap, PeriodicDelay, StreamState
from flowdiag.analyses.rate.facts import QueryFacts, Trigger
from flowdiag.analyses.rate.stability import Stability, fit, trend


def split_triggers_at_gaps(triggers: Sequence[Trigger]) -> tuple[tuple[Trigger, ...], ...]:
    """Split the triggers at gaps and long pauses."""
    starts = [(b.time_us - a.time_us) / 1000 for a, b in pairwise(triggers)]
    if not starts:
        return (tuple(triggers),)
    gaps = [start - (a.duration_ms or 0) for start, a in zip(starts, triggers[:-1], strict=True)]
    return parts.split_where(triggers, gaps, max(d.SILENCE_MS, d.SILENT * median(starts)))


def late_triggers(triggers: Sequence[Trigger]) -> tuple[Trigger, ...]:
    """Return the recent triggers: the last third of the triggers after the last gap, but at least `LATE`.

    The first trigger of each run is left out because it is cold.
    """
    last = split_triggers_at_gaps(triggers)[-1]
    warm = [b for a, b in pairwise(last) if a.run_id == b.run_id]
    return tuple(warm[-max(d.LATE, len(warm) // 3) :]) if len(warm) >= d.FEW else last


def timed_triggers(query: QueryFacts) -> tuple[Trigger, ...]:
    """Return the recent triggers with a known duration. After the start of an overload, only those since then."""
    late = tuple(t for t in late_triggers(query.triggers) if t.duration_ms is not None)
    if _is_far_behind(query):
        return late[-1:]
    return _since_onset(query, late) or late


def _since_onset(query: QueryFacts, late: Sequence[Trigger]) -> tuple[Trigger, ...]:
    """Return the last triggers if they overrun more and more, while most of the recent ones were on time."""
    interval = query.trigger_interval_ms
    if interval is None or query.real_time:
        return ()
    overran = [(t.duration_ms or 0) > interval for t in late]
    if sum(overran) > d.MOSTLY * len(late):
        return ()
    first = len(late)
    while first > 0 and overran[first - 1] and _is_longer(late, first):
        first -= 1
    return tuple(late[first:]) if len(late) - first >= d.ONSET else ()


def _is_longer(late: Sequence[Trigger], number: int) -> bool:
    """Return whether a trigger takes longer than the previous one, or has no successor."""
    if number == len(late):
        return True
    return (late[number].duration_ms or 0) > (late[number - 1].duration_ms or 0)


def _is_far_behind(query: QueryFacts) -> bool:
    """Return whether the last of two triggers alone shows that a query cannot keep up.

    This trigger takes several intervals, and rows arrive much faster than it processes them. The first trigger of a run
    never counts, because it is cold and reads the backlog.
    """
    late = late_triggers(query.triggers)
    if len(late) != 2 or query.trigger_interval_ms is None or late[0].run_id != late[1].run_id:
        return False
    last, processed = late[1], late[1].processed_per_s
    if (last.duration_ms or 0) < d.LOST * query.trigger_interval_ms or not processed:
        return False
    return (last.input_per_s or 0.0) >= d.TWICE * processed


def _idle_clause(query: QueryFacts) -> str | None:
    """Return a clause with the time since when a query has had nothing to do at the end of the input, or None."""
    end = max((t.time_us + (t.duration_ms or 0) * 1000 for t in query.triggers), default=0)
    idle = [
        record.time_us
        for record in query.events_of("idle")
        if record.time_us is not None and record.time_us >= end
    ]
    if not idle or query.unfinished is not None:
        return None
    return f"its source has had no new data since {fmt.moment(min(idle))}"


def has_recovered(query: QueryFacts, *, worked: float = d.WORKED) -> bool:
    """Return whether at least `worked` triggers follow the last exception of the query."""
    last = max((record.time_us or 0 for record in parts.exception_records(query)), default=0)
    return bool(last) and sum(t.time_us > last for t in query.triggers) >= worked


# -- the verdict ---------------------------------------------------------------------------------


def query_state(query: QueryFacts) -> StreamState:
    failed = len({record.fields.get("run_id") for record in parts.exception_records(query)})
    interval, late = query.trigger_interval_ms, timed_triggers(query)
    *before, last = split_triggers_at_gaps(query.triggers)
    busy = sum(t.duration_ms is not None for t in last)
    if failed and not has_recovered(query):
        return StreamState(
            stability=Stability.FAILING,
            because="it ended with an exception"
            if failed == len(query.runs) == 1
            else f"{failed} of {fmt.plural(len(query.runs), 'run')} ended with an exception",
            interval_ms=interval,
            processing_ms=median(float(t.duration_ms or 0) for t in late) if late else None,
            failed=failed,
        )
    idle = _idle_clause(query)
    if busy < 3 and idle:
        return StreamState(stability=Stability.IDLE, because=idle, interval_ms=interval)
    if busy < 3 and not _is_far_behind(query):
        return StreamState(
            stability=Stability.INCONCLUSIVE,
            because=parts.too_few_clause(busy, "trigger", "triggers", after_gap=bool(before)),
            interval_ms=interval,
        )
    measured = _real_time_state(query, late) if query.real_time else _measure(query, late)
    return replace(_with_verdict(measured, query, late, idle), failed=failed)


def _with_verdict(
    state: StreamState, query: QueryFacts, late: Sequence[Trigger], idle: str | None
) -> StreamState:
    word, because = _verdict(state, query, late)
    if word is Stability.INCONCLUSIVE and idle:
        word, because = Stability.IDLE, idle
    return replace(state, stability=word, because=because)


def _real_time_state(query: QueryFacts, late: Sequence[Trigger]) -> StreamState:
    """Measure a query in real-time mode. Its triggers take as long as configured, so only the backlog counts."""
    overcounted = rows_overcounted(query)
    rates = [t.input_per_s for t in late if t.input_per_s is not None and not overcounted]
    backlog = [(float(t.time_us), float(t.backlog)) for t in late if t.backlog is not None]
    return StreamState(
        stability=Stability.STABLE,
        because="",
        processing_ms=median(float(t.duration_ms or 0) for t in late),
        records_per_s=median(rates) if rates else None,
        backlog=trend([time for time, _ in backlog], [rows for _, rows in backlog]),
        rows_overcounted=overcounted,
    )


def _measure(query: QueryFacts, late: Sequence[Trigger]) -> StreamState:
    """Measure the recent triggers, without a verdict yet."""
    interval = query.trigger_interval_ms
    state = _real_time_state(query, late)
    durations = [float(t.duration_ms or 0) for t in late]
    middle = median(durations)
    line = None
    if len(late) >= d.FEW and not state.rows_overcounted:
        line = fit([float(t.rows or 0) for t in late], durations)
    pausing = bool(interval and middle > interval and has_pauses(late))
    available: float | None = interval
    if pausing:
        available = median((b.time_us - a.time_us) / 1000 for a, b in _neighbours(late))
    return replace(
        state,
        interval_ms=interval,
        use=middle / available if available else None,
        pauses=pausing,
        delay_ms=max(0.0, durations[-1] - interval) if interval and not pausing else None,
        delay_trend=trend([t.time_us / 1000 for t in late], durations),
        line=line,
        headroom_per_s=parts.sustainable_per_s(line, interval),
        caps=query_caps(query, late, overcounted=state.rows_overcounted),
        periodic=find_period(query.triggers),
    )


def _verdict(
    state: StreamState, query: QueryFacts, late: Sequence[Trigger]
) -> tuple[Stability, str]:
    behind = falling_behind(state, query, late)
    # A log at WARN only contains late triggers, without rows.
    counted = any(t.rows is not None for t in query.triggers)
    seconds = (state.processing_ms or 0.0) / 1000
    use = fmt.percent(state.use or 0.0)
    of = "the time between triggers" if state.pauses else "the interval"
    unclear = counted and query.real_time is None and resembles_real_time(late)
    return parts.first_verdict(
        (
            (
                not counted and not behind,
                Stability.INCONCLUSIVE,
                "the input has no counts of the rows that triggers read",
            ),
            (
                counted and not any(t.rows for t in query.triggers),
                Stability.IDLE,
                "no trigger read any rows",
            ),
            (
                query.real_time and not behind,
                Stability.STABLE,
                "in real-time mode, only the backlog shows an overload, and the backlog does not grow",
            ),
            (
                unclear,
                Stability.INCONCLUSIVE,
                f"every trigger lasts {seconds:.0f} s regardless of its rows, as in real-time mode",
            ),
            (
                counted and behind and _may_be_start(state, query, late),
                Stability.INCONCLUSIVE,
                (
                    f"its first triggers take {use} of the interval and do not become "
                    "longer, which is normal after a start"
                ),
            ),
            (behind, Stability.OVERLOADED, behind or ""),
            (
                _begins_to_overrun(state, query),
                Stability.INCONCLUSIVE,
                (
                    "its last triggers take longer than the interval, each longer than the "
                    "previous trigger, and then the input ends"
                ),
            ),
            (
                _backlog_grows(state),
                Stability.THROTTLED,
                "the backlog grows, and a limit on rows per trigger applies",
            ),
            (state.caps, Stability.THROTTLED, parts.cap_clause(state.caps)),
            ((state.use or 0.0) >= d.NARROW, Stability.BORDERLINE, f"triggers take {use} of {of}"),
            (
                _needs_interval(state, query, late),
                Stability.INCONCLUSIVE,
                (
                    f"triggers take {seconds:.1f} s and follow each other without a pause, and the "
                    "input does not contain the trigger interval"
                ),
            ),
            (
                _equal_files(query, late),
                Stability.INCONCLUSIVE,
                (
                    "every trigger reads the same number of rows from files, as with a limit on files per trigger, and "
                    "the input does not show whether files wait"
                ),
            ),
            (state.use is None, Stability.STABLE, "triggers keep up"),
            (True, Stability.STABLE, f"triggers take {use} of {of}"),
        )
    )


def _may_be_start(state: StreamState, query: QueryFacts, late: Sequence[Trigger]) -> bool:
    """Return whether the overruns may belong to a start: few, slight, and the last is not the longest."""
    if query.real_time or state.interval_ms is None or len(late) >= d.LATE:
        return False
    lasted = [t.duration_ms or 0 for t in late]
    near = (state.processing_ms or 0.0) < d.START * state.interval_ms
    return near and not _backlog_grows(state) and lasted[-1] < max(lasted)


def _begins_to_overrun(state: StreamState, query: QueryFacts) -> bool:
    """Return whether triggers overrun more and more when the input ends."""
    interval, last = state.interval_ms, query.triggers[-d.TURNING - 1 :]
    if interval is None or query.real_time or len(last) <= d.TURNING:
        return False
    lasted = [t.duration_ms or 0 for t in last]
    return lasted[1] > interval and all(a < b for a, b in pairwise(lasted))


def _equal_files(query: QueryFacts, late: Sequence[Trigger]) -> bool:
    """Return whether all recent triggers read equally many rows from files, best explained by a limit on files.

    If an earlier trigger of the same run read more, a limit is not the reason.
    """
    sources = {source.get("name", "").partition("[")[0] for t in late for source in t.sources}
    if len(late) < d.LATE or sources != {"FileStreamSource"}:
        return False
    most = max(t.rows or 0 for t in query.triggers if t.run_id == late[-1].run_id)
    return {t.rows for t in late} == {most} != {0}


def _needs_interval(state: StreamState, query: QueryFacts, late: Sequence[Trigger]) -> bool:
    """Return whether only the trigger interval, which is unknown, could show that the query keeps up.

    Each trigger reads a source without a limit to its end, so a missing backlog proves nothing.
    """
    if state.interval_ms is not None or any(t.backlog for t in query.triggers):
        return False
    return runs_back_to_back(late) and not ended_when_drained(query)


def _backlog_grows(state: StreamState) -> bool:
    return state.backlog is not None and state.backlog.is_rising and state.backlog.rise > 0


# -- pauses --------------------------------------------------------------------------------------


def _neighbours(late: Sequence[Trigger]) -> list[tuple[Trigger, Trigger]]:
    """Return the pairs of consecutive triggers in one run that have no trigger missing in between."""
    return [
        (a, b)
        for a, b in pairwise(late)
        if a.run_id == b.run_id
        and (a.batch is None or b.batch is None or 0 <= b.batch - a.batch <= 1)
    ]


def _pauses_ms(late: Sequence[Trigger]) -> list[float]:
    """Return the time from the end of each trigger to the start of the next one, in ms."""
    return [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in _neighbours(late)]


def has_pauses(late: Sequence[Trigger], *, pause_ms: float = d.PAUSE_MS) -> bool:
    """Return whether most triggers with row counts leave no backlog and are followed by a pause.

    Two pauses are enough if they are much longer than the triggers. Logs at WARN contain only late triggers, without
    row counts.
    """
    counted = [t for t in late if t.rows is not None]
    gaps = _pauses_ms(counted)
    if len(gaps) < 2 or sum(bool(t.backlog) for t in counted) > len(counted) / 2:
        return False
    if len(gaps) < d.FEW - 1:
        pause_ms = max(pause_ms, d.RESTS * median(t.duration_ms or 0 for t in counted))
    return median(gaps) > pause_ms


def runs_back_to_back(
    late: Sequence[Trigger], *, pause_ms: float = d.PAUSE_MS, long_ms: float = d.LONG_MS
) -> bool:
    """Return whether triggers take seconds and follow each other without a pause.

    Args:
        late: the recent triggers.
        pause_ms: maximum median pause.
        long_ms: minimum median duration; an almost empty trigger takes less.
    """
    gaps = _pauses_ms(late)
    lasted = [t.duration_ms or 0 for t in late]
    return bool(gaps) and median_low(gaps) <= pause_ms and median(lasted) >= long_ms


def ended_when_drained(query: QueryFacts) -> bool:
    """Return whether a query ended on its own after it had read everything, as with `AvailableNow`.

    Such a query ends right after its last trigger. A user usually stops a query in the middle of a trigger. The last
    trigger is often smaller than the others, while a query that falls behind reads more each time. If a limit makes all
    triggers equal, the query must end within a tenth of a trigger. Times in logs lack the milliseconds.

    An event log has no time for the end of a query. If the application then runs for at least another trigger without a
    job, the query had read everything.
    """
    last = query.triggers[-1]
    ends = [r for r in query.events_of("terminated") if r.fields.get("run_id") == last.run_id]
    times = [record.time_us for record in ends if record.time_us is not None]
    end_us = min(times, default=query.run_end_us)
    if not ends or any(r.cause for r in ends) or query.unfinished or end_us is None:
        return False
    after_ms = (end_us - last.time_us) / 1000 - (last.duration_ms or 0)
    return _ended_between_triggers(query, after_ms, timed=bool(times))


def _ended_between_triggers(query: QueryFacts, after_ms: float, *, timed: bool) -> bool:
    """Return whether a query ended right after its last trigger or, if the time is unknown, without another one."""
    last = query.triggers[-1]
    took_ms = last.duration_ms or 0
    if not timed and after_ms >= took_ms:
        return True
    is_smaller = (last.rows or 0) < max(t.rows or 0 for t in query.triggers)
    return -1000 < after_ms <= min(1000, took_ms / 2 if is_smaller else took_ms / 10)


# -- falling behind ------------------------------------------------------------------------------


def falling_behind(
    state: StreamState,
    query: QueryFacts,
    late: Sequence[Trigger],
    *,
    overrun: float = d.MOSTLY,
    faster: float = d.FASTER,
) -> str | None:
    """Return a clause with the reason why a query cannot keep up, or None if it keeps up.

    Args:
        state: the measured state of the query.
        query: the query.
        late: the recent triggers.
        overrun: maximum share of them that may take longer than the interval.
        faster: minimum ratio of input rate to processing rate.
    """
    interval = state.interval_ms
    backlog = "the backlog grows" if _backlog_grows(state) else None
    if query.real_time:
        return backlog
    slower = (
        _overrun_clause(state, late, overrun) if interval else _slowing_clause(state, late, faster)
    )
    held = state.caps and (not interval or (state.processing_ms or 0.0) < interval)
    return slower or (None if held else backlog)


def _overrun_clause(state: StreamState, late: Sequence[Trigger], overrun: float) -> str | None:
    interval, middle = state.interval_ms or 1, state.processing_ms or 0.0
    over = sum((t.duration_ms or 0) > interval for t in late) / max(1, len(late))
    if middle <= interval or over <= overrun or state.pauses:
        return None
    if all(t.batch is None for t in late):
        growth = ", and they take longer each time" if state.delay_grows else ""
        return (
            f"the last {fmt.plural(len(late), 'late trigger')} took {middle / interval:.1f} intervals in the "
            f"median{growth}; the log shows only late triggers"
        )
    return (
        f"{fmt.percent(over)} of the last {fmt.plural(len(late), 'trigger')} take longer than the interval (median "
        f"{middle / interval:.1f} intervals) and {'take longer each time' if state.delay_grows else 'do not recover'}"
    )


def _slowing_clause(state: StreamState, late: Sequence[Trigger], faster: float) -> str | None:
    slope = state.delay_trend
    if slope is not None and slope.is_rising and slope.rise > (state.processing_ms or 0.0):
        return "each trigger takes longer and brings more rows"
    ratio = input_over_processing(late, faster=faster)
    return None if ratio is None else f"rows arrive {ratio:.2f} times as fast as they are processed"


def input_over_processing(late: Sequence[Trigger], *, faster: float = d.FASTER) -> float | None:
    """Return the ratio of input rate to processing rate if it is clearly above one.

    A trigger reads the rows that arrived since the previous trigger began. If it takes longer than the previous
    trigger, the next trigger reads more. A limit makes both rates equal. A few rows prove nothing.
    """
    ratios = [
        t.input_per_s / t.processed_per_s
        for t in late
        if t.input_per_s and t.processed_per_s and (t.rows or 0) >= 10
    ]
    grown = sum((b.rows or 0) > (a.rows or 0) for a, b in pairwise(late))
    if len(ratios) < 2 or grown < d.MOSTLY * (len(late) - 1):
        return None
    middle = median(ratios)
    return middle if middle >= faster else None


def resembles_real_time(late: Sequence[Trigger]) -> bool:
    """Return whether triggers look like the triggers of a query in real-time mode, which progress reports do not show.

    Such triggers take as long as configured (`minBatchDuration`, at least seconds), regardless of their rows, and
    follow each other without a pause. The triggers of an overloaded query take as long as their rows require.
    """
    lasted = [t.duration_ms for t in late if t.duration_ms is not None]
    if len(lasted) < d.FEW or min(lasted) < d.REAL_TIME_MS:
        return False
    configured = min(lasted) // 1000 * 1000
    if max(lasted) - configured > max(500, 0.02 * configured):
        return False
    gaps = _pauses_ms(late)
    rows = [t.rows or 0 for t in late]
    return bool(gaps) and median(gaps) < 500 and max(rows) >= 1.05 * max(1, min(rows))


# -- rows ----------------------------------------------------------------------------------------


def rows_overcounted(query: QueryFacts) -> bool:
    """Return whether rows may be counted more than once, because a `foreachBatch` function can read its input again.

    Kafka offsets show the real number, and a trigger with a single job reads its rows once. Without either, the counts
    are not reliable.
    """
    if not any("ForeachBatch" in (t.sink or "") for t in query.triggers):
        return False
    ratios = [
        (t.rows or 0) / advance
        for t in query.triggers
        if t.rows and (advance := _offsets_advanced(t))
    ]
    if ratios:
        return median(ratios) >= 1.5
    jobs = [t.work.jobs for t in query.triggers if t.work is not None and t.rows]
    return not jobs or median(jobs) > 1


def _offsets_advanced(trigger: Trigger) -> int | None:
    """Return by how many offsets a trigger advanced, or None unless every source has numeric offsets."""
    advances = [s.get("advance") if s.get("partition_count") else None for s in trigger.sources]
    known = [advance for advance in advances if advance is not None]
    return sum(known) if known and len(known) == len(advances) else None


def find_period(
    triggers: Sequence[Trigger],
    *,
    ratio: float = d.PERIODIC,
    longer_ms: float = d.LONGER_MS,
    times: float = d.TIMES,
) -> PeriodicDelay | None:
    """Return the batches that are long at a regular period, or None.

    File sinks and sources compact their metadata in every tenth batch (`compactInterval`). The more files there are,
    the longer this takes.

    Args:
        triggers: the triggers of a query.
        ratio, longer_ms: minimum ratio to the median duration, and minimum excess over it.
        times: minimum number of long batches.
    """
    lasted = {
        t.batch: t.duration_ms
        for t in triggers
        if t.rows and t.batch is not None and t.duration_ms is not None
    }
    if len(lasted) < 12:
        return None
    typical = median(lasted.values())
    least = max(ratio * typical, typical + longer_ms)
    long = {batch: ms for batch, ms in sorted(lasted.items()) if ms >= least}
    every = gcd(*(b - a for a, b in pairwise(long)))
    if len(long) < times or every < 3:
        return None
    phase = min(long) % every
    same_phase = sum(batch % every == phase for batch in lasted)
    if len(long) < d.NARROW * same_phase:
        return None
    return PeriodicDelay(
        every=every,
        phase=phase,
        typical_ms=float(median(ms for ms in lasted.values() if ms < least)),
        long_ms=float(median(long.values())),
        batches=tuple(long),
    )


def query_caps(
    query: QueryFacts,
    late: Sequence[Trigger],
    *,
    overcounted: bool = False,
    filled: float = d.NARROW,
    behind: float = d.MOSTLY,
    same: float = d.SAME,
) -> tuple[Cap, ...]:
    """Return the limit that most triggers reach: a limit on files, which the source logs, or on rows.

    Only queries with a trigger interval count, because without one the job itself sets the pace.

    Args:
        query: the query, with its interval and the log lines of its source.
        late: the recent triggers.
        overcounted: whether their row counts are unreliable.
        filled: minimum share of a trigger's durations that reach the limit.
        behind: minimum share of a trigger's durations that leave a backlog if the limit is unknown.
        same: minimum size of a full trigger, as a share of the rows of the largest trigger for a trigger that reaches
            the limit.
    """
    rows = [t.rows for t in late if t.rows]
    if len(late) < d.FEW or not query.trigger_interval_ms or not rows:
        return ()
    seconds = median([(b.time_us - a.time_us) / 1e6 for a, b in pairwise(late)]) or 1.0
    files = query.files_taken[-len(late) :]
    if query.file_limit and len(files) >= d.FEW:
        share = sum(count >= query.file_limit for count in files) / len(files)
        if share >= filled:
            return (Cap(kind="files", per_s=median(rows) / seconds, share=share),)
    return _row_caps(
        late, seconds, overcounted=overcounted, filled=filled, behind=behind, same=same
    )


def _row_caps(
    late: Sequence[Trigger],
    seconds: float,
    *,
    overcounted: bool,
    filled: float,
    behind: float,
    same: float,
) -> tuple[Cap, ...]:
    """Return an unnamed limit if the triggers read equally many rows and still leave a backlog."""
    read = [(_offsets_advanced(t) if overcounted else t.rows) or 0 for t in late]
    top = max(read)
    waiting = [count for count, t in zip(read, late, strict=True) if (t.backlog or 0) > 0]
    share = sum(count >= same * top for count in waiting) / len(late)
    if not top or len(waiting) < behind * len(late) or share < filled:
        return ()
    return (Cap(kind="rows", per_s=top / seconds, share=share),)
