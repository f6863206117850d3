"""Reading a saved report."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from flowdiag.analyses.report.wire import SCHEMA, Report, decode
from flowdiag.parsers.errors import FlowdiagError, InputError


class _Head(msgspec.Struct):
    schema: str


def read_report(path: str) -> Report:
    """Read a report from a file, or from standard input for `-`.

    Raises:
        FlowdiagError: there is no such file, or it is not a report that this version knows.
    """
    try:
        document = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    try:
        schema = msgspec.json.decode(document, type=_Head).schema
        if schema == SCHEMA:
            return decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FlowdiagError(
            f"'{path}' is not a flowdiag report: {error}",
            hint="make one with flowdiag checkpoints … --format json --output report.json",
        ) from None
    raise FlowdiagError(
        f"'{path}' is a '{schema}', and this version reads '{SCHEMA}'",
        hint="use the version of flowdiag that wrote it, or run the diagnosis again",
    )
