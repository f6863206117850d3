"""Renders a report as JUnit XML, for systems that show test results.

A command is a suite, a job a class, a rule a case. Findings of severity warning or above fail their case; rules that
flowdiag could not assess are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from xml.etree import ElementTree as Xml

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Finding, Report, Rule
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page


def render(report: Report, page: Page) -> str:
    """Return the report as XML, with an `error` element for each error of the run."""
    suite = Xml.Element("testsuite", name=f"flowdiag {report.tool.command}")
    found: dict[tuple[str, str], list[Finding]] = {}
    jobs = dict.fromkeys(words.job_names(report))
    everything = f"flowdiag {report.tool.command}"
    for finding in report.findings:
        job = words.job_name(finding.subject)
        found.setdefault((job if job in jobs else everything, finding.code), []).append(finding)
    others = [everything] if not jobs or any(job == everything for job, _ in found) else []
    for job in [*jobs, *others]:
        for rule in report.rules:
            hidden = rule.status == "found" and bool(report.summary.below_min_severity)
            findings = found.get((job, rule.code), [])
            muted = {
                each.fingerprint: note
                for each in findings
                if (note := words.mute_note(report, each))
            }
            make = partial(_case, job, rule, findings, hidden=hidden, muted=muted)
            suite.extend(page.section(rule.code, make, _failed_case))
    for error in report.errors:
        case = add_case(suite, "run", error.source or "flowdiag")
        Xml.SubElement(case, "error", message=xml_text(error.message))
    if not report.summary.assessed and not report.errors:
        case = add_case(suite, "run", "flowdiag")
        Xml.SubElement(case, "error", message=words.verdict_sentence(report))
    return document(suite)


def document(suite: Xml.Element) -> str:
    """Return a suite as XML, with the number of cases per outcome."""
    for outcome in ("failure", "error", "skipped"):
        count = sum(case.find(outcome) is not None for case in suite)
        suite.set({"failure": "failures", "error": "errors"}.get(outcome, outcome), str(count))
    suite.set("tests", str(len(suite)))
    Xml.indent(suite)
    body = Xml.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _case(
    job: str,
    rule: Rule,
    findings: list[Finding],
    *,
    hidden: bool,
    muted: Mapping[str, str],
) -> list[Xml.Element]:
    """Return the case of a rule; its name does not depend on the outcome, so that systems recognize new failures.

    Args:
        job: the job or application.
        rule: the rule with its status.
        findings: the findings of the rule about the job.
        hidden: whether `--min-severity` may hide further findings.
        muted: the notes of findings that the baseline mutes, by fingerprint.
    """
    case = Xml.Element(
        "testcase", classname=xml_text(job), name=xml_text(f"{rule.code} {rule.title}")
    )
    quiet = [finding for finding in findings if finding.fingerprint in muted]
    quiet += [each for each in findings if each.severity == "info" and each not in quiet]
    if serious := [finding for finding in findings if finding not in quiet]:
        more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
        worst = serious[0]
        failure = Xml.SubElement(
            case, "failure", type=worst.severity, message=xml_text(worst.title + more)
        )
        failure.text = xml_text("\n\n".join(map(_finding_text, serious)))
    elif reason := _skip_reason(rule, findings, hidden, muted):
        Xml.SubElement(case, "skipped", message=xml_text(reason))
    if quiet:
        Xml.SubElement(case, "system-out").text = xml_text("\n\n".join(map(_finding_text, quiet)))
    return [case]


def _skip_reason(
    rule: Rule, findings: list[Finding], hidden: bool, muted: Mapping[str, str]
) -> str | None:
    if muted:
        return "; ".join(muted.values())
    if not findings and rule.status in ("inconclusive", "not-assessed", "ignored"):
        return rule.reason or rule.status
    return "findings below --min-severity are left out" if not findings and hidden else None


def _failed_case(text: str) -> Xml.Element:
    case = Xml.Element("testcase", classname="run", name="flowdiag")
    Xml.SubElement(case, "error", message=xml_text(text))
    return case


def _finding_text(finding: Finding) -> str:
    return "\n".join(
        [
            f"{words.subject_name(finding.subject, most=200)}: {finding.title}",
            finding.explain,
            *("; ".join([text, *more]) for text, more in map(words.action_lines, finding.actions)),
            *(words.measurement(item) for item in finding.measurements),
            *(f"{words.location(item)} {item.excerpt or ''}".rstrip() for item in finding.evidence),
        ]
    )


def add_case(suite: Xml.Element, group: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", classname=xml_text(group), name=xml_text(name))


def xml_text(text: str) -> str:
    """Escape the characters that XML 1.0 forbids; none of them is printable."""
    return "\n".join(printable(line) for line in text.split("\n"))
