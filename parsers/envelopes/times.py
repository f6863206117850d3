"""Parses timestamps in envelopes: epochs in any unit, and dates in a few formats."""

from __future__ import annotations

import re
from typing import Any, Final

from flowdiag.parsers.units import days_since_1970

_NUMBER: Final = re.compile(r"\s*(\d{1,20})(?:\.(\d{1,12}))?\s*\Z", re.ASCII)
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)"
_FORMATS: Final = (
    re.compile(
        r"\s*(?P<year>\d{4})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)(?:[T _-]|, ?)"
        rf"(?=\d\d:){_CLOCK}(?:[.,:](?P<fraction>\d{{1,12}}))?"
        r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(  # Kibana
        rf"\s*(?P<month>{'|'.join(_MONTHS)})[a-z]* (?P<day>\d{{1,2}}), (?P<year>\d{{4}})"
        rf" @ (?=\d\d:){_CLOCK}(?:\.(?P<fraction>\d{{1,9}}))?",
        re.ASCII,
    ),
    re.compile(  # American
        rf"\s*(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/(?P<year>\d{{4}}),? {_CLOCK}"
        r"(?:\.(?P<fraction>\d{1,9}))? ?(?P<half>[AP])M",
        re.ASCII,
    ),
)

Times = tuple[int | None, int | None]


def read_time(value: object) -> Times:
    """Parse a carrier's time into (instant, wall clock), each in microseconds or None.

    A number, also as a string, is an epoch in seconds, milliseconds, microseconds or nanoseconds, depending on its
    magnitude. It gives only the instant. A written time gives the wall clock, and the instant only if it has a zone.
    Fractions are truncated to microseconds.

    >>> read_time("1970-01-01T02:00:01.5+02:00")
    (1500000, 7201500000)
    >>> read_time("1970-01-01_00:00:01,250"), read_time(1_500_000_000_123)
    ((None, 1250000), (1500000000123000, None))
    """
    if isinstance(value, int):
        return _epoch(value, ""), None
    if isinstance(value, float):
        if 1e8 <= value < 1e11:
            return round(value * 1e6), None
        return _epoch(int(value), "") if 0 < value < 1e20 else None, None
    if isinstance(value, dict):
        return _epoch_in(value), None
    if isinstance(value, list) and len(value) == 1:
        return read_time(value[0])
    if not isinstance(value, str) or len(value) > 64:
        return None, None
    if found := _NUMBER.match(value):
        return _epoch(int(found[1]), found[2] or ""), None
    for pattern in _FORMATS:
        if found := pattern.match(value):
            return _convert(found.groupdict())
    return None, None


def _epoch_in(value: dict[str, Any]) -> int | None:
    """Return the instant in an object with seconds and nanoseconds, as written by log4j and protobuf."""
    seconds, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
    if seconds is None:  # as written by protobuf
        seconds, nanos = value.get("seconds"), value.get("nanos", 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    is_valid = abs(seconds) < 10**11 and 0 <= nanos < 10**9
    return seconds * 1_000_000 + nanos // 1000 if is_valid else None


def _epoch(number: int, fraction: str) -> int | None:
    if number < 10**8:  # before 1973: probably an elapsed time
        return None
    if number < 10**11:
        return number * 1_000_000 + int(fraction[:6].ljust(6, "0") or 0)
    if number < 10**14:
        return number * 1000 + int(fraction[:3].ljust(3, "0") or 0)
    if number < 10**17:
        return number
    return number // 1000 if number < 10**20 else None


def _convert(parts: dict[str, str | Any]) -> Times:
    """Build the times from the groups of a written time. Without a time zone there is no instant."""
    month = _MONTHS.get(parts["month"]) or int(parts["month"])
    days = days_since_1970(int(parts["year"]), month, int(parts["day"]))
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(parts["second"])
    if half := parts.get("half"):
        hour = hour % 12 + (12 if half == "P" else 0)
    if days is None or hour > 24 or minute > 59 or second > 60:
        return None, None
    local = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000
    local += int((parts["fraction"] or "")[:6].ljust(6, "0"))
    zone = parts.get("zone")
    if not zone:
        return None, local
    digits = zone[1:].replace(":", "").ljust(4, "0") if zone[0] in "+-" else "0000"
    offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * 1_000_000
    return local + (offset if zone[0] == "-" else -offset), local


def time_of(hits: list[tuple[int, Any]]) -> Times:
    """Return the first instant and the first wall clock among these values."""
    instant = local = None
    for _, found in hits:
        this_instant, this_local = read_time(found)
        instant = this_instant if instant is None else instant
        local = this_local if local is None else local
        if instant is not None and local is not None:
            break
    return instant, local
