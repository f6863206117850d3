"""Renders a comparison as JSON: `flowdiag.comparison/1`, see docs/comparison.schema.json."""

from __future__ import annotations

from flowdiag.analyses.comparison.wire import Comparison, encode
from flowdiag.cli.text.page import Page


def render(comparison: Comparison, page: Page) -> str:
    return encode(comparison).decode()
