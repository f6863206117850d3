"""Renders a comparison for the terminal: the changes first, the result last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.text import grid as g
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page
from flowdiag.cli.views.findings import severity_text

_STYLES: Final = {
    Change.NEW: "bold red",
    Change.WORSE: "bold red",
    Change.NOT_COMPARABLE: "bold magenta",
    Change.MOVED: "yellow",
    Change.GONE: "green",
    Change.BETTER: "green",
}
_FINDINGS: Final = 20
_MEASURES: Final = 15
_TITLE: Final = 160  # characters
_REASON: Final = 240


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison as text, with ANSI escapes on a page with color."""
    sides = g.Aligned(
        (Text(label, "bold"), g.unbroken_line(wording.side_line(side)))
        for label, side in (("Before", comparison.before), ("After", comparison.after))
    )
    blocks = [sides, _findings(comparison.findings, page), _measures(comparison, page)]
    if comparison.doubts and (page.verbose or not comparison.conclusive):
        shown = comparison.doubts if page.verbose else comparison.doubts[:5]
        lines = [g.line(text if page.verbose else words.truncate(text, _REASON)) for text in shown]
        blocks.append(
            g.block("Not comparable", *lines, *g.and_more(len(comparison.doubts) - len(shown)))
        )
    title = g.heading("Verdict")
    style = g.VERDICT_STYLES.get(comparison.after.verdict.value, "bold")
    title.append("  ")
    title.append(g.line(wording.verdict_change(comparison), style))
    last = "bold red" if comparison.regression else "bold green"
    if not comparison.regression and not comparison.conclusive:
        last = "bold magenta"
    return g.render_blocks(
        [*blocks, Group(title, g.Indented(g.line(wording.conclusion(comparison), last)))],
        page,
        apart=True,
    )


def _findings(changes: Sequence[FindingChange], page: Page) -> RenderableType:
    shown = [each for each in changes if page.verbose or each.change is not Change.UNCHANGED]
    rows = [
        (
            Text(wording.change_word(each), _STYLES.get(each.change, "dim")),
            severity_text(wording.current(each).severity),
            Text(each.code, "dim"),
            _finding(each, page),
        )
        for each in (shown if page.verbose else shown[:_FINDINGS])
    ]
    title = g.heading("Findings", wording.tally(changes))
    return g.block(title, g.Aligned(rows), *g.and_more(len(shown) - len(rows))) if rows else title


def _finding(change: FindingChange, page: Page) -> Text:
    title = wording.title(change)
    text = g.line(title if page.verbose else words.truncate(title, _TITLE))
    for detail in wording.details(change):
        shown = g.line(detail if page.verbose else words.truncate(detail, _REASON))
        text.append(f" · {shown.plain}", "dim")
    if page.verbose:
        text.append(f" · {change.fingerprint}", "dim")
    return text


def _measures(comparison: Comparison, page: Page) -> RenderableType:
    significant = wording.significant_measures(comparison)
    shown = list(comparison.measures) if page.verbose else significant
    title = g.heading("Measures", wording.measure_tally(comparison))
    if not shown:
        return title
    listed = shown if page.verbose else shown[:_MEASURES]
    table = g.Listing(listed, *wording.MEASURE_COLUMNS)
    blocks: list[RenderableType] = [g.block(title, table, *g.and_more(len(shown) - len(listed)))]
    rows = []
    for each in listed:
        if each.reason:
            subject = g.line(f"{wording.measured_subject(each)}: ")
            subject.append(g.line(each.reason, "dim"))
            rows.append((Text(f"{wording.measure_name(each)} of"), subject))
    if rows:
        blocks += [Text(), g.block("Measures without a result", g.Aligned(rows))]
    return Group(*blocks)
