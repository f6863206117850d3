"""Derives measurements and actions from the text of a Flink exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.finding import Action, Measurement
from flowdiag.parsers.exceptions import Classified

# The numeric values of exceptions: measurement name and unit.
_NUMBERS: Final = {
    "needed": ("needed", None),
    "available": ("available", None),
    "total": ("total", None),
    "used": ("used", None),
    "missing": ("missing", None),
    "excluded": ("excluded", "DataNodes"),
    "waited_ms": ("waited", "ms"),
    "waited_s": ("waited", "s"),
    "from": ("lost-offset", None),
    "attempts": ("allowed-restarts", "restarts"),
    "exit_code": ("exit-code", None),
}
_UNITS: Final = {
    "network-buffers": "buffers",
    "network-memory-missing": "MB",
    "hdfs-no-datanode": "DataNodes",
    "not-enough-slots": "slots",
    "direct-memory-full": "bytes",
    "memory-full": "bytes",
    "frame-too-large": "bytes",
}


def exception_measurements(exception: Classified | None) -> Iterator[Measurement]:
    """Yield the numbers in an exception. Sizes that are printed with a unit stay text."""
    for key, (name, unit) in _NUMBERS.items():
        value = exception.values.get(key) if exception is not None else None
        if exception is not None and value is not None:
            number = value.removeprefix("-").isdecimal()
            known = unit or (_UNITS.get(exception.name) if number else None)
            yield h.measurement(name, float(value) if number else value, known)


def option_actions(exception: Classified | None, known: Iterable[Action]) -> Iterator[Action]:
    """Yield an action for each option in the exception that no remedy sets."""
    options = {action.option for action in known}
    for key in exception.options if exception is not None else ():
        if key not in options:
            yield Action(
                text=f"Check {key}, which the exception mentions",
                option=key,
                measure="the limit in the exception",
            )
