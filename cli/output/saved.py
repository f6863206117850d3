"""Reads a saved report."""

from __future__ import annotations

import sys
from pathlib import Path

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.saved import report_in
from flowdiag.cli.render.html.embedded import extract_report, is_page
from flowdiag.parsers.errors import FlowdiagError, InputError


def read_report(path: str) -> Report:
    """Read a report from a JSON file, a web page, or (for `-`) standard input.

    Raises:
        FlowdiagError: the file does not exist, or is not a report that this version can read.
    """
    try:
        document = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    if is_page(document):
        taken = extract_report(document)
        if taken is None:
            raise FlowdiagError(
                f"'{path}' is not a flowdiag report: it is a web page without a report, or truncated",
                hint="make one with --output report.html or report.json",
            )
        document = taken
    return report_in(document, path)
