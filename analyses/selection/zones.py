"""Parses time zones in user options, for inputs and for the times in a report."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flowdiag.parsers.errors import FlowdiagError

LOCAL: Final = "local"
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)


def zone_name(text: str | None) -> str | None:
    """Return the name of a zone that both Python and Spark know.

    Raises:
        FlowdiagError: if the zone does not exist.

    >>> zone_name("+08:00"), zone_name("Asia/Kolkata"), zone_name("Z"), zone_name(None)
    ('Etc/GMT-8', 'Asia/Kolkata', 'UTC', None)
    """
    if text is None:
        return None
    name = text.strip()
    if name.upper() in ("Z", "UTC", "GMT"):
        return "UTC"
    offset = name.upper().removeprefix("UTC").removeprefix("GMT")
    hours = offset[1:].removesuffix("00").removesuffix(":")
    if offset[:1] in ("+", "-") and hours.isdecimal() and int(hours) <= 14:
        # These names reverse the sign.
        return f"Etc/GMT{'-' if offset[0] == '+' else '+'}{int(hours)}" if int(hours) else "UTC"
    if known_zone(name) is None:
        raise FlowdiagError(
            f"unknown time zone '{text}'", hint="write Asia/Shanghai, UTC or +08:00"
        )
    return name


def shown_zone(text: str) -> tuple[str, tzinfo | None]:
    """Return the name of a time zone and the zone itself, which is None for the local zone.

    Raises:
        FlowdiagError: if the time zone is unknown.

    >>> shown_zone("local"), shown_zone("+05:30")[0], shown_zone("-8")[0], shown_zone("z")[0]
    (('local time', None), 'UTC+05:30', 'UTC-08:00', 'UTC')
    """
    name = text.strip()
    if name.lower() == LOCAL:
        return "local time", None
    if name.upper() in ("Z", "UTC", "GMT"):
        return "UTC", UTC
    hit = _OFFSET.fullmatch(name)
    if hit is not None and int(hit[2]) <= 14:
        minutes = int(hit[2]) * 60 + int(hit[3] or 0)
        offset = timedelta(minutes=-minutes if hit[1] == "-" else minutes)
        return f"UTC{hit[1]}{int(hit[2]):02}:{hit[3] or '00'}", timezone(offset)
    zone = known_zone(name)
    if zone is None:
        raise FlowdiagError(
            f"unknown time zone '{text}'", hint=f"examples: Europe/Berlin, UTC, +02:00, {LOCAL}"
        )
    return name, zone


def known_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
