"""The report as JUnit XML, for systems that show test results: a suite per command, a class per job, a
case per rule. Findings at warning or above fail their case; what could not be assessed is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from xml.etree import ElementTree as Xml

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Finding, Report, Rule
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words


def render(report: Report, page: Page) -> str:
    """The report as XML, with an element `error` for each error of the run itself."""
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
            some = found.get((job, rule.code), [])
            known = {
                one.fingerprint: said for one in some if (said := words.mute_note(report, one))
            }
            told = partial(_judged, job, rule, some, hidden=hidden, known=known)
            suite.extend(page.section(rule.code, told, _failed))
    for error in report.errors:
        case = case_in(suite, "run", error.source or "flowdiag")
        Xml.SubElement(case, "error", message=legal(error.message))
    if not report.summary.assessed and not report.errors:
        case = case_in(suite, "run", "flowdiag")
        Xml.SubElement(case, "error", message=words.verdict_sentence(report))
    return document(suite)


def document(suite: Xml.Element) -> str:
    """The XML of a suite, with how many of its cases came to what."""
    for outcome in ("failure", "error", "skipped"):
        count = sum(case.find(outcome) is not None for case in suite)
        suite.set({"failure": "failures", "error": "errors"}.get(outcome, outcome), str(count))
    suite.set("tests", str(len(suite)))
    Xml.indent(suite)
    body = Xml.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _judged(
    job: str,
    rule: Rule,
    found: list[Finding],
    *,
    hidden: bool,
    known: Mapping[str, str],
) -> list[Xml.Element]:
    """A case has the same name whether it passes or fails: systems tell by it what is new.

    Args:
        job: or application.
        rule: with what came of it.
        found: what is shown of its findings about the job.
        hidden: whether there may be others, which `--min-severity` left out.
        known: what the baseline says of those that it mutes, by fingerprint.
    """
    case = Xml.Element("testcase", classname=legal(job), name=legal(f"{rule.code} {rule.title}"))
    quiet = [finding for finding in found if finding.fingerprint in known]
    remarks = [*quiet, *(one for one in found if one.severity == "info" and one not in quiet)]
    serious = [finding for finding in found if finding not in remarks]
    if serious:
        more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
        worst = serious[0]
        failure = Xml.SubElement(
            case, "failure", type=worst.severity, message=legal(worst.title + more)
        )
        failure.text = legal("\n\n".join(map(_told, serious)))
    elif quiet:
        Xml.SubElement(case, "skipped", message=legal("; ".join(known.values())))
    elif not found and rule.status in ("inconclusive", "not-assessed", "ignored"):
        Xml.SubElement(case, "skipped", message=legal(rule.reason or rule.status))
    elif not found and hidden:
        Xml.SubElement(case, "skipped", message="findings below --min-severity are left out")
    if remarks:
        Xml.SubElement(case, "system-out").text = legal("\n\n".join(map(_told, remarks)))
    return [case]


def _failed(text: str) -> Xml.Element:
    """A case that cannot be told."""
    case = Xml.Element("testcase", classname="run", name="flowdiag")
    Xml.SubElement(case, "error", message=legal(text))
    return case


def _told(finding: Finding) -> str:
    return "\n".join(
        [
            f"{words.subject_name(finding.subject, most=200)}: {finding.title}",
            finding.explain,
            *(words.measurement(item) for item in finding.measurements),
            *(f"{words.location(item)} {item.excerpt or ''}".rstrip() for item in finding.evidence),
            *("; ".join([text, *more]) for text, more in map(words.action_lines, finding.actions)),
        ]
    )


def case_in(suite: Xml.Element, group: str, name: str) -> Xml.Element:
    """A new case of a suite."""
    return Xml.SubElement(suite, "testcase", classname=legal(group), name=legal(name))


def legal(text: str) -> str:
    """The text in its lines, as escapes what XML 1.0 cannot hold: all of that is not printable."""
    return "\n".join(printable(line) for line in text.split("\n"))
