"""Units and axes of charts: times in the report's time zone, durations and sizes in one unit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from flowdiag.cli.render.html.drawing import Spec
from flowdiag.cli.text.words import Clock

_LENGTHS: Final = ((3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"), (1, "ms"))
_SIZES: Final = (
    (1 << 40, "TiB"),
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
    (1, "bytes"),
)


def unit_of_lengths(ms: Iterable[float | None]) -> tuple[int, str]:
    """Return the largest unit in which the longest duration is at least 2: its milliseconds and its name.

    >>> unit_of_lengths([300, 9_000]), unit_of_lengths([None]), unit_of_lengths([90_000])
    ((1000, 'seconds'), (1, 'ms'), (1000, 'seconds'))
    """
    return _unit(_LENGTHS, ms)


def unit_of_sizes(count: Iterable[float | None]) -> tuple[int, str]:
    """Return the largest unit in which the largest size is at least 2: its bytes and its name.

    >>> unit_of_sizes([3 << 30, 5])
    (1073741824, 'GiB')
    """
    return _unit(_SIZES, count)


def _unit(units: Iterable[tuple[int, str]], values: Iterable[float | None]) -> tuple[int, str]:
    most = max((value for value in values if value is not None), default=0)
    found = 1, ""
    for found in units:
        if most >= 2 * found[0]:
            break
    return found


def wall_ms(instant: str | None, clock: Clock) -> float | None:
    """Convert an instant to local time, declared as UTC, so that Vega needs no time zone.

    >>> from datetime import timedelta, timezone
    >>> wall_ms("1970-01-01T00:00:01.500Z", Clock("UTC+01:00", timezone(timedelta(hours=1))))
    3601500.0
    """
    if instant is None:
        return None
    try:
        moment = datetime.fromisoformat(instant).astimezone(clock.zone)
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC).timestamp() * 1000


def time_axis(
    field: str, clock: Clock, width: int, span: tuple[float, float] | None = None
) -> Spec:
    """Return the x axis of times from `wall_ms`.

    Args:
        field: the field of the rows.
        clock: the time zone in the axis title.
        width: the width of the chart in pixels.
        span: the period, if several charts share it.
    """
    scale = {"type": "utc", "nice": False}
    return {
        "field": field,
        "type": "temporal",
        "scale": {**scale, "domain": list(span)} if span else scale,
        "axis": {
            "title": f"time, {clock.name}",
            "grid": False,
            "tickCount": 4 if width < 500 else 8,
            "format": "%H:%M:%S",
        },
    }
