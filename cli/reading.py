"""Reading a saved report."""

from __future__ import annotations

import sys
from pathlib import Path

from flowdiag.analyses.report.saved import report_in
from flowdiag.analyses.report.wire import Report
from flowdiag.parsers.errors import InputError


def read_report(path: str) -> Report:
    """Read a report from a file, or from standard input for `-`.

    Raises:
        FlowdiagError: there is no such file, or it is not a report that this version knows.
    """
    try:
        document = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    return report_in(document, path)
