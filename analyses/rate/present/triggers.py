"""The present of a query of Structured Streaming: its last triggers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import gcd
from statistics import median

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.facts import QueryFacts, Trigger
from flowdiag.analyses.rate.present.parts import called, capped, ended, parted, too_few
from flowdiag.analyses.rate.present.state import (
    FASTER,
    FEW,
    LATE,
    LONG_MS,
    LONGER_MS,
    MOSTLY,
    NARROW,
    PAUSE_MS,
    PERIODIC,
    REAL_TIME_MS,
    SAME,
    SILENCE_MS,
    SILENT,
    START,
    TIMES,
    WORKED,
    Cap,
    Periodic,
    StreamState,
)
from flowdiag.analyses.rate.stability import Stability, fit, trend


def trigger_stretches(triggers: Sequence[Trigger]) -> tuple[tuple[Trigger, ...], ...]:
    """The triggers in parts without a hole, or a long pause, between them."""
    gaps = [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in pairwise(triggers)]
    starts = [(b.time_us - a.time_us) / 1000 for a, b in pairwise(triggers)]
    if not gaps:
        return (tuple(triggers),)
    return parted(triggers, gaps, max(SILENCE_MS, SILENT * median(starts)))


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
            else f"{failed} of {fmt.plural(len(query.runs), 'run')} ended with an exception",
            interval_ms=interval,
            processing_ms=median(durations) if durations else None,
            failed=failed,
        )
    if len(busy) < 3:
        return StreamState(
            stability=Stability.INCONCLUSIVE,
            because=too_few(len(busy), "trigger", "triggers", behind=bool(before)),
            interval_ms=interval,
        )
    void = rows_void(query)
    rows = [float(t.rows or 0) for t in late]
    backlog_points = [(float(t.time_us), float(t.backlog)) for t in late if t.backlog is not None]
    backlog = trend([x for x, _ in backlog_points], [y for _, y in backlog_points])
    growth = trend([t.time_us / 1000 for t in late], durations)
    middle = median(durations)
    line = fit(rows, durations) if len(late) >= FEW and not void else None
    idle = bool(interval and middle > interval and rests(late) and not query.real_time)
    every = _distance_ms(late) if idle else interval
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
        use=middle / every if every and interval else None,
        rests=idle,
        delay_ms=max(0.0, durations[-1] - interval) if interval and not idle else None,
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
    return called(state, word, because)


def _distance_ms(late: Sequence[Trigger]) -> float:
    """From one trigger to the next, in the median."""
    return median([(b.time_us - a.time_us) / 1000 for a, b in _neighbours(late)])


def _neighbours(late: Sequence[Trigger]) -> list[tuple[Trigger, Trigger]]:
    """Triggers and the next one of the same run, none of which is missing in between."""
    return [
        (a, b)
        for a, b in pairwise(late)
        if a.run_id == b.run_id
        and (a.batch is None or b.batch is None or 0 <= b.batch - a.batch <= 1)
    ]


def rests(late: Sequence[Trigger], *, pause_ms: float = PAUSE_MS) -> bool:
    """Whether there is a pause behind most triggers that tell of their rows, and no backlog: all was read.

    Lines of a log at WARN tell of the late ones only, and of no rows.
    """
    told = [t for t in late if t.rows is not None]
    gaps = [(b.time_us - a.time_us) / 1000 - (a.duration_ms or 0) for a, b in _neighbours(told)]
    if len(gaps) < FEW - 1 or sum(bool(t.backlog) for t in told) > len(told) / 2:
        return False
    return median(gaps) > pause_ms


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
        because = f"its first triggers take {fmt.percent(state.use or 0.0)} of the interval and do not become"
        return Stability.INCONCLUSIVE, f"{because} longer, as those of a start"
    if because is not None:
        return Stability.OVERLOADED, because
    if _piling(state):
        return Stability.THROTTLED, "the backlog grows behind a limit of rows per trigger"
    if state.caps:
        return Stability.THROTTLED, capped(state.caps[0])
    if state.use is not None and state.use >= NARROW:
        return Stability.BORDERLINE, f"triggers take {fmt.percent(state.use)} of {_what(state)}"
    # A source without a limit is read to its end each time: that nothing is left then tells nothing.
    unknown = state.interval_ms is None and not any(t.backlog for t in query.triggers)
    if unknown and breathless(late) and not drained(query):
        because = (
            f"triggers take {(state.processing_ms or 0.0) / 1000:.1f} s and follow each other "
        )
        because += "without a pause, and no input tells the trigger interval"
        return Stability.INCONCLUSIVE, because
    part = f"{fmt.percent(state.use)} of {_what(state)}" if state.use is not None else "their time"
    return Stability.STABLE, f"triggers take {part}"


def _what(state: StreamState) -> str:
    return "the time from one to the next" if state.rests else "the interval"


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
        if middle > interval and over > overrun and not state.rests:
            what = "and take longer each time" if grows else "and do not recover"
            told = f"{fmt.percent(over)} of the triggers take longer than the interval"
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
