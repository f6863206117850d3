"""The report as JUnit XML, for systems that show test results: a suite per command, a case per
rule and job. Findings at warning or above fail their case; what could not be assessed is skipped."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Finding, Report, Rule
from flowdiag.cli import words
from flowdiag.cli.render.page import Page

# What XML 1.0 cannot hold, escaped or not.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, page: Page) -> str:
    """The report as XML, with an element `error` for each error of the run itself."""
    suite = Xml.Element("testsuite", name=f"flowdiag {report.tool.command}")
    for rule in report.rules:
        found = [finding for finding in report.findings if finding.code == rule.code]
        for finding in found:
            _failed(suite, rule, finding)
        if not found:
            _passed(suite, rule)
    for error in report.errors:
        case = _case(suite, "run", error.source or "flowdiag")
        Xml.SubElement(case, "error", message=_legal(error.message))
    if not report.summary.assessed and not report.errors:
        case = _case(suite, "run", "flowdiag")
        Xml.SubElement(case, "error", message=words.verdict_sentence(report))
    for outcome in ("failure", "error", "skipped"):
        count = sum(case.find(outcome) is not None for case in suite)
        suite.set({"failure": "failures", "error": "errors"}.get(outcome, outcome), str(count))
    suite.set("tests", str(len(suite)))
    Xml.indent(suite)
    body = Xml.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _failed(suite: Xml.Element, rule: Rule, finding: Finding) -> None:
    case = _case(suite, f"{rule.code} {rule.name}", words.who(finding.subject))
    text = "\n".join(
        [
            finding.explain,
            *(words.measurement(item) for item in finding.measurements),
            *(f"{words.place(item)} {item.excerpt or ''}".rstrip() for item in finding.evidence),
            *("; ".join([text, *more]) for text, more in map(words.action, finding.actions)),
        ]
    )
    if finding.severity == "info":
        Xml.SubElement(case, "system-out").text = _legal(f"{finding.title}\n{text}")
        return
    failure = Xml.SubElement(case, "failure", type=finding.severity, message=_legal(finding.title))
    failure.text = _legal(text)


def _passed(suite: Xml.Element, rule: Rule) -> None:
    case = _case(suite, f"{rule.code} {rule.name}", rule.title)
    if rule.status == "inconclusive":
        Xml.SubElement(case, "skipped", message=_legal(rule.reason or "inconclusive"))


def _case(suite: Xml.Element, group: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", classname=_legal(group), name=_legal(name))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("�", "\n".join(printable(line) for line in text.split("\n")))
