"""What every section of the page is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import Finding, Report, Story
from flowdiag.cli.render.html.figures import ChartRenderer, Figure, Table
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.views.overview import JobSummary, first_names, group_alike

T = TypeVar("T")

IN_FULL: Final = 5  # jobs, applications, processes with figures of their own
_NAMES: Final = 20


def anchor_of(number: int) -> str:
    """The identifier of a finding's place in the page."""
    return f"finding-{number}"


@dataclass(frozen=True, kw_only=True)
class Context:
    """A report, and what is known of the page that shows it.

    Args:
        report: to be shown.
        page: the place.
        clock: on which instants are told.
        paths: how inputs are called.
        renderer: draws.
    """

    report: Report
    page: Page
    clock: words.Clock
    paths: words.Paths
    renderer: ChartRenderer

    @property
    def stories(self) -> Sequence[Story]:
        """Those of the report: here alone it is known where they stand in it."""
        return self.report.summary.stories

    @property
    def several(self) -> bool:
        """Whether it must be said which job something is about."""
        return words.has_several_jobs(self.report)

    @cached_property
    def found(self) -> Mapping[str, tuple[Finding, str]]:
        """Each finding by its fingerprint, with the identifier of its place in the page."""
        places = [(finding, anchor_of(n)) for n, finding in enumerate(self.report.findings)]
        return {finding.fingerprint: (finding, anchor) for finding, anchor in reversed(places)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page under a heading.

    Args:
        title: of the heading.
        count: behind the heading.
        shown: what the template shows, by name.
    """

    title: str
    count: str = ""
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job, an application or a process within a section.

    Args:
        title: who it is.
        verdict: of it; empty where it has none of its own.
        lines: what is said of it before its figures.
        figures: of it; None in the place of one that there was no room for.
        tables: below them, each with its title.
    """

    title: str
    verdict: str = ""
    lines: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, Table]] = ()


def figures(*some: Figure | None) -> list[Figure]:
    """Those that there are."""
    return [figure for figure in some if figure is not None]


def split_by_severity(
    items: Sequence[T], told: Callable[[T], JobSummary], page: Page
) -> tuple[Table | None, list[T]]:
    """Many jobs as a table in which those alike share a row, and those that are shown in full: the sickest.

    Args:
        items: jobs or applications.
        told: what the table says of one.
        page: where everything may be asked for.
    """
    ranked = sorted(items, key=lambda item: words.verdict_sort_key(told(item).verdict))
    if page.verbose or len(ranked) <= IN_FULL:
        return None, ranked
    summaries = [told(item) for item in ranked]
    rows = [
        (fmt.thousands(len(some)), some[0].verdict, some[0].cause or "-", first_names(some, _NAMES))
        for some in group_alike(summaries)
    ]
    return Table(heads=(">how many", "verdict", "cause", "which"), rows=rows), ranked[:IN_FULL]
