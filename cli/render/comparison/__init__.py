"""The renderers of comparisons by output format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from flowdiag.cli.settings import Format

if TYPE_CHECKING:
    from flowdiag.analyses.comparison.wire import Comparison
    from flowdiag.cli.text.page import Page

Renderer = Callable[["Comparison", "Page"], str]


def _lazy(module: str) -> Renderer:
    """Return a renderer that imports its module on the first call."""

    def render(comparison: Comparison, page: Page) -> str:
        found: Renderer = import_module(f"{__name__}.{module}").render
        return found(comparison, page)

    return render


RENDERERS: Final[Mapping[Format, Renderer]] = {
    Format.TABLE: _lazy("table"),
    Format.JSON: _lazy("json"),
    Format.MARKDOWN: _lazy("markdown"),
    Format.JUNIT: _lazy("junit"),
    Format.GITHUB: _lazy("github"),
}
