"""Decodes, filters, masks and redacts whole reports, and provides their JSON Schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from flowdiag.analyses.contract.report import Report, Story
from flowdiag.analyses.model.finding import Measurement, Severity
from flowdiag.analyses.report.pseudonyms import pseudonymize
from flowdiag.parsers.secrets import mask_credentials


def decode(document: bytes) -> Report:
    """Decode a document. Unknown keys are ignored.

    Raises:
        msgspec.MsgspecError: it is not a report.
    """
    return msgspec.json.decode(document, type=Report)


def without_less_severe(report: Report, severity: Severity) -> Report:
    """Remove and count the findings below a severity, and remove the stories that start with one of them."""
    below = [found.severity for found in report.findings if found.severity.weight < severity.weight]
    if not below:
        return report
    counts = Counter(report.summary.below_min_severity) + Counter(below)
    shown = [found for found in report.findings if found.severity.weight >= severity.weight]
    return msgspec.structs.replace(
        report,
        summary=msgspec.structs.replace(
            report.summary,
            below_min_severity={each: counts[each] for each in Severity if counts[each]},
            stories=_stories_with(report.summary.stories, {found.fingerprint for found in shown}),
        ),
        findings=shown,
    )


def _stories_with(stories: list[Story], shown: set[str]) -> list[Story]:
    return [
        msgspec.structs.replace(
            story,
            findings=[each for each in story.findings if each in shown],
            because=[each for each in story.because if {each.fingerprint, each.of} <= shown],
            competing=[each for each in story.competing if each in shown],
        )
        for story in stories
        if story.findings[0] in shown
    ]


_AT_ONCE: Final = 50_000
"""Characters to search for secrets at once. Searching megabytes in one piece takes too long."""


def without_credentials(report: Report) -> Report:
    """Mask anything that looks like a secret in names of jobs, files and queries.

    Log text was masked more thoroughly when it was quoted.
    """
    document = msgspec.to_builtins(report, enc_hook=str.__str__)
    masked = {
        text: mask_credentials(text)
        for piece in _pieces(dict.fromkeys(_texts(document)))
        # Searching a joined text is a hundred times faster than searching each text.
        if (whole := "\n".join(piece)) != mask_credentials(whole)
        for text in piece
    }
    if all(text == instead for text, instead in masked.items()):
        return report
    return msgspec.convert(_replace_texts(document, masked), type=Report)


def _texts(node: Any) -> Iterator[str]:
    """Yield all texts in a document except field names."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for item in node.values() if isinstance(node, dict) else node:
            yield from _texts(item)


def _pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    """Group texts, so that each group is searched at once."""
    piece: list[str] = []
    size = 0
    for text in texts:
        if piece and size + len(text) > _AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += len(text)
    if piece:
        yield piece


def _replace_texts(node: Any, masked: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _replace_texts(value, masked) for key, value in node.items()}
    if isinstance(node, list):
        return [_replace_texts(item, masked) for item in node]
    return masked.get(node, node) if isinstance(node, str) else node


def redacted(report: Report) -> Report:
    """Replace hosts, users, jobs, tasks and paths with pseudonyms."""
    document = msgspec.to_builtins(report, enc_hook=str.__str__)  # `Name` is a subclass of str
    return msgspec.convert(pseudonymize(document), type=Report)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document, generated from its types."""
    schema = msgspec.json.schema(Report)
    # Rules may leave these fields out, but documents always contain them.
    schema["$defs"]["Measurement"]["required"] = list(Measurement.__struct_fields__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """Return the schema as indented JSON, for docs/report.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
