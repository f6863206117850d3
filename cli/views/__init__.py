"""Terminal views of a report's data, one module per topic, in the order of the report.

A module is imported only for a report with data of its topic. The terminal shows `blocks` above the findings, and `outlook`, if the module has one, below them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

    from flowdiag.analyses.contract.report import Report
    from flowdiag.cli.text.page import Page
    from flowdiag.cli.text.words import Clock

    Blocks = Callable[[Report, Page, Clock], list[RenderableType]]

# The fields of `Report.data` by the topic that shows them.
TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "checkpoints": ("jobs",),
    "memory": ("processes", "buffers"),
    "startup": ("attempts", "cluster", "workers", "scheduling"),
    "queues": ("vertices", "taskmanagers", "what_if"),
    "rate": ("applications",),
}


def topics_with_data(report: Report) -> list[str]:
    """Return the topics that have data in a report, in order."""
    return [t for t, keys in TOPICS.items() if any(getattr(report.data, key) for key in keys)]


def blocks(
    report: Report,
    page: Page,
    clock: Clock,
    *,
    topics: Sequence[str] | None = None,
    function: str = "blocks",
) -> Iterator[RenderableType]:
    """Yield the blocks of these topics, by default of all. `function` names the function in each topic's module."""
    from flowdiag.cli.text.grid import line

    for topic in topics_with_data(report) if topics is None else topics:
        view: Blocks | None = getattr(import_module(f"{__name__}.{topic}"), function, None)
        if view is not None:
            make = partial(view, report, page, clock)
            yield from page.section(topic, make, lambda text: line(text, "red"))


def forecast_blocks(report: Report, page: Page, clock: Clock) -> Iterator[RenderableType]:
    """Yield the predicted effect of remedies."""
    return blocks(report, page, clock, function="outlook")
