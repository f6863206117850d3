"""The report as GitHub workflow commands: the verdict, then one annotation per finding.

The verdict comes first, with its own level: GitHub shows ten annotations of a step, and drops the others.
They carry no `file=`: logs are not part of the repository, so that GitHub could not show the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Finding, Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words

_LEVEL: Final = {"critical": "error", "warning": "warning", "info": "notice"}
_OF_A_VERDICT: Final = {"failing": "error", "healthy": "notice", "calculated": "notice"}


def render(report: Report, page: Page) -> str:
    """One line per finding, per error of the run, and one for the verdict."""
    return "".join(f"{line}\n" for line in _lines(report, page))


def _lines(report: Report, page: Page) -> Iterator[str]:
    first = report.summary.culprits[:1]
    heard = (
        words.ignored_rules(report.rules),
        words.hidden_findings(report),
        *words.baseline_lines(report),
    )
    unheard = filter(None, heard)
    verdict = ". ".join([words.verdict_sentence(report), *map(words.culprit_line, first), *unheard])
    # Not assessed is never healthy.
    of_it = report.summary.verdict if report.summary.assessed else "inconclusive"
    level = _OF_A_VERDICT.get(of_it, "warning")
    yield command(level, f"flowdiag {report.tool.command}", verdict)
    for finding in report.findings:
        yield from page.section(finding.code, partial(_finding, report, finding), _failed)
    for error in report.errors:
        yield command("error", "flowdiag", error.message)


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    said = finding.why or finding.explain
    places = [words.location(item) for item in finding.evidence[:3]]
    muted = words.mute_note(report, finding)
    text = "\n".join(filter(None, [finding.title, muted, said, *places]))
    level = "notice" if muted else _LEVEL.get(finding.severity, "warning")
    yield command(level, f"{finding.code} {finding.name}", text)


def _failed(text: str) -> str:
    return command("error", "flowdiag", text)


def command(level: str, title: str, message: str) -> str:
    """A workflow command: an annotation with a level, a title and a text."""
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    r"""What follows the second `::`; a line feed would end the command.

    >>> _data("50%\n::error::x")
    '50%25%0A::error::x'
    """
    text = "\n".join(printable(line) for line in text.split("\n"))
    return text.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    """The same for a title, which commas and colons would end."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
