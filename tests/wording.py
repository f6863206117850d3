"""Rules for every sentence of a report: a consistent vocabulary, and no filler words.

The test helpers that run rules call `check`, so the facts of all tests and every recording also
test the wording.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model.finding import Finding, Inconclusive, RuleOutcome

_COUNTED: Final = (
    "attempts|batches|blocks|buffers|checkpoints|cores|executors|failures|inputs|intervals|jobs|partitions"
    "|queries|records|requests|restarts|rows|samples|segments|slots|starts|subtasks|tasks|taskmanagers"
    "|TaskManagers|times|triggers|updates|vertices|workers"
)
NEVER: Final = {
    "two blanks": re.compile(r"\S  +\S|^ | $"),
    "a value that is none": re.compile(r"\b(?:None|nan|inf)\b"),
    "one of several": re.compile(rf"(?<![\d.,/])\b(?<!\d )1 (?:{_COUNTED})\b"),
    "a time that runs backwards": re.compile(r"(?<![\w.])-\d[\d.]* (?:ms|s|min|h|d)\b"),
    "a time since 1970": re.compile(r"\b\d{4,} d\b"),
    "punctuation in a row": re.compile(r"[,;:] *[,;.:](?!\w)|(?<!\.)\.\.(?!\.)| [,;](?= |$)"),
    "a blank before the percent sign": re.compile(r"\d %(?![\w%])"),
    "a number without groups": re.compile(rf"(?<!\w:)\b\d{{4,}} (?:{_COUNTED})\b"),
    "more digits than anybody reads": re.compile(r"\b\d+\.\d{4,}\b"),
    "a type of Python's": re.compile(r"<[\w.]+ (?:object|function)|\b\w+\(\w+="),
}


def wrong_in(text: str) -> list[str]:
    """Return the problems with a sentence; text after a colon is quoted from a log and exempt."""
    ours = re.split(r": |'", text, maxsplit=1)[0].rstrip() if ": " in text or "'" in text else text
    return [what for what, pattern in NEVER.items() if pattern.search(ours)]


def sentences(results: Finding | wire.Finding | Inconclusive) -> Iterator[str]:
    """Return all sentences of a finding, or of a rule without a result."""
    if isinstance(results, Inconclusive):
        yield from filter(None, (results.reason, results.remedy))
        return
    yield from filter(None, (results.title, results.why, results.explain))
    yield from (vote.text for vote in results.votes)
    yield from (m.population for m in results.measurements if m.population)
    for action in results.actions:
        yield from filter(None, (action.text, action.risk, action.verify))


def check_report(report: Report) -> None:
    """Check the sentences of a report document."""
    for finding in report.findings:
        for text in sentences(finding):
            assert not wrong_in(text), (finding.code, wrong_in(text), text)


def check_results(code: str, results: Iterable[Finding | Inconclusive]) -> None:
    """Fail on the first bad sentence."""
    for item in results:
        for text in sentences(item):
            assert not wrong_in(text), (code, wrong_in(text), text)
        if isinstance(item, Finding) and ": " not in item.title:
            assert not item.title.endswith("."), (code, item.title)


def check(outcomes: Iterable[RuleOutcome]) -> None:
    """Check the sentences in outcomes of rules."""
    for outcome in outcomes:
        check_results(outcome.code, (*outcome.findings, *outcome.inconclusive))
