"""Render a report as GitHub workflow commands: the verdict, then an annotation for each finding.

The verdict comes first because GitHub shows only ten annotations of a step. Annotations have no `file=`: logs are not
part of the repository, so GitHub could not show the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Finding, Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words

_FINDING_LEVELS: Final = {"critical": "error", "warning": "warning", "info": "notice"}
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
    for finding in report.findings:
        make = partial(_finding, report, finding)
        yield from page.section(finding.code, make, partial(command, "error", "flowdiag"))
    for error in report.errors:
        yield command("error", "flowdiag", error.message)


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    places = [words.location(item) for item in finding.evidence[:3]]
    muted = words.mute_note(report, finding)
    reason = finding.why or finding.explain
    text = "\n".join(filter(None, [finding.title, muted, reason, *places]))
    level = "notice" if muted else _FINDING_LEVELS.get(finding.severity, "warning")
    yield command(level, f"{finding.code} {finding.name}", text)


def command(level: str, title: str, message: str) -> str:
    """Return a workflow command: an annotation with a level, a title and a message."""
    title = _escape(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escape(message)}"


def _escape(text: str) -> str:
    r"""Escape the line feeds of a message, which would end the command.

    >>> _escape("50%\n::error::x")
    '50%25%0A::error::x'
    """
    text = "\n".join(printable(line) for line in text.split("\n"))
    return text.replace("%", "%25").replace("\n", "%0A")
