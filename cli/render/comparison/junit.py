"""The comparison as JUnit XML: a case per finding and per measure. What makes a regression fails its case, what
cannot be told is skipped."""

from __future__ import annotations

from collections.abc import Collection
from xml.etree import ElementTree as Xml

from flowdiag.analyses.comparison.findings import serious
from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange, Measure, Trend
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.junit import case_in, document, legal
from flowdiag.cli.render.page import Page


def render(comparison: Comparison, page: Page) -> str:
    """The comparison as XML."""
    suite = Xml.Element("testsuite", name="flowdiag compare")
    guilty = [
        one.fingerprint
        for kind in (Change.NEW, Change.WORSE)
        for one in serious(comparison.findings, kind)
    ]
    for one in comparison.findings:
        _finding(suite, one, guilty)
    for measure in comparison.measures:
        _measure(suite, measure)
    verdict = case_in(suite, "comparison", "regression")
    if not comparison.regression and not comparison.conclusive:
        Xml.SubElement(verdict, "skipped", message=legal(wording.conclusion(comparison)))
    elif comparison.regression:
        told = legal(wording.conclusion(comparison))
        Xml.SubElement(verdict, "failure", type="regression", message=told)
    return document(suite)


def _finding(suite: Xml.Element, one: FindingChange, guilty: Collection[str]) -> None:
    case = case_in(suite, "findings", f"{one.code} {one.name} {one.fingerprint}")
    text = "\n".join([wording.title(one), *wording.details(one)])
    if one.change is Change.NOT_COMPARABLE:
        Xml.SubElement(case, "skipped", message=legal(one.reason or wording.change_word(one)))
    elif one.change in (Change.NEW, Change.WORSE) and one.fingerprint in guilty:
        message = legal(f"{wording.change_word(one)}: {wording.title(one)}")
        Xml.SubElement(case, "failure", type=one.change.value, message=message).text = legal(text)
        return
    Xml.SubElement(case, "system-out").text = legal(f"{wording.change_word(one)}: {text}")


def _measure(suite: Xml.Element, one: Measure) -> None:
    case = case_in(suite, "measures", f"{one.name} of {wording.measured_subject(one)}")
    text = (
        f"{wording.value_text(one.before, one.unit)} before, {wording.value_text(one.after, one.unit)} after:"
        f" {wording.change_text(one)}"
    )
    if one.change is Trend.UNKNOWN:
        Xml.SubElement(case, "skipped", message=legal(one.reason or "too few to tell"))
    elif one.change is Trend.WORSE:
        Xml.SubElement(case, "failure", type="worse", message=legal(text))
    else:
        Xml.SubElement(case, "system-out").text = legal(text)
