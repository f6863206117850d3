"""The comparison for people in a terminal: what changed, and last what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange, Measure, Trend
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import (
    VERDICT_STYLES,
    Aligned,
    Column,
    Indented,
    Listing,
    and_more,
    block,
    heading,
    line,
    render_blocks,
    unbroken,
)
from flowdiag.cli.views.findings import severity

_STYLES: Final = {
    Change.NEW: "bold red",
    Change.WORSE: "bold red",
    Change.NOT_COMPARABLE: "bold magenta",
    Change.MOVED: "yellow",
    Change.GONE: "green",
    Change.BETTER: "green",
}
_TRENDS: Final = {Trend.WORSE: "bold red", Trend.BETTER: "green", Trend.UNKNOWN: "dim"}
_FINDINGS: Final = 20
_MEASURES: Final = 15
_TITLE: Final = 160  # characters
_REASON: Final = 240


def render(comparison: Comparison, page: Page) -> str:
    """The comparison as text, with escapes for colour where the page has colour."""
    blocks: list[RenderableType] = [_sides(comparison)]
    blocks.append(_findings(comparison.findings, page))
    blocks.append(_measures(comparison, page))
    if comparison.doubts and (page.verbose or not comparison.conclusive):
        blocks.append(_doubts(comparison.doubts, page))
    blocks.append(_conclusion(comparison))
    return render_blocks(blocks, page, apart=True)


def _sides(comparison: Comparison) -> RenderableType:
    return Aligned(
        (Text(label, "bold"), unbroken(wording.side_line(side)))
        for label, side in (("Before", comparison.before), ("After", comparison.after))
    )


def _findings(found: Sequence[FindingChange], page: Page) -> RenderableType:
    shown = [one for one in found if page.verbose or one.change is not Change.UNCHANGED]
    rows = [
        (
            Text(wording.change_word(one), _STYLES.get(one.change, "dim")),
            severity(wording.current(one).severity),
            Text(one.code, "dim"),
            _finding(one, page),
        )
        for one in (shown if page.verbose else shown[:_FINDINGS])
    ]
    title = heading("Findings", wording.tally(found))
    return block(title, Aligned(rows), *and_more(len(shown) - len(rows))) if rows else title


def _finding(one: FindingChange, page: Page) -> Text:
    told = wording.title(one)
    text = line(told if page.verbose else words.truncate(told, _TITLE))
    for detail in wording.details(one):
        text.append(
            f" · {line(detail if page.verbose else words.truncate(detail, _REASON)).plain}", "dim"
        )
    if page.verbose:
        text.append(f" · {one.fingerprint}", "dim")
    return text


def _measures(comparison: Comparison, page: Page) -> RenderableType:
    shown = list(comparison.measures) if page.verbose else wording.significant_measures(comparison)
    title = heading("Measures", wording.measure_tally(comparison))
    if not shown:
        return title
    listed = shown if page.verbose else shown[:_MEASURES]
    table = Listing(
        listed,
        Column("measure", wording.measure_name, "left"),
        Column("of", wording.measured_subject, "wrap"),
        Column("before", lambda one: wording.value_text(one.before, one.unit)),
        Column("after", lambda one: wording.value_text(one.after, one.unit)),
        Column("change", _change, "left"),
        Column("by chance", wording.chance_text),
    )
    blocks: list[RenderableType] = [block(title, table, *and_more(len(shown) - len(listed)))]
    untold = [one for one in listed if one.reason]
    if untold:
        rows = [(Text(f"{wording.measure_name(one)} of"), _why(one)) for one in untold]
        blocks += [Text(), block("Measures that cannot be told", Aligned(rows))]
    return Group(*blocks)


def _change(one: Measure) -> Text:
    return Text(wording.change_text(one), _TRENDS.get(one.change, ""))


def _why(one: Measure) -> Text:
    said_of = line(f"{wording.measured_subject(one)}: ")
    said_of.append(line(one.reason or "", "dim"))
    return said_of


def _doubts(doubts: Sequence[str], page: Page) -> RenderableType:
    shown = doubts if page.verbose else doubts[:5]
    lines = [line(text if page.verbose else words.truncate(text, _REASON)) for text in shown]
    return block("Not comparable", *lines, *and_more(len(doubts) - len(shown)))


def _conclusion(comparison: Comparison) -> RenderableType:
    """The last block, and in it what matters most last."""
    title = heading("Verdict")
    style = VERDICT_STYLES.get(comparison.after.verdict.value, "bold")
    title.append("  ")
    title.append(line(wording.verdict_change(comparison), style))
    last = "bold red" if comparison.regression else "bold green"
    if not comparison.regression and not comparison.conclusive:
        last = "bold magenta"
    return Group(title, Indented(line(wording.conclusion(comparison), last)))
