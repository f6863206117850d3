"""The renderers of comparisons, listed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from flowdiag.cli.options.settings import Format

if TYPE_CHECKING:
    from flowdiag.analyses.comparison.wire import Comparison
    from flowdiag.cli.render.page import Page

Renderer = Callable[["Comparison", "Page"], str]


def _of(module: str) -> Renderer:
    """The `render` of a module here, which is imported when it is called."""

    def render(comparison: Comparison, page: Page) -> str:
        found: Renderer = import_module(f"{__name__}.{module}").render
        return found(comparison, page)

    return render


RENDERERS: Final[Mapping[Format, Renderer]] = {
    Format.TABLE: _of("table"),
    Format.JSON: _of("json"),
    Format.MARKDOWN: _of("markdown"),
    Format.JUNIT: _of("junit"),
    Format.GITHUB: _of("github"),
}
