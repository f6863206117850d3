"""Time zones in user options."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flowdiag.parsers.errors import FlowdiagError


def zone_name(text: str | None) -> str | None:
    """Return the name of a zone that both Python and Spark know.

    Raises:
        FlowdiagError: the zone does not exist.

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
        # In these names the sign is reversed.
        return f"Etc/GMT{'-' if offset[0] == '+' else '+'}{int(hours)}" if int(hours) else "UTC"
    if known_zone(name) is None:
        raise FlowdiagError(
            f"unknown time zone '{text}'", hint="write Asia/Shanghai, UTC or +08:00"
        )
    return name


def known_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
