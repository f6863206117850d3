"""Parses numbers from the command line."""

from __future__ import annotations

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.units import duration_ms


def parse_duration_ms(text: str, option: str, *, below: float = 1e9) -> float:
    """Parse a duration in milliseconds. The unit is mandatory: users would mean seconds, and Flink milliseconds.

    Raises:
        FlowdiagError: the text is not a duration, has no unit, or reaches the limit.

    >>> parse_duration_ms("2s", "--interval"), parse_duration_ms("0.5 ms", "--interval"), parse_duration_ms("0", "--interval")
    (2000.0, 0.5, 0.0)
    """
    value = duration_ms(text)
    if value is None or not 0 <= value < below:
        raise FlowdiagError(f"{option} '{text}' is not a duration", hint="write 5ms or 2s")
    number = text.strip()
    if value and number[-1:] in "0123456789.":
        raise FlowdiagError(
            f"{option} '{text}' has no unit", hint=f"write {number}ms, {number}s or {number}m"
        )
    return value


def check_positive(value: float | None, option: str) -> float | None:
    """Return a rate or a gain unchanged, or reject it.

    Raises:
        FlowdiagError: the value is not finite, or not above 0.
    """
    if value is not None and not 0 < value < 1e15:
        raise FlowdiagError(f"{option} must be above 0")
    return value
