"""Event time of a query against the clock of its triggers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.assessment.triggers import late_triggers
from flowdiag.analyses.rate.facts import QueryFacts, Trigger

AHEAD_MS: Final = 600_000.0
"""From there on, a watermark is ahead of the clock, and not only of another clock."""

STUCK_TRIGGERS: Final = 8  # with rows: a healthy watermark advances with the next one
STUCK_TIMES: Final = 3  # newest event times

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_US: Final = 31_556_952_000_000


def end_us(trigger: Trigger) -> int:
    """Return when a trigger ended: none of its events can be later."""
    return trigger.time_us + (trigger.duration_ms or 0) * 1000


def is_ahead(trigger: Trigger, ahead_ms: float = AHEAD_MS) -> bool:
    """Return whether the watermark of a trigger is in the future."""
    return (trigger.watermark_us or 0) > end_us(trigger) + ahead_ms * 1000


def day_of(time_us: int) -> str:
    """Return the date of an instant, or its year if the calendar ends before.

    >>> day_of(3_508_012_800_000_000), day_of(1_795_603_680_000_000_000)
    ('2081-03-01', 'year 58870')
    """
    try:
        return f"{(_EPOCH + timedelta(microseconds=time_us)).date()}"
    except OverflowError:
        return f"year {1970 + time_us // _YEAR_US}"


def lead_of(lead_us: int) -> str:
    """Return how far a time is ahead, in years from two years on.

    >>> lead_of(7_200_000_000), lead_of(1_712_372_400_000_000)
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
    """Return all triggers since the watermark stopped although newer events arrive; none if it advances.

    Args:
        query: its triggers.
        fewest: number of recent triggers with rows that are needed.
        times: number of different newest event times that are needed.
    """
    late = marked_triggers(query, fewest)
    newest = {t.max_event_us for t in late if t.max_event_us is not None}
    # The Web UI shows no event times, only watermarks.
    if not late or len({t.watermark_us for t in late}) > 1 or 0 < len(newest) < times:
        return []
    held = late[0].watermark_us
    marked = [t for t in query.triggers if t.watermark_us is not None and t.rows]
    since = max((n for n, t in enumerate(marked, 1) if t.watermark_us != held), default=0)
    return marked[since:]


def idle_sources(triggers: Sequence[Trigger]) -> list[str]:
    """Return the sources without a row in any of the triggers, if others have rows."""
    rows: dict[tuple[int, str], int] = {}
    for trigger in triggers:
        for number, source in enumerate(trigger.sources):
            key = number, str(source.get("name") or "")
            rows[key] = rows.get(key, 0) + (source.get("rows") or 0)
    idle = [name for (_, name), count in sorted(rows.items()) if not count and name]
    return idle if len(idle) < len(rows) else []


def emitted(query: QueryFacts, trigger: Trigger) -> int | None:
    """Return the rows that a trigger passed to the sink; None if the input does not show them.

    In append mode, an aggregation emits the rows that it removes from its state.
    """
    if trigger.written is not None:
        return trigger.written
    aggregates = [one for one in trigger.state if one.get("operator") == "stateStoreSave"]
    removed = [one.get("removed") for one in aggregates]
    if query.plan.mode != "append" or not removed or None in removed:
        return None
    return sum(count or 0 for count in removed)


def delay_ms(query: QueryFacts) -> float | None:
    """Return the delay of the watermark: from the plan, or from the newest event and the next watermark."""
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
