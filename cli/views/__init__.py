"""The views of a report's data in a terminal, by topic, in the order in which they are shown.

Each is a module here, imported only for a report that has its data: `blocks` says what is shown
above the findings, `outlook`, where there is one, what stands below them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.render.page import Page
    from flowdiag.cli.text.words import Clock

    Blocks = Callable[[Report, Page, Clock], list[RenderableType]]

# A topic, and what of the report's data its view shows.
TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "checkpoints": ("jobs",),
    "memory": ("processes", "buffers"),
    "startup": ("attempts", "cluster", "workers", "scheduling"),
    "queues": ("vertices", "taskmanagers", "what_if"),
    "rate": ("applications",),
}


def blocks(report: Report, page: Page, clock: Clock) -> Iterator[RenderableType]:
    """What the report's data look like, topic by topic."""
    return _asked("blocks", report, page, clock)


def outlook(report: Report, page: Page, clock: Clock) -> Iterator[RenderableType]:
    """What would change, topic by topic; read after the findings."""
    return _asked("outlook", report, page, clock)


def _told(text: str) -> RenderableType:
    from flowdiag.cli.text.grid import line

    return line(text, "red")


def _asked(what: str, report: Report, page: Page, clock: Clock) -> Iterator[RenderableType]:
    for topic, keys in TOPICS.items():
        if any(getattr(report.data, key) for key in keys):
            view: Blocks | None = getattr(import_module(f"{__name__}.{topic}"), what, None)
            if view is not None:
                yield from page.section(topic, partial(view, report, page, clock), _told)
