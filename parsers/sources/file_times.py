"""Reads times in file names, such as `metrics-20261121T021500Z.prom` and `scrape.1795228110.txt`.

Saved responses and scrapes contain no time, but scripts that save them in a loop put it into the file name.
Times of the file system are not used, because copying and archiving change them.
"""

from __future__ import annotations

import re
from calendar import timegm
from typing import Final, NamedTuple

_DATE: Final = r"(?P<y>20\d\d)(?P<s>[-._]?)(?P<mo>[01]\d)(?P=s)(?P<d>[0-3]\d)"
_TIME: Final = (
    r"[T_ -]+(?P<h>[0-2]\d)[-:._]?(?P<mi>[0-5]\d)[-:._]?(?P<sec>[0-5]\d)(?:[.,_]?(?P<f>\d{3}))?"
)
_ZONE: Final = r"(?P<z>Z|UTC|GMT|[+-][0-2]\d:?[0-5]\d)?"
_PRINTED = re.compile(rf"(?<!\d){_DATE}(?:{_TIME}){_ZONE}(?![\d])", re.IGNORECASE)
_EPOCH = re.compile(r"(?<!\d)(?P<s>1[5-9]\d{8}|2[01]\d{8})(?P<ms>\d{3})?(?!\d)")


class Moment(NamedTuple):
    """An instant or, without a time zone, a wall clock; both in microseconds."""

    utc_us: int | None = None
    local_us: int | None = None


NO_MOMENT: Final = Moment()


def moment_of_name(name: str) -> Moment:
    """Return the last time in a file name.

    >>> moment_of_name("logs/tm-1-20261121T021500Z.prom.gz").utc_us == 1795227300_000_000
    True
    >>> moment_of_name("scrape-1795227300.txt").utc_us == 1795227300_000_000
    True
    >>> moment_of_name("metrics_2026-11-21_02-15-00.txt").local_us == 1795227300_000_000
    True
    >>> moment_of_name("worker-1.prom")
    Moment(utc_us=None, local_us=None)
    """
    return moment_in(re.split(r"[/\\!]", name)[-1])


def moment_in(text: str) -> Moment:
    """Return the last time in a text: a printed time, or seconds or milliseconds since 1970."""
    printed = list(_PRINTED.finditer(text))
    if printed:
        return _moment_in_match(printed[-1])
    epochs = list(_EPOCH.finditer(text))
    if not epochs:
        return NO_MOMENT
    found = epochs[-1]
    return Moment(utc_us=int(found["s"]) * 1_000_000 + int(found["ms"] or 0) * 1000)


def _moment_in_match(found: re.Match[str]) -> Moment:
    year, month, day = int(found["y"]), int(found["mo"]), int(found["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31 and int(found["h"]) < 24):
        return NO_MOMENT
    seconds = timegm((year, month, day, int(found["h"]), int(found["mi"]), int(found["sec"])))
    us = seconds * 1_000_000 + int(found["f"] or 0) * 1000
    zone = (found["z"] or "").upper()
    if not zone:
        return Moment(local_us=us)
    if zone in ("Z", "UTC", "GMT"):
        return Moment(utc_us=us)
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return Moment(utc_us=us - (1 if zone[0] == "+" else -1) * minutes * 60_000_000)
