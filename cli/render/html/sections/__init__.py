"""The sections of the page in order. Each converts a report to the variables of its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.sections import (
    checkpoints,
    findings,
    inputs,
    memory,
    queues,
    rate,
    rules,
    startup,
    stories,
)

SECTIONS: Final[Mapping[str, Callable[[Context], Section | None]]] = {
    "stories": stories.section,
    "jobs": checkpoints.section,
    "queues": queues.section,
    "applications": rate.section,
    "startup": startup.section,
    "memory": memory.section,
    "findings": findings.section,
    "rules": rules.section,
    "inputs": inputs.section,
}
"""By HTML id, which is also the name of the template."""
