"""Many jobs or applications in few lines: the sick first, and those with the same cause together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import VERDICT_STYLES, Column, block, heading, line, listing, more

T = TypeVar("T")

# By `Page.terse`: how many are shown in full, in a line each, and how many names of those alike.
_IN_FULL: Final = (3, 2, 2, 1, 1)
_IN_LINES: Final = (10, 10, 8, 6, 4)
_NAMES: Final = (6, 6, 5, 4, 3)
_NAME: Final = 40
_GROUPS: Final = 8


@dataclass(frozen=True, slots=True)
class Patient:
    """One job or application as far as an overview tells of it."""

    name: str
    verdict: str
    cause: str | None
    says: str


def triage(
    word: str, items: Sequence[T], told: Callable[[T], Patient], page: Page
) -> tuple[list[RenderableType], list[T]]:
    """What is shown of many: an overview if it takes one, and which of them are shown in full.

    Args:
        word: what they are, over the overview.
        items: jobs or applications.
        told: what an overview says of one.
        page: where it goes; everything is in full where everything is asked for.
    """
    pairs = sorted(
        ((told(item), item) for item in items), key=lambda pair: words.sick_first(pair[0].verdict)
    )
    ranked = [item for _, item in pairs]
    if page.verbose or len(ranked) <= _IN_FULL[page.terse]:
        return [], ranked
    sick = sum(patient.verdict != "healthy" for patient, _ in pairs)
    shown = ranked[: min(max(sick, 1), _IN_FULL[page.terse])]
    return [_overview(word, [patient for patient, _ in pairs], page)], shown


def _overview(word: str, patients: Sequence[Patient], page: Page) -> RenderableType:
    tally = ", ".join(
        f"{fmt.thousands(len(list(group)))} {verdict}"
        for verdict, group in groupby(patient.verdict for patient in patients)
    )
    title = heading(word, f"{fmt.thousands(len(patients))}: {tally}")
    if len(patients) <= _IN_LINES[page.terse]:
        return block(title, _lines(patients))
    return block(title, *_groups(patients, page))


def _verdict(patient: Patient) -> Text:
    return Text(patient.verdict, VERDICT_STYLES.get(patient.verdict, ""))


def _lines(patients: Iterable[Patient]) -> RenderableType:
    return listing(
        patients,
        Column("", _verdict, "left"),
        Column("", lambda one: fmt.abbreviate(one.name, _NAME), "wrap"),
        Column("", lambda one: line(one.cause or "", "bold"), "wrap"),
        Column("", lambda one: line(one.says, "dim"), "wrap"),
        heads=None,
    )


def alike(patients: Iterable[Patient]) -> list[list[Patient]]:
    """Those of the same verdict and cause together: the sick first, and of them the most frequent."""
    found: dict[tuple[str, str], list[Patient]] = {}
    for patient in patients:
        found.setdefault((patient.verdict, patient.cause or ""), []).append(patient)
    return sorted(found.values(), key=lambda some: (words.sick_first(some[0].verdict), -len(some)))


def _groups(patients: Iterable[Patient], page: Page) -> list[RenderableType]:
    ranked = alike(patients)
    table = listing(
        ranked[:_GROUPS],
        Column("", lambda some: fmt.thousands(len(some))),
        Column("", lambda some: _verdict(some[0]), "left"),
        Column("", lambda some: line(some[0].cause or "", "bold"), "wrap"),
        Column("", lambda some: line(names(some, _NAMES[page.terse]), "dim"), "wrap"),
        heads=None,
    )
    return [table, *more(len(ranked) - _GROUPS, "causes")]


def names(some: Sequence[Patient], most: int) -> str:
    """The first few of them."""
    shown = [fmt.abbreviate(printable(patient.name), _NAME) for patient in some[:most]]
    return ", ".join(shown + (["…"] if len(some) > most else []))


def judgements(report: Report) -> dict[str, tuple[str, str | None]]:
    """Verdict and cause by job id, from the findings: for topics whose data have no verdict of a job."""
    found: dict[str, tuple[str, str | None]] = {}
    for finding in report.findings:
        if finding.severity is f.Severity.INFO:
            continue
        failing = finding.severity is f.Severity.CRITICAL and finding.state is f.State.ONGOING
        verdict = "failing" if failing else "degraded"
        job = finding.subject.job_id or ""
        before = found.get(job)
        if before is None or words.sick_first(verdict) < words.sick_first(before[0]):
            found[job] = verdict, finding.cause or (before[1] if before else None)
    return found
