"""Compares the event time of a query with the clock of its triggers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.assessment.triggers import late_triggers
from flowdiag.analyses.rate.facts import QueryFacts, Trigger
from flowdiag.analyses.rate.stability import Trend, trend

AHEAD_MS: Final = 600_000.0
"""Minimum time that a watermark is ahead of the clock. Clocks of two hosts may differ by less."""

# Minimum number of triggers with rows. A healthy watermark advances with the next one.
STUCK_TRIGGERS: Final = 8
STUCK_TIMES: Final = 3  # minimum number of different newest event times

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_US: Final = 31_556_952_000_000


def end_us(trigger: Trigger) -> int:
    """Return when a trigger ended, which is the latest possible time of its events."""
    return trigger.time_us + (trigger.duration_ms or 0) * 1000


def is_ahead(trigger: Trigger, ahead_ms: float = AHEAD_MS) -> bool:
    """Return whether the watermark of a trigger is in the future."""
    return (trigger.watermark_us or 0) > end_us(trigger) + ahead_ms * 1000


def day_of(time_us: int) -> str:
    """Format the date of a time, or just its year if the date is beyond Python's calendar.

    >>> day_of(3_508_012_800_000_000), day_of(1_795_603_680_000_000_000)
    ('2081-03-01', 'year 58870')
    """
    try:
        return f"{(_EPOCH + timedelta(microseconds=time_us)).date()}"
    except OverflowError:
        return f"year {1970 + time_us // _YEAR_US}"


def lead_text(lead_us: int) -> str:
    """Format how far a time is ahead, in years from two years on.

    >>> lead_text(7_200_000_000), lead_text(1_712_372_400_000_000)
    ('2 h', '54 years')
    """
    years = lead_us / _YEAR_US
    return f"{years:,.0f} years" if years >= 2 else fmt.duration(lead_us / 1000)


def marked_triggers(query: QueryFacts, fewest: float = STUCK_TRIGGERS) -> list[Trigger]:
    """Return the recent triggers with rows and a watermark, if there are enough."""
    late = [t for t in late_triggers(query.triggers) if t.watermark_us is not None and t.rows]
    return late if len(late) >= max(1, fewest) and not is_ahead(late[-1]) else []


def stuck_triggers(
    query: QueryFacts, *, fewest: float = STUCK_TRIGGERS, times: float = STUCK_TIMES
) -> list[Trigger]:
    """Return all triggers since the watermark stopped although newer events arrive. Empty if it advances.

    Args:
        query: the query with its triggers.
        fewest: minimum number of recent triggers with rows.
        times: minimum number of different newest event times.
    """
    late = marked_triggers(query, fewest)
    if not late and (first := _unset_triggers(query)):
        return first
    newest = {t.max_event_us for t in late if t.max_event_us is not None}
    # The Web UI shows no event times, only watermarks.
    if not late or len({t.watermark_us for t in late}) > 1 or 0 < len(newest) < times:
        return []
    held = late[0].watermark_us
    marked = [t for t in query.triggers if t.watermark_us is not None and t.rows]
    since = max((n for n, t in enumerate(marked, 1) if t.watermark_us != held), default=0)
    return marked[since:]


_FIRST_BATCHES: Final = 2
"""Number of batches that may lack a watermark, because each batch derives it from the event times of earlier batches.
"""


def _unset_triggers(query: QueryFacts) -> list[Trigger]:
    """Return the triggers if all have rows with event times but the watermark is still 1970, its initial value."""
    late = marked_triggers(query, 1)
    unset = all(t.watermark_us == 0 and (t.max_event_us or 0) > _YEAR_US for t in late)
    return late if unset and late and (late[0].batch or 0) >= _FIRST_BATCHES else []


def idle_sources(triggers: Sequence[Trigger]) -> list[str]:
    """Return the sources that deliver no rows in any trigger although other sources do."""
    rows: dict[tuple[int, str], int] = {}
    for trigger in triggers:
        for number, source in enumerate(trigger.sources):
            key = number, str(source.get("name") or "")
            rows[key] = rows.get(key, 0) + (source.get("rows") or 0)
    idle = [name for (_, name), count in sorted(rows.items()) if not count and name]
    return idle if len(idle) < len(rows) else []


def emitted_rows(query: QueryFacts, trigger: Trigger) -> int | None:
    """Return how many rows a trigger passed to the sink, or None if unknown.

    Sinks for files do not count rows, but their tasks do. In append mode, an aggregation emits the rows that it removes
    from its state.
    """
    if trigger.written is not None:
        return trigger.written
    if (trigger.sink or "").startswith(_COUNTED_BY_TASKS) and trigger.stage is not None:
        return trigger.stage.written
    aggregates = [one for one in trigger.state if one.get("operator") == "stateStoreSave"]
    removed = [one.get("removed") for one in aggregates]
    if query.plan.mode != "append" or not removed or None in removed:
        return None
    return sum(count or 0 for count in removed)


_COUNTED_BY_TASKS: Final = ("FileSink[", "DeltaSink[")


def delay_ms(query: QueryFacts) -> float | None:
    """Return the watermark delay from the plan or, failing that, from the newest event and the next watermark."""
    if query.plan.delay_ms is not None:
        return float(query.plan.delay_ms)
    newest, gaps = 0, []
    for trigger in query.triggers:
        if newest and trigger.watermark_us:
            gaps.append((newest - trigger.watermark_us) / 1000)
        newest = max(newest, trigger.max_event_us or 0)
    return min(gaps, default=None) if gaps else None


def event_span_ms(triggers: Sequence[Trigger]) -> float:
    """Return the event time between the oldest and the newest event of the triggers."""
    newest = max((t.max_event_us for t in triggers if t.max_event_us), default=0)
    oldest = min(
        (t.min_event_us or t.max_event_us or 0 for t in triggers if t.max_event_us), default=0
    )
    return max(0.0, (newest - oldest) / 1000)


_FACTORS: Final = {1_000: "milliseconds", 1_000_000: "microseconds"}
_QUARTER_US: Final = 15 * 60 * 1_000_000
_DAY_US: Final = 86_400 * 1_000_000
_STEADY_US: Final = 20 * 1_000_000  # minimum time with a constant delay
_OVERFLOW_US: Final = 9_200_000_000_000_000_000  # Spark's largest time is 2^63 us


@dataclass(frozen=True, slots=True)
class Mistake:
    """A clause that describes what is wrong with all event times, and the functions that correct them."""

    clause: str
    conversion: str


def mistake_of(
    events: Sequence[Trigger], *, fewest: float, ratio: float, jitter_ms: float
) -> Mistake | None:
    """Return the mistake that all event times have in common, a wrong unit or time zone, or None without one.

    Args:
        events: triggers with event times.
        fewest: minimum number of event times.
        ratio: maximum deviation from a factor of 1,000.
        jitter_ms: maximum deviation from a multiple of 15 minutes.
    """
    times = [(t.max_event_us, end_us(t)) for t in events if t.max_event_us]
    if len(times) < max(1, fewest):
        return None
    if all(newest >= _OVERFLOW_US for newest, _ in times):
        return Mistake(
            "exceed Spark's largest time: a smaller unit is read as seconds",
            "timestamp_millis, timestamp_micros",
        )
    for factor, unit in _FACTORS.items():
        if all(abs(newest / clock / factor - 1) <= ratio for newest, clock in times):
            return Mistake(
                f"are {factor:,} times the clock: {unit} are read as seconds",
                f"timestamp_{unit.removesuffix('seconds')}s",
            )
        if all(abs(clock / newest / factor - 1) <= ratio for newest, clock in times):
            return Mistake(
                f"are a factor of {factor:,} too small: seconds are read as {unit}",
                "timestamp_seconds",
            )
    return _offset([newest - clock for newest, clock in times], jitter_ms) or _delay(
        [(t.max_event_us, t.time_us) for t in events if t.max_event_us], jitter_ms
    )


def _offset(leads: Sequence[int], jitter_ms: float) -> Mistake | None:
    steps = {round(lead / _QUARTER_US) for lead in leads}
    if len(steps) > 1 or not 0 < (step := steps.pop()) * _QUARTER_US < _DAY_US:
        return None
    if any(abs(lead - step * _QUARTER_US) > jitter_ms * 1000 for lead in leads):
        return None
    offset = fmt.duration(step * _QUARTER_US / 1000)
    return Mistake(
        f"are {offset} ahead of the clock: local times are read as UTC",
        "to_utc_timestamp, or spark.sql.session.timeZone",
    )


def _delay(times: Sequence[tuple[int, int]], jitter_ms: float) -> Mistake | None:
    """Return the shift of events that are as far behind the start of every trigger as a time zone is behind UTC.

    A source that receives its events once an hour may be late by full hours, too.
    """
    starts = [start for _, start in times]
    if starts[-1] - starts[0] < _STEADY_US or max(b - a for a, b in pairwise(starts)) > _QUARTER_US:
        return None
    lags = [start - newest for newest, start in times]
    steps = round(min(lags) / _QUARTER_US)
    least = 4 if steps % 4 == 0 else 12 if steps % 2 == 0 else 20
    if not least <= steps < _DAY_US // _QUARTER_US:
        return None
    if any(abs(lag - steps * _QUARTER_US) > jitter_ms * 1000 for lag in lags):
        return None
    offset = fmt.duration(steps * _QUARTER_US / 1000)
    return Mistake(
        f"are always {offset} behind the clock: probably, local times are read as UTC",
        "to_utc_timestamp, or spark.sql.session.timeZone",
    )


def effect_text(after: Sequence[Trigger], dropped: int) -> str:
    """Return sentences about the rows that later triggers read, wrote and dropped."""
    counts = [f"read {fmt.plural(sum(t.rows or 0 for t in after), 'row')}"]
    if all(t.written is not None for t in after):
        counts.append(f"wrote {fmt.plural(sum(t.written or 0 for t in after), 'row')}")
    text = f" Since then, {fmt.plural(len(after), 'trigger')} {' and '.join(counts)}."
    if dropped:
        # Operators count the rows of their own input, often after a partial aggregation.
        text += (
            f" Their stateful operators dropped {fmt.plural(dropped, 'row')} of their own input."
        )
    return text


def lag_growth(late: Sequence[Trigger], *, lag_ms: float, share: float) -> Trend | None:
    """Return the growth of the gap between watermark and newest event, in ms per second, or None if it is too small."""
    points = [
        (t.time_us / 1e6, (t.max_event_us - (t.watermark_us or 0)) / 1000)
        for t in late
        # The first watermark of a query is the epoch. Events older than the watermark do not show its lag.
        if t.max_event_us is not None and 0 < (t.watermark_us or 0) <= t.max_event_us
    ]
    if len(points) < len(late) / 2:
        return None
    slope = trend([x for x, _ in points], [y for _, y in points])
    first = min(y for _, y in points[:3])
    if slope is None or not slope.is_rising:
        return None
    return slope if slope.rise >= max(lag_ms, share * max(0.0, first)) else None
