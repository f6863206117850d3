"""The section about inputs: what flowdiag read, and what it could not read."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.contract.report import Input
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Column

_SHOWN: Final = 200


def section(context: Context) -> Section | None:
    """Return the inputs, or None for a report of calculated sizes only."""
    report = context.report
    if not report.inputs and not report.warnings and not report.errors:
        return None
    unread = [item for item in report.inputs if item.kind == "not-read" or item.error]
    count = fmt.plural(len(report.inputs), "input")
    count += f", {len(unread)} not read or incomplete" if unread else ""
    # Unread inputs come first: they are the reason to read this section.
    ranked = unread + [
        item for item in report.inputs if not (item.kind == "not-read" or item.error)
    ]
    show = context.clock.show
    columns = (
        Column("input", lambda item: context.paths.show(item.source), "left"),
        Column("kind", _kind, "left"),
        Column("version", lambda item: item.version, "left"),
        Column("size", lambda item: fmt.size(item.bytes)),
        Column("records", lambda item: fmt.thousands(item.recognised)),
        Column("first", lambda item: show(item.first), "left"),
        Column("last", lambda item: show(item.last), "left"),
        Column("remark", _remarks, "left"),
    )
    return Section(
        title="Inputs",
        count=count,
        shown={
            "folder": context.paths.folder,
            "span": words.time_span(report, context.clock),
            "inputs": table(columns, ranked, _SHOWN) if report.inputs else None,
            "notes": [
                (kind, note.source, note.message, note.hint)
                for kind, notes in (("error", report.errors), ("warning", report.warnings))
                for note in notes
            ],
        },
    )


def _kind(item: Input) -> str:
    return f"{item.kind}, {item.role}" if item.role not in ("", "unknown") else item.kind


def _remarks(item: Input) -> str:
    remarks = [item.error or item.reason or ""]
    if item.not_understood:
        remarks.append(f"{fmt.thousands(item.not_understood)} lines not recognized")
    if item.zone:
        remarks.append(item.zone)
    if item.clock_offset_ms:
        remarks.append(f"clock differs by {fmt.duration(item.clock_offset_ms)}")
    return "; ".join(filter(None, remarks))
