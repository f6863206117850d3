"""The names of topics and engines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

ENGINES: Final = {
    "checkpoints": "flink",
    "rate": "spark",
    "queues": "flink",
    "memory": "flink",
    "startup": "flink",
}
"""The engine of each topic, in the order of the documentation. Each topic is a package with `topic.py` and `rules/`."""


PODS: Final = "pods"
"""Represents inputs about pods in a set of engines. The topic `memory` reads them even if the engine is Spark."""
EVERYTHING: Final = "diagnose"
"""The command that runs every topic for which there are inputs."""


def names_of(command: str, engines: Collection[str]) -> tuple[str, ...]:
    """Return the topics of a command: its own topic, or for `diagnose` all topics of these engines."""
    if command != EVERYTHING:
        return (command,)
    return tuple(
        name
        for name, engine in ENGINES.items()
        if engine in engines or (name == "memory" and PODS in engines)
    )
