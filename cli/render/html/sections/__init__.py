"""The sections of the page in their order, listed by hand: each makes of a report what its template shows."""

from __future__ import annotations

from collections.abc import Callable
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

SECTIONS: Final[tuple[Callable[[Context], Section | None], ...]] = (
    stories.section,
    checkpoints.section,
    queues.section,
    rate.section,
    startup.section,
    memory.section,
    findings.section,
    rules.section,
    inputs.section,
)
