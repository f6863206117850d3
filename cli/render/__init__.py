"""The renderers, listed by hand: one for each `Format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flowdiag.analyses.report import Report
from flowdiag.cli.render import github, json, junit, markdown, table
from flowdiag.cli.render.page import Page
from flowdiag.cli.settings import Format

Renderer = Callable[[Report, Page], str]

RENDERERS: Final[Mapping[Format, Renderer]] = {
    Format.TABLE: table.render,
    Format.JSON: json.render,
    Format.MARKDOWN: markdown.render,
    Format.JUNIT: junit.render,
    Format.GITHUB: github.render,
}
