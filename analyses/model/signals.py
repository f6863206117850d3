"""Loads the voting tables of the rules from `signals.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Signal:
    """One row of a rule's published voting table.

    Args:
        name: as in `Vote.signal`.
        weight: its points (1 hint, 2 indication, 3 proof); negative if it contradicts the finding.
        why: what it means, when it applies, and when it misleads.
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
    """Return a rule's voting table by its code, or a shared table by name. Without a table, the result is empty."""
    return _tables().get(name, ())
