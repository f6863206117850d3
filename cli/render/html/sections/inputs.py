"""What was read, and what was not."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import Input
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words

_SHOWN: Final = 200


def section(context: Context) -> Section | None:
    """The inputs; None where there was none, as for sizes that were calculated."""
    report = context.report
    if not report.inputs and not report.warnings and not report.errors:
        return None
    unread = [one for one in report.inputs if one.kind == "not-read" or one.error]
    count = fmt.plural(len(report.inputs), "input")
    count += f", {len(unread)} not read or cut short" if unread else ""
    # What was not read comes first: whoever looks here looks for it.
    ranked = unread + [one for one in report.inputs if not (one.kind == "not-read" or one.error)]
    rows = (
        (
            context.paths.show(one.source),
            f"{one.kind}, {one.role}" if one.role not in ("", "unknown") else one.kind,
            one.version or "-",
            fmt.size(one.bytes),
            fmt.thousands(one.recognised),
            context.clock.show(one.first),
            context.clock.show(one.last),
            _remark(one),
        )
        for one in ranked
    )
    heads = ("input", "kind", "version", ">size", ">records", "first", "last", "remark")
    return Section(
        title="Inputs",
        count=count,
        shown={
            "folder": context.paths.folder,
            "span": words.time_span(report, context.clock),
            "inputs": table(heads, rows, _SHOWN) if report.inputs else None,
            "notes": [
                *(("error", one.source, one.message, one.hint) for one in report.errors),
                *(("warning", one.source, one.message, one.hint) for one in report.warnings),
            ],
        },
    )


def _remark(one: Input) -> str:
    remarks = [one.error or one.reason or ""]
    if one.not_understood:
        remarks.append(f"{fmt.thousands(one.not_understood)} lines not understood")
    if one.zone:
        remarks.append(one.zone)
    if one.clock_offset_ms:
        remarks.append(f"clock off by {fmt.duration(one.clock_offset_ms)}")
    return "; ".join(filter(None, remarks))
