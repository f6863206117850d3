"""What every view is built of: listings, headings, lines of text; the same frame everywhere.

Everything is `Text`, never markup: names and excerpts come from logs. A place in a file is never broken
into lines, however narrow the terminal: what is copied must be whole.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.containers import Lines
from rich.segment import Segment
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
_LINK_ID: Final = re.compile(r"\x1b\]8;id=[^;\x1b]*;")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_GAP: Final = 2  # between a column and the next
_NARROWEST: Final = 12  # a name is folded where it must be, but not into less than this
_ASCII: Final = str.maketrans(
    {"·": "-", "…": "~", "×": "x", "→": ">", "–": "-", "▌": "|", "│": "|", "─": "-"}
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell that may be drawn shorter, since it only shows what a number beside it says.

    Args:
        draw: it, in so many columns.
        most: columns where there is room.
        least: columns below which it shows nothing any more.
    """

    draw: Callable[[int], Text]
    most: int
    least: int = 4


Cell = Text | str | Bar | None


@dataclass(frozen=True, slots=True)
class Column:
    """One question, answered for each row.

    Args:
        title: over the column; empty where the cells speak for themselves.
        value: of a row: text (from a log too, it is made printable), or what is shown as it is;
            None where nobody knows.
        fit: on which side it stands, and whether it is the first that is folded where room is short.
        most: columns that it takes at most.
    """

    title: str
    value: Callable[[Any], Cell]
    fit: Fit = "right"
    most: int | None = None


class Listing:
    """The rows under each other: a dash where a value is None.

    Where room is short the bars give way, then names are folded, then everything is folded between its
    words; where that is not enough, what a row says stands below each other. No number is ever cut.
    """

    def __init__(
        self,
        rows: Iterable[Any],
        columns: Sequence[Column],
        heads: str | None,
        style: Callable[[Any], str] | None,
    ) -> None:
        """Ask the columns about every row.

        Args:
            rows: whatever the columns ask.
            columns: from left to right.
            heads: how the titles look; None leaves them out.
            style: how the text of a row looks.
        """
        self._columns = columns
        self._heads = heads
        self._rows = [
            tuple(_cell(column.value(row), style(row) if style else "") for column in columns)
            for row in rows
        ]

    @cached_property
    def _limits(self) -> list[tuple[int, int]]:
        """The widest line of each column, and its longest word."""
        found = []
        for index, column in enumerate(self._columns):
            cells = [row[index] for row in self._rows]
            texts = [cell for cell in cells if isinstance(cell, Text)]
            titled = self._heads is not None and not self._drawn(index)
            texts += [Text(column.title)] if titled else []
            bars = [cell.most for cell in cells if isinstance(cell, Bar)]
            widest = max([line.cell_len for text in texts for line in text.split()] + bars + [0])
            word = max([Text(w).cell_len for text in texts for w in text.plain.split()] + [0])
            found.append((min(widest, column.most or widest), min(word, column.most or word)))
        return found

    def _drawn(self, index: int) -> bool:
        return any(isinstance(row[index], Bar) for row in self._rows)

    def _widths(self, room: int) -> list[int] | None:
        """Columns for each column, 0 where it is left out; None: they do not fit beside each other."""
        columns = self._columns
        widths = [widest for widest, _ in self._limits]
        bars = {
            index: max(cell.least for row in self._rows if isinstance(cell := row[index], Bar))
            for index in range(len(columns))
            if self._drawn(index)
        }
        names = [i for i, c in enumerate(columns) if c.fit.endswith("wrap") and i not in bars]
        others = [i for i in range(len(columns)) if i not in bars and i not in names]
        words = [word for _, word in self._limits]
        _squeeze(widths, bars, room)
        _squeeze(widths, {i: words[i] for i in names}, room)
        if _taken(widths) > room:
            for index in bars:
                widths[index] = 0
        _squeeze(widths, {i: words[i] for i in others}, room)
        _squeeze(widths, {i: min(words[i], _NARROWEST) for i in names}, room)
        return widths if _taken(widths) <= room else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out for the room there is."""
        widths = self._widths(options.max_width)
        yield from self._stacked() if widths is None else [self._table(widths)]

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(
            box=None,
            padding=(0, _GAP, 0, 0),
            pad_edge=False,
            show_header=self._heads is not None,
            header_style=self._heads or "",
        )
        shown = [index for index, width in enumerate(widths) if width]
        for index in shown:
            column = self._columns[index]
            # A bar may be shorter than what it is called; it is known by its neighbours.
            short = self._drawn(index) and len(column.title) > widths[index]
            table.add_column(
                "" if short else column.title,
                justify="right" if column.fit.startswith("right") else "left",
                width=widths[index],
                overflow="fold",
            )
        for row in self._rows:
            table.add_row(*(_drawn(row[index], widths[index]) for index in shown))
        return table

    def _stacked(self) -> Iterator[RenderableType]:
        """Each row as its first column, and below it what the others say."""
        for first, *rest in self._rows:
            yield _drawn(first, _NARROWEST)
            said = Text()
            for column, cell in zip(self._columns[1:], rest, strict=True):
                if isinstance(cell, Bar) or not cell.plain:
                    continue
                said.append(" · " if said else "")
                said.append(f"{column.title} " if column.title and self._heads is not None else "")
                said.append(cell)
            if said:
                yield under(said)


def _cell(value: Cell, look: str) -> Text | Bar:
    if value is None or isinstance(value, str):
        return Text("-" if value is None else printable(value), look)
    return value


def _drawn(cell: Text | Bar, width: int) -> Text:
    return cell.draw(width) if isinstance(cell, Bar) else cell


def _taken(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + _GAP * max(0, len(shown) - 1)


def _squeeze(widths: list[int], least: dict[int, int], room: int) -> None:
    """Take from the widest of some columns, one by one, until all fit or none can give more."""
    for _ in range(max(0, _taken(widths) - room)):
        able = [index for index, low in least.items() if widths[index] > low]
        if not able:
            return
        widths[max(able, key=lambda index: widths[index])] -= 1


def listing(
    rows: Iterable[Any],
    *columns: Column,
    heads: str | None = "bold",
    style: Callable[[Any], str] | None = None,
) -> Listing:
    """The rows under each other; arguments as those of `Listing`."""
    return Listing(rows, columns, heads, style)


class Indented:
    """Something moved to the right; what must not be broken stays whole.

    Args:
        content: what is moved.
        indent: columns.
        most: columns that it fills at most.
    """

    def __init__(self, content: RenderableType, indent: int, most: int | None = None) -> None:
        """Keep what is moved."""
        self._content, self._indent, self._most = content, indent, most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its lines, each with blanks before it."""
        room = max(1, options.max_width - self._indent)
        for parts in _lines(console, options, self._content, min(room, self._most or room)):
            if parts:
                yield Segment(" " * self._indent)
                yield from parts
            yield Segment.line()


class Aligned:
    """Rows whose last cell has the room that is left, the others standing under each other."""

    def __init__(self, rows: Iterable[tuple[RenderableType, ...]]) -> None:
        """Keep the rows."""
        self._rows = [tuple(_text(cell) for cell in row) for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out for the room there is; where too little is left, the last cell stands below."""
        left = [row[:-1] for row in self._rows]
        widths = [max(_width(cell) for cell in cells) for cells in zip(*left, strict=True)]
        indent = sum(width + _GAP for width in widths)
        beside = options.max_width - indent >= 2 * _NARROWEST
        for *first, last in self._rows:
            said = Text()
            for cell, width in zip(first, widths, strict=True):
                said.append(cell if isinstance(cell, Text) else "")
                said.append(" " * (width + _GAP - _width(cell)))
            if not beside:
                yield said
                yield under(last)
                continue
            yield from _beside(said, _lines(console, options, last, options.max_width - indent))


def _beside(said: Text, lines: Iterable[list[Segment]]) -> Iterator[RenderableType | Segment]:
    for number, parts in enumerate(lines):
        if number:
            yield Segment(" " * said.cell_len)
        else:
            said.end = ""
            yield said
        yield from parts
        yield Segment.line()


def _text(cell: RenderableType) -> RenderableType:
    return Text(cell) if isinstance(cell, str) else cell


def _width(cell: RenderableType) -> int:
    return cell.cell_len if isinstance(cell, Text) else 0


def _lines(
    console: Console, options: ConsoleOptions, content: RenderableType, width: int
) -> Iterator[list[Segment]]:
    """The lines of something laid out in so many columns, wider where it must not be broken."""
    inner = options.update(width=max(1, width))
    yield from Segment.split_lines(console.render(content, inner))


def aligned(rows: Iterable[tuple[RenderableType, ...]]) -> Aligned:
    """Cells of the same column under each other, without heads."""
    return Aligned(rows)


def under(content: RenderableType, indent: int = 2, most: int | None = None) -> Indented:
    """Something that belongs to what stands above it, in at most so many columns."""
    return Indented(content, indent, most)


class Whole(Text):
    """Text that is broken between its words only, however long one of them is."""

    def wrap(self, console: Console, width: int, **_: Any) -> Lines:
        """Its lines, wider than `width` where a word is."""
        breaks, column = [], 0
        for word in re.finditer(r"\S+\s*", self.plain):
            length = cell_len(word[0].rstrip())
            if column and column + length > width:
                breaks.append(word.start())
                column = 0
            column += cell_len(word[0])
        lines = self.divide(breaks)
        for each in lines:
            each.rstrip()
        return lines


def line(text: str, style: str = "") -> Text:
    """Text that may come from a log: made printable, folded where it is too long."""
    return Text(printable(text), style=style, overflow="fold")


def whole(text: str, style: str = "") -> Text:
    """The same for text with paths, which stay whole: it is wrapped between words only."""
    return Whole(printable(text), style=style)


def heading(title: str, rest: str = "") -> Text:
    """The first line of a block; `rest` is printable."""
    said = Whole(title, "")
    said.stylize("bold")
    said.append("  " + rest if rest else "")
    return said


def judged(title: str, rest: str, verdict: str) -> Text:
    """The heading of what has a verdict of its own, which ends it."""
    said = heading(title, rest)
    said.append(" · ")
    said.append(verdict, VERDICT_STYLES.get(verdict, "bold"))
    return said


def block(title: str | Text, *lines: RenderableType) -> Group:
    """A heading and what stands below it."""
    return Group(heading(title) if isinstance(title, str) else title, *map(under, lines))


def more(hidden: int, what: str = "", hint: str = " (-v lists all)") -> list[Text]:
    """That a list goes on; nothing where it does not.

    >>> [text.plain for text in more(3)], more(0)
    (['… and 3 more (-v lists all)'], [])
    """
    named = f" {what}" if what else ""
    return [Text(f"… and {hidden} more{named}{hint}", "dim")] if hidden > 0 else []


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
        force_terminal=page.colour or page.hyperlinks,
        color_system="standard" if page.colour or page.hyperlinks else None,
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
        drawing = partial(_text_of, console, part)
        out.writelines(page.section("this part", drawing, lambda text: f"{text}\n"))
    shown = _LINK_ID.sub("\x1b]8;;", out.getvalue())  # the same report, the same bytes
    if not page.colour:
        shown = _COLOUR.sub("", shown)
    # Tables fill their last column with blanks; nobody wants them in a file or a paste.
    text = re.sub(r"[ \t]+$", "", shown, flags=re.MULTILINE)
    return text if page.unicode else text.translate(_ASCII)


def _text_of(console: Console, part: RenderableType) -> Iterator[str]:
    """One block as text; nothing of it where it can be drawn only in part."""
    with console.capture() as shown:
        console.print(Group(part), crop=False)  # as it is: print would make other text of text
    yield shown.get()
