"""Reading a saved report."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec

from flowdiag.analyses.report.wire import SCHEMA, Report, decode
from flowdiag.analyses.say import shorten
from flowdiag.parsers.errors import FlowdiagError

_SPACE: Final = (b" ", b"\t", b"\r", b"\n")


class _Head(msgspec.Struct):
    schema: str


def report_in(document: bytes, name: str) -> Report:
    """The report that a document holds.

    Args:
        document: what was saved.
        name: of the file, for messages.

    Raises:
        FlowdiagError: it is not a report that this version knows.
    """
    try:
        document = document.removeprefix(codecs.BOM_UTF8)
        if document[:1] not in (b"{", *_SPACE):  # a log may be large, and is none
            raise msgspec.DecodeError("it is no JSON document")
        schema = msgspec.json.decode(document, type=_Head).schema
        if schema == SCHEMA:
            return decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FlowdiagError(
            f"'{name}' is not a flowdiag report: {shorten(str(error), 200)}",
            hint="make one with --format json --output report.json",
        ) from None
    raise FlowdiagError(
        f"'{name}' is a '{schema}', and this version reads '{SCHEMA}'",
        hint="use the version of flowdiag that wrote it, or run the diagnosis again",
    )
