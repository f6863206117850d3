"""Renders a comparison as JUnit XML: a case for each finding and measure.

Regressions fail their case. Measures and findings that cannot be compared are skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from xml.etree import ElementTree as Xml

from flowdiag.analyses.comparison.findings import serious_changes
from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange, Measure, Trend
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.junit import add_case, document, xml_text
from flowdiag.cli.text.page import Page


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison as XML."""
    suite = Xml.Element("testsuite", name="flowdiag compare")
    regressions = [
        change.fingerprint
        for kind in (Change.NEW, Change.WORSE)
        for change in serious_changes(comparison.findings, kind)
    ]
    for change in comparison.findings:
        _add_finding(suite, change, regressions)
    for measure in comparison.measures:
        _add_measure(suite, measure)
    verdict = add_case(suite, "comparison", "regression")
    conclusion = xml_text(wording.conclusion(comparison))
    if comparison.regression:
        Xml.SubElement(verdict, "failure", type="regression", message=conclusion)
    elif not comparison.conclusive:
        Xml.SubElement(verdict, "skipped", message=conclusion)
    return document(suite)


def _add_finding(suite: Xml.Element, change: FindingChange, regressions: Collection[str]) -> None:
    case = add_case(suite, "findings", f"{change.code} {change.name} {change.fingerprint}")
    word, title = wording.change_word(change), wording.title(change)
    text = "\n".join([title, *wording.details(change)])
    if change.change is Change.NOT_COMPARABLE:
        Xml.SubElement(case, "skipped", message=xml_text(change.reason or word))
    elif change.change in (Change.NEW, Change.WORSE) and change.fingerprint in regressions:
        failure = Xml.SubElement(case, "failure", type=change.change.value)
        failure.set("message", xml_text(f"{word}: {title}"))
        failure.text = xml_text(text)
        return
    Xml.SubElement(case, "system-out").text = xml_text(f"{word}: {text}")


def _add_measure(suite: Xml.Element, measure: Measure) -> None:
    name = f"{measure.name} of {wording.measured_subject(measure)}"
    case = add_case(suite, "measures", name)
    text = (
        f"{wording.value_text(measure.before, measure.unit)} before,"
        f" {wording.value_text(measure.after, measure.unit)} after: {wording.change_text(measure)}"
    )
    if measure.change is Trend.UNKNOWN:
        Xml.SubElement(case, "skipped", message=xml_text(measure.reason or "too few values"))
    elif measure.change is Trend.WORSE:
        Xml.SubElement(case, "failure", type="worse", message=xml_text(text))
    else:
        Xml.SubElement(case, "system-out").text = xml_text(text)
