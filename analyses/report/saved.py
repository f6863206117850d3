"""Reads saved reports."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec

from flowdiag.analyses.contract.encoding import escape_invisible
from flowdiag.analyses.contract.report import SCHEMA, Report
from flowdiag.analyses.model.fmt import shorten
from flowdiag.analyses.report.transform import decode
from flowdiag.parsers.errors import FlowdiagError

_SPACE: Final = (b" ", b"\t", b"\r", b"\n")


class _Head(msgspec.Struct):
    schema: str


def report_in(document: bytes, name: str) -> Report:
    """Decode a saved report.

    Args:
        document: the content of the file.
        name: the name of the file, for messages.

    Raises:
        FlowdiagError: if it is not a report that this version can read.
    """
    try:
        document = document.removeprefix(codecs.BOM_UTF8)
        if document[:1] not in (b"{", *_SPACE):  # a log may be large, and is not a report
            raise msgspec.DecodeError("it is not a JSON document")
        schema = msgspec.json.decode(document, type=_Head).schema
        if schema == SCHEMA:
            # Another program may have written it, so remove control characters and check references.
            report = decode(msgspec.json.encode(escape_invisible(msgspec.json.decode(document))))
            known = {finding.fingerprint for finding in report.findings}
            for story in report.summary.stories:
                named = {*story.findings, *(each.fingerprint for each in story.because)}
                if not story.findings or not named <= known:
                    raise msgspec.ValidationError(
                        "an incident refers to a finding that the report does not contain"
                    )
            return report
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FlowdiagError(
            f"'{name}' is not a flowdiag report: {shorten(str(error), 200)}",
            hint="create one with --format json --output report.json",
        ) from None
    raise FlowdiagError(
        f"'{name}' has the schema '{schema}', but this version reads '{SCHEMA}'",
        hint="use the version of flowdiag that wrote it, or run the diagnosis again",
    )
