"""What flags say, as numbers."""

from __future__ import annotations

from flowdiag.analyses.flink.judging import milliseconds
from flowdiag.parsers.errors import FlowdiagError


def length(text: str, option: str, *, below: float = 1e9) -> float:
    """A length of time, in milliseconds. It has a unit: people mean seconds, options milliseconds.

    Raises:
        FlowdiagError: it is none, has no unit, or is not below the limit.

    >>> length("2s", "--interval"), length("0.5 ms", "--interval"), length("0", "--interval")
    (2000.0, 0.5, 0.0)
    """
    value = milliseconds(text)
    if value is None or not 0 <= value < below:
        raise FlowdiagError(f"{option} '{text}' is no length of time", hint="write 5ms or 2s")
    number = text.strip()
    if value and number[-1:] in "0123456789.":
        raise FlowdiagError(
            f"{option} '{text}' has no unit", hint=f"write {number}ms, {number}s or {number}m"
        )
    return value


def positive(value: float | None, option: str) -> float | None:
    """A rate or a gain's limit that must be above 0; None stays.

    Raises:
        FlowdiagError: it is not above 0, or no finite number.
    """
    if value is not None and not 0 < value < 1e15:
        raise FlowdiagError(f"{option} must be above 0")
    return value
