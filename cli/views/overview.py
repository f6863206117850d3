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
from flowdiag.cli.text.grid import VERDICT_STYLES, Column, Listing, and_more, block, heading, line

T = TypeVar("T")

# By `Page.terse`: how many are shown in full, in a line each, and how many names of those alike.
_IN_FULL: Final = (3, 2, 2, 1, 1)
_IN_LINES: Final = (10, 10, 8, 6, 4)
_NAMES: Final = (6, 6, 5, 4, 3)
_NAME: Final = 40
_GROUPS: Final = 8


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job or application as far as an overview tells of it."""

    name: str
    verdict: str
    cause: str | None
    says: str


def split_by_severity(
    word: str, items: Sequence[T], told: Callable[[T], JobSummary], page: Page
) -> tuple[list[RenderableType], list[T]]:
    """What is shown of many: an overview if it takes one, and which of them are shown in full.

    Args:
        word: what they are, over the overview.
        items: jobs or applications.
        told: what an overview says of one.
        page: where it goes; everything is in full where everything is asked for.
    """
    pairs = sorted(
        ((told(item), item) for item in items),
        key=lambda pair: words.verdict_sort_key(pair[0].verdict),
    )
    ranked = [item for _, item in pairs]
    if page.verbose or len(ranked) <= _IN_FULL[page.terse]:
        return [], ranked
    sick = sum(job_summary.verdict != "healthy" for job_summary, _ in pairs)
    shown = ranked[: min(max(sick, 1), _IN_FULL[page.terse])]
    return [_overview(word, [job_summary for job_summary, _ in pairs], page)], shown


def _overview(word: str, summaries: Sequence[JobSummary], page: Page) -> RenderableType:
    tally = ", ".join(
        f"{fmt.thousands(len(list(group)))} {verdict}"
        for verdict, group in groupby(job_summary.verdict for job_summary in summaries)
    )
    title = heading(word, f"{fmt.thousands(len(summaries))}: {tally}")
    if len(summaries) <= _IN_LINES[page.terse]:
        return block(title, _lines(summaries))
    return block(title, *_groups(summaries, page))


def _verdict(job_summary: JobSummary) -> Text:
    return Text(job_summary.verdict, VERDICT_STYLES.get(job_summary.verdict, ""))


def _lines(summaries: Iterable[JobSummary]) -> RenderableType:
    return Listing(
        summaries,
        Column("", _verdict, "left"),
        Column("", lambda one: fmt.abbreviate(one.name, _NAME), "wrap"),
        Column("", lambda one: line(one.cause or "", "bold"), "wrap"),
        Column("", lambda one: line(one.says, "dim"), "wrap"),
        heads=None,
    )


def group_alike(summaries: Iterable[JobSummary]) -> list[list[JobSummary]]:
    """Those of the same verdict and cause together: the sick first, and of them the most frequent."""
    found: dict[tuple[str, str], list[JobSummary]] = {}
    for job_summary in summaries:
        found.setdefault((job_summary.verdict, job_summary.cause or ""), []).append(job_summary)
    return sorted(
        found.values(), key=lambda some: (words.verdict_sort_key(some[0].verdict), -len(some))
    )


def _groups(summaries: Iterable[JobSummary], page: Page) -> list[RenderableType]:
    ranked = group_alike(summaries)
    table = Listing(
        ranked[:_GROUPS],
        Column("", lambda some: fmt.thousands(len(some))),
        Column("", lambda some: _verdict(some[0]), "left"),
        Column("", lambda some: line(some[0].cause or "", "bold"), "wrap"),
        Column("", lambda some: line(first_names(some, _NAMES[page.terse]), "dim"), "wrap"),
        heads=None,
    )
    return [table, *and_more(len(ranked) - _GROUPS, "causes")]


def first_names(some: Sequence[JobSummary], most: int) -> str:
    """The first few of them."""
    shown = [fmt.abbreviate(printable(job_summary.name), _NAME) for job_summary in some[:most]]
    return ", ".join(shown + (["…"] if len(some) > most else []))


def verdicts_by_job(report: Report) -> dict[str, tuple[str, str | None]]:
    """Verdict and cause by job id, from the findings: for topics whose data have no verdict of a job."""
    found: dict[str, tuple[str, str | None]] = {}
    for finding in report.findings:
        if finding.severity is f.Severity.INFO:
            continue
        failing = finding.severity is f.Severity.CRITICAL and finding.state is f.State.ONGOING
        verdict = "failing" if failing else "degraded"
        job = finding.subject.job_id or ""
        before = found.get(job)
        if before is None or words.verdict_sort_key(verdict) < words.verdict_sort_key(before[0]):
            found[job] = verdict, finding.cause or (before[1] if before else None)
    return found
