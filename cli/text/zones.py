"""The time zone of a report's times."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final

from flowdiag.analyses.selection.zones import known_zone
from flowdiag.parsers.errors import FlowdiagError

LOCAL: Final = "local"
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)


def shown_zone(text: str) -> tuple[str, tzinfo | None]:
    """Return the name of a time zone and the zone; None for the zone of this machine.

    Raises:
        FlowdiagError: the time zone is unknown.

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
