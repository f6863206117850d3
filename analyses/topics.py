"""The topics there are: one line each. Importing it imports none of them."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowdiag.analyses.diagnosis import Topic
    from flowdiag.analyses.rule import Rule

ENGINES: Final = {
    "checkpoints": "flink",
    "rate": "spark",
    "queues": "flink",
    "memory": "flink",
    "startup": "flink",
}
"""Whose inputs each reads, in the order of documents; each has a package with `topic.py` and `rules/`."""


EVERYTHING: Final = "diagnose"
"""The command over every topic that its inputs can feed."""


def topic(name: str) -> Topic:
    """The topic of that name.

    Raises:
        ModuleNotFoundError: there is none.
    """
    found: Topic = getattr(import_module(f"flowdiag.analyses.{name}.topic"), name.upper())
    return found


def names_of(command: str, engines: Collection[str]) -> tuple[str, ...]:
    """The topics of a command: its own, or for `diagnose` all that inputs of these engines can feed."""
    if command != EVERYTHING:
        return (command,)
    return tuple(name for name, engine in ENGINES.items() if engine in engines)


def rules_of(name: str) -> tuple[Rule, ...]:
    """The rules of a topic, in the order of its reports; imports nothing that measures."""
    found: tuple[Rule, ...] = import_module(f"flowdiag.analyses.{name}.rules").RULES
    return found


def all_rules() -> tuple[Rule, ...]:
    """The rules of all topics."""
    return tuple(rule for name in ENGINES for rule in rules_of(name))
