"""What an exception of Flink's says, as parts of a finding: its numbers, and the options that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.finding import Action, Measurement
from flowdiag.parsers.exceptions import Classified

# Of the values that an exception says those that are numbers: their name, their unit.
_NUMBERS: Final = {
    "needed": ("needed", None),
    "available": ("available", None),
    "total": ("total", None),
    "used": ("used", None),
    "waited_ms": ("waited", "ms"),
    "waited_s": ("waited", "s"),
    "from": ("lost-offset", None),
    "attempts": ("allowed-restarts", "restarts"),
    "exit_code": ("exit-code", None),
}
_UNITS: Final = {
    "network-buffers": "buffers",
    "not-enough-slots": "slots",
    "direct-memory-full": "bytes",
    "memory-full": "bytes",
    "frame-too-large": "bytes",
}


def numbers_of(said: Classified | None) -> Iterator[Measurement]:
    """The numbers that an exception says; sizes that are printed with a unit stay as they are."""
    for key, (name, unit) in _NUMBERS.items():
        value = said.values.get(key) if said is not None else None
        if said is not None and value is not None:
            number = value.removeprefix("-").isdecimal()
            told = unit or (_UNITS.get(said.name) if number else None)
            yield h.measurement(name, float(value) if number else value, told)


def named_options(said: Classified | None, known: Iterable[Action]) -> Iterator[Action]:
    """The options that the exception itself names, but those that are among the remedies."""
    told = {action.option for action in known}
    for key in said.options if said is not None else ():
        if key not in told:
            yield Action(
                text=f"Look at {key}: the exception itself names it",
                option=key,
                measure="what the exception says of it",
            )
