"""What the flags of a simulation say, as numbers."""

from __future__ import annotations

from flowdiag.analyses.flink.judging import milliseconds
from flowdiag.parsers.errors import FlowdiagError


def length(text: str, option: str, *, below: float = 1e9) -> float:
    """A length of time, in milliseconds.

    Raises:
        FlowdiagError: it is none, or not below the limit.
    """
    value = milliseconds(text)
    if value is None or not 0 <= value < below:
        raise FlowdiagError(f"{option} '{text}' is no length of time", hint="write 5ms or 2s")
    return value
