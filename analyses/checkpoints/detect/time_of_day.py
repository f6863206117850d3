"""Detects expiries that cluster by time of day."""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink import helpers as h

_DAY_US: Final = 86_400_000_000
_MIN_EXPIRIES: Final = 6  # fewer expiries may cluster by chance
_MIN_DAYS: Final = 3
_HOURS: Final = 3  # an eighth of the day; three quarters of the expiries in it are no coincidence


def time_of_day_text(expired: list[h.Checkpoint]) -> str:
    """Return a sentence if checkpoints expire at similar times of day, for example because of a nightly backup."""
    moments = [c.triggered_us for c in expired if c.triggered_us is not None]
    days = {moment // _DAY_US for moment in moments}
    if len(moments) < _MIN_EXPIRIES or len(days) < _MIN_DAYS:
        return ""
    hours = Counter(moment % _DAY_US // 3_600_000_000 for moment in moments)
    within = [sum(hours[(hour + offset) % 24] for offset in range(_HOURS)) for hour in range(24)]
    begin = max(range(24), key=lambda hour: (within[hour], hours[hour] > 0, -hour))
    if within[begin] * 4 < len(moments) * 3:
        return ""
    return (
        f" {within[begin]} of {len(moments)} were triggered between {begin:02d}:00 and "
        f"{(begin + _HOURS) % 24:02d}:00 UTC, on {len(days)} days. Check what runs at that time."
    )
