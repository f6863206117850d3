"""The renderers, listed by hand: one for each `Format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from flowdiag.cli.options.settings import Format
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.render.page import Page

Renderer = Callable[["Report", "Page"], str]


def _of(module: str) -> Renderer:
    """The `render` of a module here, which is imported when it is called: a run needs one of them."""

    def render(report: Report, page: Page) -> str:
        found: Renderer = import_module(f"{__name__}.{module}").render
        return found(report, page)

    return render


RENDERERS: Final[Mapping[Format, Renderer]] = {
    Format.TABLE: _of("table"),
    Format.JSON: _of("json"),
    Format.HTML: _of("html"),
    Format.MARKDOWN: _of("markdown"),
    Format.JUNIT: _of("junit"),
    Format.GITHUB: _of("github"),
    Format.BRIEF: _of("brief"),
}

_EXTRAS: Final[Mapping[Format, tuple[str, tuple[str, ...]]]] = {
    Format.HTML: ("html", ("jinja2", "vl_convert")),
}
"""What a format needs beside flowdiag: the extra, and the modules that it brings."""


def check_format(format: Format) -> None:
    """Find out before the work whether its report can be written in a format.

    Raises:
        FlowdiagError: a library is not installed.
    """
    extra, modules = _EXTRAS.get(format, ("", ()))
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        from flowdiag.parsers.extras import pip_install

        raise FlowdiagError(
            f"--format {format} needs {' and '.join(missing)}", hint=pip_install(extra)
        )
