"""Renders a report in a notebook: verdict, culprits and findings on one screen, with escaped texts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Severity, Verdict

MOST: Final = 10
"""Maximum number of culprits, and of findings."""

# Colors that are readable on light and on dark pages.
_COLORS: Final = {
    Verdict.FAILING: "#c62828",
    Verdict.DEGRADED: "#b26a00",
    Verdict.HEALTHY: "#2e7d32",
}
_SEVERITIES: Final = {Severity.CRITICAL: "#c62828", Severity.WARNING: "#b26a00"}
_OTHER: Final = "#6b7280"


class Line(NamedTuple):
    """A finding in one line."""

    severity: Severity
    code: str
    title: str
    state: str


class Overview(NamedTuple):
    """The parts of a report that a notebook displays.

    Args:
        culprits: reason, code, confidence and state of each culprit.
        first_action: the text of the first action.
        problems: the messages of errors and warnings.
        inputs: number of inputs that were read.
    """

    verdict: Verdict
    cause: str | None
    reason: str | None
    culprits: list[tuple[str, str, str, str]]
    first_action: str | None
    findings: list[Line]
    problems: list[str]
    inputs: int

    @property
    def counts(self) -> str:
        return f"{fmt.plural(self.inputs, 'input')}, {fmt.plural(len(self.findings), 'finding')}"


def html_of(shown: Overview) -> str:
    """Return the summary as HTML without scripts, style sheets or other resources."""
    return "\n".join(_html(shown))


def _html(shown: Overview) -> Iterator[str]:
    color = _COLORS.get(shown.verdict, _OTHER)
    yield f'<div style="border-left:4px solid {color};padding-left:.8em;max-width:60em">'
    cause = f" · {escape(shown.cause)}" if shown.cause else ""
    yield f'<p><strong style="color:{color}">{escape(shown.verdict)}</strong>{cause}'
    yield f" <small>{escape(shown.counts)}</small></p>"
    if shown.reason:
        yield f"<p>{escape(shown.reason)}</p>"
    if shown.culprits:
        yield "<ol>"
        for why, code, confidence, state in shown.culprits[:MOST]:
            yield f"<li>{escape(why)} <small>{escape(code)},"
            yield f"{escape(confidence)} confidence, {escape(state)}</small></li>"
        yield "</ol>"
    if shown.first_action is not None:
        yield f"<p>First: {escape(shown.first_action)}</p>"
    if shown.findings:
        yield from _table(shown.findings)
    for text in shown.problems[:MOST]:
        yield f"<p><small>{escape(text)}</small></p>"
    yield "</div>"


def _table(findings: list[Line]) -> Iterator[str]:
    yield "<table><thead><tr><th>severity</th><th>code</th><th>finding</th><th>state</th>"
    yield "</tr></thead><tbody>"
    for found in findings[:MOST]:
        color = _SEVERITIES.get(found.severity, _OTHER)
        yield f'<tr><td style="color:{color}">{escape(found.severity)}</td>'
        yield f'<td>{escape(found.code)}</td><td style="text-align:left">{escape(found.title)}</td>'
        yield f"<td>{escape(found.state)}</td></tr>"
    yield "</tbody></table>"
    if len(findings) > MOST:
        yield f"<p><small>and {len(findings) - MOST} more in <code>.findings</code></small></p>"


def text_of(shown: Overview) -> str:
    """Return the summary as plain text."""
    lines = [f"{shown.verdict}: {shown.cause or shown.reason or shown.counts}"]
    lines += [
        f"{number}. {why} ({code}, {confidence} confidence)"
        for number, (why, code, confidence, _) in enumerate(shown.culprits[:MOST], 1)
    ]
    lines += [
        f"{found.severity:<8}  {found.code}  {found.title}" for found in shown.findings[:MOST]
    ]
    if len(shown.findings) > MOST:
        lines.append(f"and {len(shown.findings) - MOST} more findings")
    return "\n".join(lines)
