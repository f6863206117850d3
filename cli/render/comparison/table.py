"""The comparison for people in a terminal: what changed, and last what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange, Measure, Trend
from flowdiag.cli.render.comparison import said
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import (
    VERDICT_STYLES,
    Column,
    aligned,
    block,
    drawn,
    heading,
    line,
    listing,
    more,
    under,
    whole,
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
    return drawn(blocks, page, apart=True)


def _sides(comparison: Comparison) -> RenderableType:
    return aligned(
        (Text(label, "bold"), whole(said.side(side)))
        for label, side in (("Before", comparison.before), ("After", comparison.after))
    )


def _findings(found: Sequence[FindingChange], page: Page) -> RenderableType:
    shown = [one for one in found if page.verbose or one.change is not Change.UNCHANGED]
    rows = [
        (
            Text(said.word(one), _STYLES.get(one.change, "dim")),
            severity(said.seen_of(one).severity),
            Text(one.code, "dim"),
            _finding(one, page),
        )
        for one in (shown if page.verbose else shown[:_FINDINGS])
    ]
    title = heading("Findings", said.tally(found))
    return block(title, aligned(rows), *more(len(shown) - len(rows))) if rows else title


def _finding(one: FindingChange, page: Page) -> Text:
    told = said.title(one)
    text = line(told if page.verbose else words.cut(told, _TITLE))
    for detail in said.details(one):
        text.append(
            f" · {line(detail if page.verbose else words.cut(detail, _REASON)).plain}", "dim"
        )
    if page.verbose:
        text.append(f" · {one.fingerprint}", "dim")
    return text


def _measures(comparison: Comparison, page: Page) -> RenderableType:
    shown = list(comparison.measures) if page.verbose else said.claimed(comparison)
    title = heading("Measures", said.measured(comparison))
    if not shown:
        return title
    listed = shown if page.verbose else shown[:_MEASURES]
    table = listing(
        listed,
        Column("measure", said.name, "left"),
        Column("of", said.whose, "wrap"),
        Column("before", lambda one: said.value(one.before, one.unit)),
        Column("after", lambda one: said.value(one.after, one.unit)),
        Column("change", _change, "left"),
        Column("by chance", said.chance),
    )
    blocks: list[RenderableType] = [block(title, table, *more(len(shown) - len(listed)))]
    untold = [one for one in listed if one.reason]
    if untold:
        rows = [(Text(f"{said.name(one)} of"), _why(one)) for one in untold]
        blocks += [Text(), block("Measures that cannot be told", aligned(rows))]
    return Group(*blocks)


def _change(one: Measure) -> Text:
    return Text(said.change(one), _TRENDS.get(one.change, ""))


def _why(one: Measure) -> Text:
    said_of = line(f"{said.whose(one)}: ")
    said_of.append(line(one.reason or "", "dim"))
    return said_of


def _doubts(doubts: Sequence[str], page: Page) -> RenderableType:
    shown = doubts if page.verbose else doubts[:5]
    lines = [line(text if page.verbose else words.cut(text, _REASON)) for text in shown]
    return block("Not comparable", *lines, *more(len(doubts) - len(shown)))


def _conclusion(comparison: Comparison) -> RenderableType:
    """The last block, and in it what matters most last."""
    title = heading("Verdict")
    style = VERDICT_STYLES.get(comparison.after.verdict.value, "bold")
    title.append("  ")
    title.append(line(said.verdicts(comparison), style))
    last = "bold red" if comparison.regression else "bold green"
    if not comparison.regression and not comparison.conclusive:
        last = "bold magenta"
    return Group(title, under(line(said.conclusion(comparison), last)))
