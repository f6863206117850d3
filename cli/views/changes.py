"""Shows what changed since the previous round: the time, the verdict, and a line for each finding."""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.report.changes import Change, Kind, Round
from flowdiag.analyses.selection.zones import shown_zone
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import VERDICT_STYLES, Aligned, Indented, line, render_blocks
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.words import Clock

_STYLES: Final = {
    Kind.NEW: "bold red",
    Kind.WORSE: "red",
    Kind.BETTER: "green",
    Kind.GONE: "green",
    Kind.NOT_ASSESSED: "yellow",
}
_TITLE: Final = 300  # characters
_LINES: Final = 40  # maximum number of lines per round


def changes_text(this: Round, page: Page) -> str:
    """Return the text of a round, empty if nothing changed."""
    if not this.changes and this.verdict == this.verdict_before:
        return ""
    clock = Clock(*shown_zone(page.zone or "UTC"))
    head = Text.assemble(
        (f"{clock.show(this.time)} {clock.name}", "bold"), f"  round {this.round}  "
    )
    if this.verdict_before is not None and this.verdict != this.verdict_before:
        head.append(f"{this.verdict_before} → ", "dim")
    head.append(str(this.verdict), VERDICT_STYLES.get(this.verdict or "", "bold"))
    rows: list[tuple[RenderableType, ...]] = [
        (
            Text(each.change.replace("-", " "), _STYLES[each.change]),
            Text(_severity_change(each)),
            line(f"{each.code} {words.truncate(words.compact(each.title), _TITLE)}"),
        )
        for each in this.changes[:_LINES]
    ]
    blocks: list[RenderableType] = [head]
    if rows:
        blocks.append(Indented(Aligned(rows)))
    if len(this.changes) > _LINES:
        blocks.append(Indented(Text(f"and {len(this.changes) - _LINES} more", "dim")))
    return render_blocks(blocks, page)


def _severity_change(change: Change) -> str:
    return " → ".join(
        f"{each.severity}{'' if each.state == 'ongoing' else ', recovered'}"
        for each in (change.before, change.after)
        if each is not None
    )
