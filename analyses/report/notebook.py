"""A report in a notebook: verdict, culprits and findings on one screen, escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Severity, Verdict

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Finding, Report

MOST: Final = 10
"""The number of culprits and findings that are shown."""

# On light and on dark pages alike.
_COLOURS: Final = {
    Verdict.FAILING: "#c62828",
    Verdict.DEGRADED: "#b26a00",
    Verdict.HEALTHY: "#2e7d32",
}
_SEVERITIES: Final = {Severity.CRITICAL: "#c62828", Severity.WARNING: "#b26a00"}
_OTHER: Final = "#6b7280"


def html_of(report: Report) -> str:
    """Return the summary as HTML without scripts, style sheets or other resources."""
    return "\n".join(_html(report))


def _html(report: Report) -> Iterator[str]:
    summary = report.summary
    colour = _COLOURS.get(summary.verdict, _OTHER)
    yield f'<div style="border-left:4px solid {colour};padding-left:.8em;max-width:60em">'
    cause = f" · {escape(summary.cause)}" if summary.cause else ""
    yield f'<p><strong style="color:{colour}">{escape(summary.verdict)}</strong>{cause}'
    yield f" <small>{escape(_inputs(report))}</small></p>"
    if summary.reason:
        yield f"<p>{escape(summary.reason)}</p>"
    if summary.culprits:
        yield "<ol>"
        for culprit in summary.culprits[:MOST]:
            yield f"<li>{escape(culprit.why)} <small>{escape(culprit.code)},"
            yield f"{escape(culprit.confidence)} confidence, {escape(culprit.state)}</small></li>"
        yield "</ol>"
    if summary.first_action is not None:
        yield f"<p>First: {escape(summary.first_action.action.text)}</p>"
    if report.findings:
        yield from _table(report.findings)
    problems = [*(e.what for e in report.errors), *(note.message for note in report.warnings)]
    for text in problems[:MOST]:
        yield f"<p><small>{escape(text)}</small></p>"
    yield "</div>"


def _table(findings: list[Finding]) -> Iterator[str]:
    yield "<table><thead><tr><th>severity</th><th>code</th><th>finding</th><th>state</th>"
    yield "</tr></thead><tbody>"
    for found in findings[:MOST]:
        colour = _SEVERITIES.get(found.severity, _OTHER)
        yield f'<tr><td style="color:{colour}">{escape(found.severity)}</td>'
        yield f'<td>{escape(found.code)}</td><td style="text-align:left">{escape(found.title)}</td>'
        yield f"<td>{escape(found.state)}</td></tr>"
    yield "</tbody></table>"
    if len(findings) > MOST:
        yield f"<p><small>and {len(findings) - MOST} more in <code>.findings</code></small></p>"


def text_of(report: Report) -> str:
    """Return the summary as plain text."""
    summary = report.summary
    lines = [f"{summary.verdict}: {summary.cause or summary.reason or _inputs(report)}"]
    lines += [
        f"{number}. {culprit.why} ({culprit.code}, {culprit.confidence} confidence)"
        for number, culprit in enumerate(summary.culprits[:MOST], 1)
    ]
    lines += [
        f"{found.severity:<8}  {found.code}  {found.title}" for found in report.findings[:MOST]
    ]
    if len(report.findings) > MOST:
        lines.append(f"and {len(report.findings) - MOST} more findings")
    return "\n".join(lines)


def _inputs(report: Report) -> str:
    read = sum(item.kind != "not-read" for item in report.inputs)
    return f"{fmt.plural(read, 'input')}, {fmt.plural(len(report.findings), 'finding')}"
