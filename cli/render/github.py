"""Renders a report as GitHub workflow commands: the verdict, then an annotation for each finding.

GitHub shows ten annotations per level and step. The verdict comes first, and the tenth annotation of a level
counts the findings that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Finding, Report
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page

_FINDING_LEVELS: Final = {"critical": "error", "warning": "warning", "info": "notice"}
MOST: Final = 10  # annotations per level that GitHub shows for a step
_VERDICT_LEVELS: Final = {"failing": "error", "healthy": "notice", "calculated": "notice"}


def render(report: Report, page: Page) -> str:
    """Return a line for the verdict, for each finding, and for each error of the run."""
    return "".join(f"{line}\n" for line in _lines(report, page))


def _lines(report: Report, page: Page) -> Iterator[str]:
    culprit = report.summary.culprits[:1]
    notes = (
        words.ignored_rules(report.rules),
        words.hidden_findings(report),
        *words.baseline_lines(report),
    )
    sentences = [words.verdict_sentence(report), *map(words.culprit_line, culprit)]
    # A report without an assessment is never a green notice.
    verdict = report.summary.verdict if report.summary.assessed else "inconclusive"
    level = _VERDICT_LEVELS.get(verdict, "warning")
    text = ". ".join([*sentences, *filter(None, notes)])
    yield command(level, f"flowdiag {report.tool.command}", text)
    by_level: dict[str, list[Finding]] = {}
    for finding in report.findings:
        muted = words.mute_note(report, finding)
        of = "notice" if muted else _FINDING_LEVELS.get(finding.severity, "warning")
        by_level.setdefault(of, []).append(finding)
    for of, findings in by_level.items():
        room = MOST - (of == level)
        shown = findings if len(findings) <= room else findings[: room - 1]
        for finding in shown:
            make = partial(_finding, report, of, finding)
            yield from page.section(finding.code, make, partial(command, "error", "flowdiag"))
        if hidden := len(findings) - len(shown):
            yield command(of, "flowdiag", f"{hidden} more findings: see the JSON report")
    for error in report.errors:
        yield command("error", "flowdiag", error.message)


def _finding(report: Report, level: str, finding: Finding) -> Iterator[str]:
    places = [words.location(item) for item in finding.evidence[:3]]
    reason = finding.why or finding.explain
    remedy = [f"To do: {words.action_lines(action)[0]}" for action in finding.actions[:1]]
    muted = words.mute_note(report, finding)
    text = "\n".join(filter(None, [finding.title, muted, *remedy, reason, *places]))
    first = next(iter(finding.evidence), None)
    yield command(
        level,
        f"{finding.code} {finding.name}",
        text,
        file=first.source if first else None,
        line=first.line if first else None,
    )


def command(
    level: str, title: str, message: str, *, file: str | None = None, line: int | None = None
) -> str:
    """Return a workflow command that annotates a line of a file."""
    values = {"file": file, "line": None if line is None else str(line), "title": title}
    properties = ",".join(
        f"{name}={_escape(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in values.items()
        if value is not None
    )
    return f"::{level} {properties}::{_escape(message)}"


def _escape(text: str) -> str:
    r"""Escape the line feeds of a message, which would end the command.

    >>> _escape("50%\n::error::x")
    '50%25%0A::error::x'
    """
    text = "\n".join(printable(line) for line in text.split("\n"))
    return text.replace("%", "%25").replace("\n", "%0A")
