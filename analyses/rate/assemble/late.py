"""Reads late triggers from "Current batch is falling behind" lines, the only triggers in a log at WARN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flowdiag.analyses.rate.assemble.rows import Row, field_of, ref_of
from flowdiag.analyses.rate.facts import Trigger

_MOSTLY_LATE: Final = 0.5
_SILENT: Final = 3
"""Minimum silence that ends a series of late triggers, as a multiple of its longest trigger."""
_COLD_US: Final = 120_000_000
"""Maximum time after the first record at which a trigger still starts workers and reads a backlog."""


def without_inconclusive_late_triggers(
    rows: Sequence[Row], first_us: int | None, last_us: int | None = None
) -> list[Row]:
    """Drop late triggers that prove nothing from the incidents.

    The first trigger after the start is cold, so it does not count. The log contains only late triggers. If most
    triggers may be on time, or a longer log has only one late trigger, the late triggers prove nothing. The same
    applies if they take little of the second half of the time until the end of the log.

    Args:
        rows: incidents, in order.
        first_us: the first time of the input.
        last_us: the last time of the input.
    """
    late = {_place(row): one for row in rows if (one := _trigger_of(row)) is not None}
    kept = _without_cold_trigger(sorted(late.items(), key=lambda pair: pair[1].time_us), first_us)
    proven = _take_most_of_the_time(kept) and _take_most_of_the_time(kept, last_us)
    inconclusive = late.keys() - (dict(kept).keys() if proven else set())
    return [row for row in rows if not (_is_late(row) and _place(row) in inconclusive)]


_Placed = tuple[tuple[int, int], Trigger]


def _without_cold_trigger(late: list[_Placed], first_us: int | None) -> list[_Placed]:
    """Drop the first trigger if it follows the start directly, or if it is the only late trigger of a longer log.

    Drop a single second trigger as well if it is shorter, because it reads the rows that waited for the first.
    """
    if not late or first_us is None:
        return late
    after_us = late[0][1].time_us - first_us
    if after_us <= 0 or (len(late) > 1 and after_us > _COLD_US):
        return late
    durations = [one.duration_ms or 0 for _, one in late]
    return late[2:] if len(late) == 2 and durations[1] < durations[0] else late[1:]


def _take_most_of_the_time(late: Sequence[_Placed], until_us: int | None = None) -> bool:
    """Return whether late triggers take most of the time from the start of the first to the end of the last.

    With `until_us`, the time lasts until then, and only its second half counts.
    """
    spans = [(one.time_us, one.time_us + (one.duration_ms or 0) * 1000) for _, one in late]
    begin = min((start for start, _ in spans), default=0)
    end = max((end for _, end in spans), default=0)
    if until_us is not None:
        # The log does not contain the trigger that was running at its end.
        longest = max((last - first for first, last in spans), default=0)
        end = max(end, until_us - longest)
        begin = (begin + end) // 2
    spent = sum(max(0, last - max(first, begin)) for first, last in spans)
    return spent > _MOSTLY_LATE * (end - begin)


def ended_overload(
    rows: Iterable[Row], first_us: int | None, last_us: int | None
) -> tuple[Trigger, ...]:
    """Return the last series of late triggers that follow each other, if it ended before the log.

    The series is empty if it may be a start that caught up, or if the log may end with it.
    """
    late = late_triggers(rows)
    if not late or first_us is None or last_us is None:
        return ()
    spans = [(one.time_us, one.time_us + (one.duration_ms or 0) * 1000) for one in late]
    first = len(late) - 1
    while first > 0 and _follows(spans[first - 1], spans[first]):
        first -= 1
    longest = max(end - start for start, end in spans[first:])
    is_start = spans[first][0] - first_us <= _COLD_US
    may_last = last_us - spans[-1][1] <= _SILENT * longest
    return () if is_start or may_last else tuple(late[first:])


def _follows(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Return whether the pause between two late triggers is shorter than the longer trigger."""
    return after[0] - before[1] <= max(before[1] - before[0], after[1] - after[0])


def _place(row: Row) -> tuple[int, int]:
    return row["source"], row["offset"]


def _is_late(row: Row) -> bool:
    """Return whether a row is about a late trigger. In a short text, two rows may describe the same line."""
    return row.get("template") == "falling-behind" or field_of(row, "class") == "trigger-late"


def late_triggers(rows: Iterable[Row]) -> list[Trigger]:
    """Return the late triggers among incidents, with their ends and durations."""
    return sorted(
        (trigger for row in rows if (trigger := _trigger_of(row)) is not None),
        key=lambda trigger: trigger.time_us,
    )


def last_late_us(rows: Iterable[Row]) -> int | None:
    """Return when the last late trigger completed. It shows that a query ran, even if it proves no overload."""
    late = late_triggers(rows)
    return max((one.time_us + (one.duration_ms or 0) * 1000 for one in late), default=None)


def _trigger_of(row: Row) -> Trigger | None:
    spent, time_us = field_of(row, "spent_ms"), row.get("time_us")
    if row.get("template") != "falling-behind" or not spent.isdecimal() or time_us is None:
        return None
    return Trigger(
        batch=None,
        run_id="",
        time_us=time_us - int(spent) * 1000,
        duration_ms=int(spent),
        rows=None,
        durations={"triggerExecution": int(spent)},
        ref=ref_of(row),
    )
