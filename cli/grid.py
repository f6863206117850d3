"""What every view is built of: listings, headings, lines of text; the same frame everywhere.

Everything is `Text`, never markup: names and excerpts come from logs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.report.redact import printable
from flowdiag.cli.render.page import Page

Fit = Literal["left", "right", "wrap", "right-wrap"]

VERDICT_STYLES: Final = {
    "failing": "bold red",
    "degraded": "bold yellow",
    "inconclusive": "bold magenta",
    "healthy": "bold green",
}
_GAP: Final = (0, 2, 0, 0)  # between a column and the next
_ASCII: Final = str.maketrans(
    {"·": "-", "…": "~", "×": "x", "→": ">", "–": "-", "▌": "|", "│": "|", "─": "-"}
)


@dataclass(frozen=True, slots=True)
class Column:
    """One question, answered for each row.

    Args:
        title: over the column; empty where the cells speak for themselves.
        value: of a row: text (from a log too, it is made printable), or what is shown as it is;
            None where nobody knows.
        fit: on which side it stands, and whether it may be folded; what may not be is cut only
            where nothing else can give way.
        most: columns that it takes at most.
    """

    title: str
    value: Callable[[Any], RenderableType | None]
    fit: Fit = "right"
    most: int | None = None


def listing(
    rows: Iterable[Any],
    *columns: Column,
    heads: str | None = "bold",
    style: Callable[[Any], str] | None = None,
) -> Table:
    """The rows under each other: a dash where a value is None.

    Args:
        rows: whatever the columns ask.
        columns: from left to right.
        heads: how the titles look; None leaves them out.
        style: how the text of a row looks.
    """
    table = Table(
        box=None,
        padding=_GAP,
        pad_edge=False,
        show_header=heads is not None,
        header_style=heads or "",
    )
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.fit.startswith("right") else "left",
            no_wrap=not column.fit.endswith("wrap"),
            overflow="fold" if column.fit.endswith("wrap") else "ellipsis",
            max_width=column.most,
        )
    for row in rows:
        look = style(row) if style is not None else ""
        table.add_row(*(_cell(column.value(row), look) for column in columns))
    return table


def _cell(value: RenderableType | None, look: str) -> RenderableType:
    if value is None or isinstance(value, str):
        return Text("-" if value is None else printable(value), look)
    return value


def aligned(rows: Iterable[tuple[RenderableType, ...]]) -> Table:
    """Cells of the same column under each other, without heads; they are folded, never cut."""
    table = Table.grid(padding=_GAP)
    for row in rows:
        if not table.columns:
            for _ in row:
                table.add_column(overflow="fold")
        table.add_row(*row)
    return table


def under(content: RenderableType, indent: int = 2) -> Padding:
    """Something that belongs to what stands above it."""
    return Padding(content, (0, 0, 0, indent))


def line(text: str, style: str = "") -> Text:
    """Text that may come from a log: made printable, folded where it is too long."""
    return Text(printable(text), style=style, overflow="fold")


def heading(title: str, rest: str = "") -> Text:
    """The first line of a block; `rest` is printable."""
    return Text.assemble((title, "bold"), ("  " + rest if rest else "", ""))


def judged(title: str, rest: str, verdict: str) -> Text:
    """The heading of what has a verdict of its own, which ends it."""
    said = heading(title, rest)
    said.append(" · ")
    said.append(verdict, VERDICT_STYLES.get(verdict, "bold"))
    return said


def block(title: str | Text, *lines: RenderableType) -> Group:
    """A heading and what stands below it."""
    return Group(heading(title) if isinstance(title, str) else title, *map(under, lines))


def more(hidden: int) -> list[Text]:
    """That a list goes on; nothing where it does not.

    >>> [text.plain for text in more(3)], more(0)
    (['… and 3 more (-v lists all)'], [])
    """
    return [Text(f"… and {hidden} more (-v lists all)", "dim")] if hidden > 0 else []


def drawn(blocks: Iterable[RenderableType], page: Page, *, apart: bool = False) -> str:
    """The blocks as text, with escapes for colour where the page has colour.

    Args:
        blocks: one below the other.
        page: where the text goes.
        apart: with an empty line between them.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=page.width,
        force_terminal=page.colour,
        color_system="standard" if page.colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        safe_box=not page.unicode,
    )
    for index, part in enumerate(blocks):
        if index and apart:
            console.print()
        console.print(part)
    # Tables fill their last column with blanks; nobody wants them in a file or a paste.
    text = re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)
    return text if page.unicode else text.translate(_ASCII)
