"""Types that the sections of the page share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from flowdiag.analyses.contract.report import Finding, Report, Story
from flowdiag.cli.render.html.figures import ChartRenderer, Figure, Table, table
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page
from flowdiag.cli.views.overview import JobSummary, group_alike, group_columns

T = TypeVar("T")

IN_FULL: Final = 5  # jobs, applications or processes that get figures
_NAMES: Final = 20


def anchor_of(number: int) -> str:
    """Return the HTML id of a finding."""
    return f"finding-{number}"


@dataclass(frozen=True, kw_only=True)
class Context:
    """A report and the page that shows it.

    Args:
        report: the report.
        page: its output options.
        clock: the time zone of all times.
        paths: the names of inputs.
        renderer: draws charts.
    """

    report: Report
    page: Page
    clock: words.Clock
    paths: words.Paths
    renderer: ChartRenderer

    @property
    def stories(self) -> Sequence[Story]:
        return self.report.summary.stories

    @property
    def has_several_jobs(self) -> bool:
        """Whether the report covers several jobs, so that texts must name their job."""
        return words.has_several_jobs(self.report)

    @cached_property
    def findings(self) -> Mapping[str, tuple[Finding, str]]:
        """The findings by fingerprint, each with its HTML id."""
        places = [(finding, anchor_of(n)) for n, finding in enumerate(self.report.findings)]
        return {finding.fingerprint: (finding, anchor) for finding, anchor in reversed(places)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the page.

    Args:
        title: the heading.
        count: a number after the heading.
        shown: the variables of the template.
    """

    title: str
    count: str = ""
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job, an application or a process of a section.

    Args:
        title: its name.
        verdict: its verdict; empty if it has none.
        lines: facts above the figures.
        figures: its charts.
        tables: its tables with their titles.
    """

    title: str
    verdict: str = ""
    lines: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, Table]] = ()


def figures(*some: Figure | None) -> list[Figure]:
    """Drop the figures that could not be drawn (None)."""
    return [figure for figure in some if figure is not None]


def split_by_severity(
    items: Sequence[T], summary_of: Callable[[T], JobSummary], page: Page
) -> tuple[Table | None, list[T]]:
    """Split items into the worst, to be shown in full, and an overview table of all items if there are many."""
    ranked = sorted(items, key=lambda item: words.verdict_sort_key(summary_of(item).verdict))
    if page.verbose or len(ranked) <= IN_FULL:
        return None, ranked
    groups = group_alike(summary_of(item) for item in ranked)
    return table(group_columns(_NAMES), groups, len(groups)), ranked[:IN_FULL]
