"""Reading a saved report."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import Final

import msgspec

from flowdiag.analyses.report.wire import SCHEMA, Report, decode
from flowdiag.analyses.say import shorten
from flowdiag.cli.embedded import is_page, taken_out
from flowdiag.parsers.errors import FlowdiagError, InputError

_SPACE: Final = (b" ", b"\t", b"\r", b"\n")


def _of_page(page: bytes) -> bytes:
    document = taken_out(page)
    if document is None:
        raise msgspec.DecodeError("it is a web page without a report, or cut off")
    return document


class _Head(msgspec.Struct):
    schema: str


def read_report(path: str) -> Report:
    """Read a report from a file or a web page that holds one, or from standard input for `-`.

    Raises:
        FlowdiagError: there is no such file, or it is not a report that this version knows.
    """
    try:
        document = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    try:
        document = document.removeprefix(codecs.BOM_UTF8)
        if is_page(document):
            document = _of_page(document)
        if document[:1] not in (b"{", *_SPACE):  # a log may be large, and is none
            raise msgspec.DecodeError("it is no JSON document")
        schema = msgspec.json.decode(document, type=_Head).schema
        if schema == SCHEMA:
            return decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FlowdiagError(
            f"'{path}' is not a flowdiag report: {shorten(str(error), 200)}",
            hint="make one with --format json --output report.json",
        ) from None
    raise FlowdiagError(
        f"'{path}' is a '{schema}', and this version reads '{SCHEMA}'",
        hint="use the version of flowdiag that wrote it, or run the diagnosis again",
    )
