"""Parses the time of a printed output, from the line above it (`date` in a loop) or the name of the file."""

from __future__ import annotations

import re
from calendar import timegm
from typing import Final

from flowdiag.parsers.sources.file_times import moment_in, moment_of_name

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_DATE: Final = re.compile(
    r"\b[A-Z][a-z]{2} (?:(?P<m>[A-Z][a-z]{2}) {1,2}(?P<d>\d{1,2})|(?P<d2>\d{1,2}) (?P<m2>[A-Z][a-z]{2}))"
    r"(?: (?P<y>20\d\d))? (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?: (?P<pm>[AP]M))?"
    r"(?: [A-Z]{2,5})?(?: (?P<y2>20\d\d))?"
)


def time_of_line(line: str) -> int | None:
    """Return the time in a line that contains little else, in microseconds. Without a zone it is taken as UTC.

    >>> time_of_line("2026-11-25T21:30:00Z") == time_of_line("Wed Nov 25 21:30:00 UTC 2026") == 1795642200_000_000
    True
    >>> time_of_line("=== 2026-11-25 21:30:00 ===") == 1795642200_000_000
    True
    >>> time_of_line("Every 2.0s: kafka-consumer-groups.sh") is None
    True
    """
    if len(line) > 200:
        return None
    if found := _DATE.search(line):
        month = _MONTHS.get(found["m"] or found["m2"])
        year = found["y"] or found["y2"]
        if month is None or year is None:
            return None
        hour = int(found["h"])
        if found["pm"]:
            hour = hour % 12 + (12 if found["pm"] == "PM" else 0)
        day = int(found["d"] or found["d2"])
        if not (1 <= day <= 31 and hour < 24):
            return None
        seconds = timegm((int(year), month, day, hour, int(found["mi"]), int(found["s"])))
        return seconds * 1_000_000
    moment = moment_in(line)
    return moment.utc_us if moment.utc_us is not None else moment.local_us


def time_of_name(name: str) -> int | None:
    """Return the time in a file name, in microseconds. Without a zone it is taken as UTC."""
    moment = moment_of_name(name)
    return moment.utc_us if moment.utc_us is not None else moment.local_us
