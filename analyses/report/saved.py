"""Reading a saved report."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec

from flowdiag.analyses.model.fmt import shorten
from flowdiag.analyses.report.wire import SCHEMA, Report, decode, speakable
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
            # Somebody else may have written it: what is built here has no control characters, and no loose ends.
            report = decode(msgspec.json.encode(speakable(msgspec.json.decode(document))))
            _check_references(report)
            return report
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FlowdiagError(
            f"'{name}' is not a flowdiag report: {shorten(str(error), 200)}",
            hint="make one with --format json --output report.json",
        ) from None
    raise FlowdiagError(
        f"'{name}' is a '{schema}', and this version reads '{SCHEMA}'",
        hint="use the version of flowdiag that wrote it, or run the diagnosis again",
    )


def _check_references(report: Report) -> None:
    """Whether each story tells of findings that the report holds.

    Raises:
        msgspec.ValidationError: one does not.
    """
    known = {finding.fingerprint for finding in report.findings}
    for story in report.summary.stories:
        named = {*story.findings, *(one.fingerprint for one in story.because)}
        if not story.findings or not named <= known:
            raise msgspec.ValidationError("a story tells of a finding that is not there")
