"""Embeds a report in a web page, and extracts it.

The report is in a `<script type="application/json">`, which browsers never run. No text can end that element, because
every `<` is a JSON escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.redact import visible_json
from flowdiag.analyses.contract.report import Note, Report
from flowdiag.analyses.model.fmt import thousands

ID: Final = "flowdiag-report"
_OPEN: Final = f'<script type="application/json" id="{ID}">'.encode()
_CLOSE: Final = b"</script>"
_MARKUP: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_ROWS: Final = (2_000, 500, 200, 50, 10)
_EVIDENCE: Final = 3
_SAMPLES: Final = 3
_FINDINGS: Final = (400, 100, 30)

Document = dict[str, Any]


def report_script(report: Report) -> str:
    """Return the report as a script element with a trailing line feed."""
    document = msgspec.json.format(encode(report), indent=-1).decode()
    escaped = re.sub("[<>&]", lambda hit: _MARKUP[hit.group()], visible_json(document))
    return f"{_OPEN.decode()}{escaped}{_CLOSE.decode()}\n"


def is_page(document: bytes) -> bool:
    """Return whether the document starts like an HTML page."""
    return document[:100].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def extract_report(page: bytes) -> bytes | None:
    """Return the JSON of the report in a page, or None if it contains none."""
    begin = page.rfind(_OPEN)
    end = page.find(_CLOSE, begin)
    return None if begin < 0 or end < 0 else page[begin + len(_OPEN) : end]


def fit_report(report: Report, most: int) -> tuple[Report, list[str]]:
    """Return the report cut to `most` bytes of JSON, and a list of what was cut.

    Tables are cut first, then evidence, then findings. Each list has the worst entries first, and a warning in the
    report names every cut.
    """
    if len(encode(report)) <= most:
        return report, []
    document: Document = msgspec.to_builtins(report)
    cuts: dict[str, str] = {}
    steps: list[Callable[[], None]] = [
        *(lambda rows=rows: _cut_tables(document, rows, cuts) for rows in _ROWS[:3]),
        lambda: _cut_evidence(document, cuts),
        *(lambda rows=rows: _cut_tables(document, rows, cuts) for rows in _ROWS[3:]),
        *(lambda count=count: _cut_findings(document, count, cuts) for count in _FINDINGS),
    ]
    for step in steps:
        step()
        if len(msgspec.json.encode(document)) <= most:
            break
    left_out = list(cuts.values())
    note = Note(
        text=f"shortened to fit the page: {'; '.join(left_out)}",
        hint="--format json writes the whole report",
    )
    cut = msgspec.convert(document, type=Report)
    return msgspec.structs.replace(cut, warnings=[*cut.warnings, note]), left_out


def _cut_tables(document: Document, rows: int, cuts: dict[str, str]) -> None:
    """Cut each list in `data` and `inputs` to `rows` entries."""

    def cut(node: Any, name: str) -> Any:
        if isinstance(node, Mapping):
            shorter = {
                key: cut(value, f"{name}.{key}" if name else key) for key, value in node.items()
            }
            was_cut = any(isinstance(value, list) and len(value) > rows for value in node.values())
            return {**shorter, "truncated": True} if was_cut and "truncated" in node else shorter
        if isinstance(node, list):
            if len(node) > rows:
                cuts[name] = f"{name} after {thousands(rows)}"
            return [cut(item, name) for item in node[:rows]]
        return node

    document["data"] = cut(document["data"], "")
    document["inputs"] = cut(document["inputs"], "inputs")


def _cut_evidence(document: Document, cuts: dict[str, str]) -> None:
    for finding in document["findings"]:
        finding["evidence"] = finding["evidence"][:_EVIDENCE]
    for item in document["inputs"]:
        item["samples"] = item["samples"][:_SAMPLES]
    cuts["evidence"] = f"evidence beyond the first {_EVIDENCE} places of each finding"


def _cut_findings(document: Document, count: int, cuts: dict[str, str]) -> None:
    """Cut the list of findings, and remove references to the dropped findings from the stories."""
    if len(document["findings"]) <= count:
        return
    cuts["findings"] = f"findings after {count}"
    document["findings"] = document["findings"][:count]
    kept = {finding["fingerprint"] for finding in document["findings"]}
    summary = document["summary"]
    summary["culprits"] = summary["culprits"][:count]
    summary["stories"] = [
        {
            **story,
            "findings": [each for each in story["findings"] if each in kept],
            "because": [
                link
                for link in story["because"]
                if link["fingerprint"] in kept and link["of"] in kept
            ],
            "competing": [each for each in story["competing"] if each in kept],
        }
        for story in summary["stories"]
        if story["findings"][0] in kept
    ]
