"""Times of carriers: epochs of any unit, and dates in a few formats."""

from __future__ import annotations

import re
from typing import Any, Final

from flowdiag.parsers.units import days_since_1970

_WRITTEN: Final = re.compile(
    r"\s*(\d{4})[-/.](\d\d)[-/.](\d\d)(?:[T _-]|, ?)(\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,12}))?"
    r"\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE | re.ASCII,
)
_KIBANA: Final = re.compile(
    r"\s*([A-Z][a-z]{2})[a-z]* (\d{1,2}), (\d{4}) @ (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII
)
_AMERICAN: Final = re.compile(
    r"\s*(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d)(?:\.(\d{1,9}))? ?([AP])M", re.ASCII
)
_NUMBER: Final = re.compile(r"\s*(\d{1,20})(?:\.(\d{1,12}))?\s*\Z", re.ASCII)
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)

Times = tuple[int | None, int | None]


def read_time(value: object) -> Times:
    """Parse the time of a carrier to (instant, wall clock), each in microseconds or None.

    Numbers, also as strings, are epochs in seconds with or without fraction, milliseconds, microseconds or
    nanoseconds, by their magnitude; they give only the instant. Written times give the wall clock, and the
    instant only if they have a zone. Fractions are truncated to microseconds.

    >>> read_time("1970-01-01T02:00:01.5+02:00")
    (1500000, 7201500000)
    >>> read_time("1970-01-01_00:00:01,250"), read_time(1_500_000_000_123)
    ((None, 1250000), (1500000000123000, None))
    """
    if isinstance(value, bool):
        return None, None
    if isinstance(value, int):
        return _epoch(value, ""), None
    if isinstance(value, float):
        if not 0 < value < 1e20:
            return None, None
        if 1e8 <= value < 1e11:
            return round(value * 1e6), None
        return _epoch(int(value), ""), None
    if isinstance(value, dict):
        seconds, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if seconds is None:  # protobuf's form
            seconds, nanos = value.get("seconds"), value.get("nanos", 0)
        if not isinstance(seconds, int) or not isinstance(nanos, int):
            return None, None
        sane = abs(seconds) < 10**11 and 0 <= nanos < 10**9
        return (seconds * 1_000_000 + nanos // 1000 if sane else None), None
    if isinstance(value, list) and len(value) == 1:
        return read_time(value[0])
    if not isinstance(value, str) or len(value) > 64:
        return None, None
    if found := _NUMBER.match(value):
        return _epoch(int(found[1]), found[2] or ""), None
    if found := _WRITTEN.match(value):
        local = _wall_clock(*found.group(1, 2, 3, 4, 5, 6, 7))
        shift = _zone(found[8])
        return (None if local is None or shift is None else local - shift), local
    if (found := _KIBANA.match(value)) and found[1] in _MONTHS:
        month = str(_MONTHS.index(found[1]) + 1)
        return None, _wall_clock(found[3], month, *found.group(2, 4, 5, 6, 7))
    if found := _AMERICAN.match(value):
        hour = int(found[4]) % 12 + (12 if found[8] == "P" else 0)
        return None, _wall_clock(found[3], found[1], found[2], str(hour), *found.group(5, 6, 7))
    return None, None


def _epoch(number: int, fraction: str) -> int | None:
    if number < 10**8:  # before 1973: an elapsed time
        return None
    if number < 10**11:
        return number * 1_000_000 + int(fraction[:6].ljust(6, "0") or 0)
    if number < 10**14:
        return number * 1000 + int(fraction[:3].ljust(3, "0") or 0)
    if number < 10**17:
        return number
    return number // 1000 if number < 10**20 else None


def _wall_clock(
    year: str, month: str, day: str, hour: str, minute: str, second: str, fraction: str | None
) -> int | None:
    days = days_since_1970(int(year), int(month), int(day))
    if days is None or int(hour) > 24 or int(minute) > 59 or int(second) > 60:
        return None
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))


def _zone(text: str | None) -> int | None:
    """Return the offset of a zone from UTC in microseconds."""
    if not text:
        return None
    if text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    ahead = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return (-ahead if text[0] == "-" else ahead) * 1_000_000


def time_of(hits: list[tuple[int, Any]]) -> Times:
    """Return the first instant and the first wall clock among the values."""
    instant = local = None
    for _, found in hits:
        this_instant, this_local = read_time(found)
        instant = this_instant if instant is None else instant
        local = this_local if local is None else local
        if instant is not None and local is not None:
            break
    return instant, local
