"""The voting tables of the rules, from `signals.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Signal:
    """One line of a rule's published voting table.

    Args:
        name: as in `Vote.signal`.
        weight: its points (1 hint, 2 indication, 3 proof). Negative if it disagrees.
        why: its meaning, when it applies, and when it misleads.
    """

    name: str
    weight: int
    why: str


@cache
def _tables() -> dict[str, tuple[Signal, ...]]:
    text = Path(__file__).with_name("signals.toml").read_text(encoding="utf-8")
    return {
        code: tuple(Signal(name, *row) for name, row in table.items())
        for code, table in tomllib.loads(text).items()
    }


def signals_of(name: str) -> tuple[Signal, ...]:
    """Return the voting table of a rule by its code, or a table that several rules share; empty without one."""
    return _tables().get(name, ())
