"""What changed from one round to the next, for people: when, the verdict, and a line for each finding."""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.report.changes import Change, Kind, Round, Standing
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import VERDICT_STYLES, Aligned, Indented, line, render_blocks
from flowdiag.cli.text.words import Clock
from flowdiag.cli.text.zones import shown_zone

_KINDS: Final = {
    Kind.NEW: "bold red",
    Kind.WORSE: "red",
    Kind.BETTER: "green",
    Kind.GONE: "green",
    Kind.NOT_ASSESSED: "yellow",
}
_TITLE: Final = 300  # characters
_MOST: Final = 40  # lines of one round


def changes_text(this: Round, page: Page) -> str:
    """The round as text; empty where nothing changed."""
    if not this.changes and this.verdict == this.verdict_before:
        return ""
    name, zone = shown_zone(page.zone or "UTC")
    clock = Clock(name, zone)
    head = Text.assemble(
        (f"{clock.show(this.time)} {clock.name}", "bold"), f"  round {this.round}  "
    )
    if this.verdict_before is not None and this.verdict != this.verdict_before:
        head.append(f"{this.verdict_before} → ", "dim")
    head.append(str(this.verdict), VERDICT_STYLES.get(this.verdict or "", "bold"))
    rows: list[tuple[RenderableType, ...]] = [
        (
            Text(each.change.replace("-", " "), _KINDS[each.change]),
            Text(_how(each)),
            line(f"{each.code} {words.truncate(words.compact(each.title), _TITLE)}"),
        )
        for each in this.changes[:_MOST]
    ]
    blocks: list[RenderableType] = [head]
    if rows:
        blocks.append(Indented(Aligned(rows)))
    if len(this.changes) > _MOST:
        blocks.append(Indented(Text(f"and {len(this.changes) - _MOST} more", "dim")))
    return render_blocks(blocks, page)


def _how(change: Change) -> str:
    before, after = change.before, change.after
    if before is not None and after is not None:
        return f"{_word(before)} → {_word(after)}"
    one = after or before
    return _word(one) if one is not None else ""


def _word(standing: Standing) -> str:
    over = "" if standing.state == "ongoing" else ", recovered"
    return f"{standing.severity}{over}"
