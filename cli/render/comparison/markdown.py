"""Renders a comparison as Markdown for a ticket or `$GITHUB_STEP_SUMMARY`: short, and safe to paste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.comparison.wire import Change, Comparison
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.markdown import escape, table
from flowdiag.cli.text.grid import Column
from flowdiag.cli.text.page import Page

_FINDINGS: Final = 20
_MEASURES: Final = 20
_FINDING_COLUMNS: Final = (
    Column("", wording.change_word, "left"),
    Column("", lambda change: wording.current(change).severity.value, "left"),
    Column("", lambda change: change.code, "left"),
    Column("finding", lambda c: " · ".join([wording.title(c), *wording.details(c)]), "left"),
)


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison as GitHub-flavored Markdown."""
    return "\n".join(_lines(comparison, page)) + "\n"


def _lines(comparison: Comparison, page: Page) -> Iterator[str]:
    yield f"# flowdiag compare: {escape(wording.conclusion(comparison))}"
    yield ""
    yield f"Verdict: {escape(wording.verdict_change(comparison))}"
    yield ""
    yield f"- before: {escape(wording.side_line(comparison.before))}"
    yield f"- after: {escape(wording.side_line(comparison.after))}"
    yield from ("", "## Findings", "", escape(wording.tally(comparison.findings)), "")
    changed = [
        each for each in comparison.findings if page.verbose or each.change is not Change.UNCHANGED
    ]
    if changed:
        shown = changed if page.verbose else changed[:_FINDINGS]
        yield from table(_FINDING_COLUMNS, shown)
        yield from _more_line(len(changed) - len(shown))
    yield from ("## Measures", "", escape(wording.measure_tally(comparison)), "")
    significant = wording.significant_measures(comparison)
    if significant:
        listed = significant if page.verbose else significant[:_MEASURES]
        yield from table(wording.MEASURE_COLUMNS, listed)
        yield from _more_line(len(significant) - len(listed))
    if comparison.doubts:
        yield from ("## Not comparable", "")
        yield from (f"- {escape(doubt)}" for doubt in comparison.doubts[:_FINDINGS])
        yield ""


def _more_line(hidden: int) -> Iterator[str]:
    if hidden > 0:
        yield from (f"and {hidden} more", "")
