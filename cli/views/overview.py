"""Summarizes many jobs or applications: the worst verdicts first, equal verdicts and causes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final, TypeVar

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import VERDICT_STYLES, Column, Listing, and_more, block, heading, line
from flowdiag.cli.text.page import Page

T = TypeVar("T")

# By `Page.terse`: the jobs in full, the jobs with a line each, and the names in a group.
_IN_FULL: Final = (3, 2, 2, 1, 1)
_IN_LINES: Final = (10, 10, 8, 6, 4)
_NAMES: Final = (6, 6, 5, 4, 3)
_NAME: Final = 40
_GROUPS: Final = 8


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job or application in one line of an overview; `facts` is a short text about its state."""

    name: str
    verdict: str
    cause: str | None
    facts: str


def split_by_severity(
    title: str, items: Sequence[T], summary_of: Callable[[T], JobSummary], page: Page
) -> tuple[list[RenderableType], list[T]]:
    """Return the worst items, to be shown in full, and an overview if there are many items.

    Args:
        title: the heading of the overview.
        items: jobs or applications.
        summary_of: returns the line of an item.
        page: a verbose page shows all items in full.
    """
    pairs = sorted(
        ((summary_of(item), item) for item in items),
        key=lambda pair: words.verdict_sort_key(pair[0].verdict),
    )
    ranked = [item for _, item in pairs]
    if page.verbose or len(ranked) <= _IN_FULL[page.terse]:
        return [], ranked
    unhealthy = sum(summary.verdict != "healthy" for summary, _ in pairs)
    shown = ranked[: min(max(unhealthy, 1), _IN_FULL[page.terse])]
    return [_overview(title, [summary for summary, _ in pairs], page)], shown


def _overview(title: str, summaries: Sequence[JobSummary], page: Page) -> RenderableType:
    tally = ", ".join(
        f"{fmt.thousands(len(list(group)))} {verdict}"
        for verdict, group in groupby(summary.verdict for summary in summaries)
    )
    head = heading(title, f"{fmt.thousands(len(summaries))}: {tally}")
    if len(summaries) <= _IN_LINES[page.terse]:
        lines = Listing(
            summaries,
            Column("", _verdict, "left"),
            Column("", lambda summary: fmt.abbreviate(summary.name, _NAME), "wrap"),
            Column("", lambda summary: line(summary.cause or "", "bold"), "wrap"),
            Column("", lambda summary: line(summary.facts, "dim"), "wrap"),
            heads=None,
        )
        return block(head, lines)
    groups = group_alike(summaries)
    table = Listing(groups[:_GROUPS], *group_columns(_NAMES[page.terse]), heads=None)
    return block(head, table, *and_more(len(groups) - _GROUPS, "causes"))


def _verdict(summary: JobSummary) -> Text:
    return Text(summary.verdict, VERDICT_STYLES.get(summary.verdict, ""))


def group_alike(summaries: Iterable[JobSummary]) -> list[list[JobSummary]]:
    """Group summaries by verdict and cause: the worst verdict first, then the largest group."""
    found: dict[tuple[str, str], list[JobSummary]] = {}
    for summary in summaries:
        found.setdefault((summary.verdict, summary.cause or ""), []).append(summary)
    return sorted(
        found.values(), key=lambda some: (words.verdict_sort_key(some[0].verdict), -len(some))
    )


def group_columns(most: int) -> tuple[Column, ...]:
    """Return the columns of the table of similar jobs, with at most `most` names each. Jobs can share a name."""

    def names(group: Sequence[JobSummary]) -> Text:
        counts = Counter(summary.name for summary in group)
        shown = [
            fmt.abbreviate(printable(name), _NAME) + (f" ({count} jobs)" if count > 1 else "")
            for name, count in islice(counts.items(), most)
        ]
        return line(", ".join(shown + (["…"] if len(counts) > most else [])), "dim")

    return (
        Column("number", lambda group: fmt.thousands(len(group))),
        Column("verdict", lambda group: _verdict(group[0]), "left"),
        Column("cause", lambda group: line(group[0].cause or "", "bold"), "wrap"),
        Column("names", names, "wrap"),
    )


def verdicts_by_job(report: Report) -> dict[str, tuple[str, str | None]]:
    """Return verdict and cause by job ID. They are derived from the findings, because not every topic has verdicts."""
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
