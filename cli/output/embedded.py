"""A report inside a web page: how it is put there, and how it is taken out again.

It stands in a `<script type="application/json">`, which browsers keep and never run. Nothing in it can end
that element, since every `<` of a text is written as an escape of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from flowdiag.analyses.model.fmt import thousands
from flowdiag.analyses.report.redact import visible_json
from flowdiag.analyses.report.wire import Note, Report, encode

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
    """The report as an element of a page, closed with a line feed."""
    document = msgspec.json.format(encode(report), indent=-1).decode()
    escaped = re.sub("[<>&]", lambda hit: _MARKUP[hit.group()], visible_json(document))
    return f"{_OPEN.decode()}{escaped}{_CLOSE.decode()}\n"


def is_page(document: bytes) -> bool:
    """Whether it begins as a web page does."""
    return document[:100].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def extract_report(page: bytes) -> bytes | None:
    """The JSON of the report in a page; None: it holds none."""
    begin = page.rfind(_OPEN)
    end = page.find(_CLOSE, begin)
    return None if begin < 0 or end < 0 else page[begin + len(_OPEN) : end]


def fit_report(report: Report, most: int) -> tuple[Report, list[str]]:
    """The report as far as it fits into so many bytes, and what was left out of it.

    Tables are cut first, then quotations, findings last; the sick stand first in each, and what is cut says so.

    Args:
        report: whole.
        most: bytes of its JSON.
    """
    if len(encode(report)) <= most:
        return report, []
    document: Document = msgspec.to_builtins(report)
    told: dict[str, str] = {}
    steps: list[Callable[[], None]] = [
        *(lambda rows=rows: _cut_tables(document, rows, told) for rows in _ROWS[:3]),
        lambda: _cut_quotations(document, told),
        *(lambda rows=rows: _cut_tables(document, rows, told) for rows in _ROWS[3:]),
        *(lambda count=count: _cut_findings(document, count, told) for count in _FINDINGS),
    ]
    for step in steps:
        step()
        if len(msgspec.json.encode(document)) <= most:
            break
    left_out = list(told.values())
    note = Note(
        text=f"cut to fit into a page: {'; '.join(left_out)}",
        hint="--format json writes the whole report",
    )
    cut = msgspec.convert(document, type=Report)
    return msgspec.structs.replace(cut, warnings=[*cut.warnings, note]), left_out


def _cut_tables(document: Document, rows: int, told: dict[str, str]) -> None:
    """Cut every list of `data` and of the inputs."""

    def cut(node: Any, name: str) -> Any:
        if isinstance(node, Mapping):
            shorter = {
                key: cut(value, f"{name}.{key}" if name else key) for key, value in node.items()
            }
            was_cut = any(isinstance(value, list) and len(value) > rows for value in node.values())
            return {**shorter, "truncated": True} if was_cut and "truncated" in node else shorter
        if isinstance(node, list):
            if len(node) > rows:
                told[name] = f"{name} after {thousands(rows)}"
            return [cut(item, name) for item in node[:rows]]
        return node

    document["data"] = cut(document["data"], "")
    document["inputs"] = cut(document["inputs"], "inputs")


def _cut_quotations(document: Document, told: dict[str, str]) -> None:
    for finding in document["findings"]:
        finding["evidence"] = finding["evidence"][:_EVIDENCE]
    for item in document["inputs"]:
        item["samples"] = item["samples"][:_SAMPLES]
    told["evidence"] = f"evidence after {_EVIDENCE} places of each finding"


def _cut_findings(document: Document, count: int, told: dict[str, str]) -> None:
    """Cut the findings, and of the stories what speaks of those."""
    if len(document["findings"]) <= count:
        return
    told["findings"] = f"findings after {count}"
    document["findings"] = document["findings"][:count]
    kept = {finding["fingerprint"] for finding in document["findings"]}
    summary = document["summary"]
    summary["culprits"] = summary["culprits"][:count]
    summary["stories"] = [
        {
            **story,
            "findings": [each for each in story["findings"] if each in kept],
            "because": [
                one for one in story["because"] if one["fingerprint"] in kept and one["of"] in kept
            ],
            "competing": [each for each in story["competing"] if each in kept],
        }
        for story in summary["stories"]
        if story["findings"][0] in kept
    ]
