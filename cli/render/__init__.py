"""The renderers of reports by output format.

Start with `RENDERERS`, the module of each format. A renderer has a function `render(report, page)` and imports
only the types of the report, `flowdiag.cli.views` and `flowdiag.cli.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from flowdiag.cli.settings import Format
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report
    from flowdiag.cli.text.page import Page

Renderer = Callable[["Report", "Page"], str]


def _lazy(module: str) -> Renderer:
    """Return a renderer that imports its module on the first call, because a run needs only one."""

    def render(report: Report, page: Page) -> str:
        found: Renderer = import_module(f"{__name__}.{module}").render
        return found(report, page)

    return render


RENDERERS: Final[Mapping[Format, Renderer]] = {
    Format.TABLE: _lazy("table"),
    Format.JSON: _lazy("json"),
    Format.HTML: _lazy("html"),
    Format.MARKDOWN: _lazy("markdown"),
    Format.JUNIT: _lazy("junit"),
    Format.GITHUB: _lazy("github"),
    Format.BRIEF: _lazy("brief"),
}

_EXTRAS: Final[Mapping[Format, tuple[str, tuple[str, ...]]]] = {
    Format.HTML: ("html", ("jinja2", "vl_convert")),
}
"""The optional dependencies of a format: the extra, and the modules that it installs."""


def check_format(format: Format) -> None:
    """Check before the diagnosis that the libraries of a format are installed.

    Raises:
        FlowdiagError: a library is missing.
    """
    extra, modules = _EXTRAS.get(format, ("", ()))
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        from flowdiag.parsers.extras import pip_install

        raise FlowdiagError(
            f"--format {format} needs {' and '.join(missing)}", hint=pip_install(extra)
        )
