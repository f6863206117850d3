"""Renders a report as JSON: `flowdiag.report/1`, see docs/report.schema.json."""

from __future__ import annotations

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.cli.text.page import Page


def render(report: Report, page: Page) -> str:
    return encode(report).decode()
