"""Lays out terminal text: tables, aligned rows, headings and indented blocks.

Everything is `Text`, never markup: names and excerpts come from logs. Paths are never wrapped, however narrow the
terminal, so that a reader can copy them.
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

from flowdiag.analyses.contract.redact import printable
from flowdiag.cli.text.page import Page

Fit = Literal["left", "right", "wrap", "right-wrap"]

VERDICT_STYLES: Final = {
    "failing": "bold red",
    "degraded": "bold yellow",
    "inconclusive": "bold magenta",
    "healthy": "bold green",
}
_LINK_ID: Final = re.compile(r"\x1b\]8;id=[^;\x1b]*;")
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_GAP: Final = 2  # columns of space between table columns
_NARROWEST: Final = 12  # wrapped names get at least this width
_ASCII: Final = str.maketrans(
    {"·": "-", "…": "~", "×": "x", "→": ">", "–": "-", "▌": "|", "│": "|", "─": "-"}
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of variable width in a cell. A neighboring column contains the exact value.

    Args:
        draw: returns the bar in the given number of columns.
        most: the preferred width.
        least: the width below which the bar is omitted.
    """

    draw: Callable[[int], Text]
    most: int
    least: int = 4


Cell = Text | str | Bar | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, for terminal, Markdown and HTML alike.

    Args:
        title: the heading; empty for cells that need none.
        value: returns the cell of a row. Text from logs is made printable; None becomes a dash.
        fit: the alignment. When space is short, columns with `wrap` are wrapped first.
        most: the maximum width.
    """

    title: str
    value: Callable[[Any], Cell]
    fit: Fit = "right"
    most: int | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether cells are aligned to the right."""
        return self.fit.startswith("right")

    def text(self, row: Any) -> str:
        """Return the cell of a row without style, and an empty string for a bar."""
        cell = self.value(row)
        if isinstance(cell, Text):
            return cell.plain
        return "-" if cell is None else "" if isinstance(cell, Bar) else cell


class Listing:
    """A table for the terminal.

    When space is short, bars shrink, then names wrap, then all cells wrap between words. If that is not enough, each
    row becomes a paragraph. Numbers are never cut.
    """

    def __init__(
        self,
        rows: Iterable[Any],
        *columns: Column,
        heads: str | None = "bold",
        style: Callable[[Any], str] | None = None,
    ) -> None:
        """Compute the cells of all rows.

        Args:
            rows: the arguments of `Column.value`.
            columns: from left to right.
            heads: the style of the headings; None omits them.
            style: returns the style of a row.
        """
        self._columns = columns
        self._heads = heads
        self._rows = [
            tuple(_cell(column.value(row), style(row) if style else "") for column in columns)
            for row in rows
        ]

    @cached_property
    def _limits(self) -> list[tuple[int, int]]:
        """The widths of the longest line and the longest word of each column."""
        found = []
        for index, column in enumerate(self._columns):
            cells = [row[index] for row in self._rows]
            texts = [cell for cell in cells if isinstance(cell, Text)]
            titled = self._heads is not None and not self._has_bars(index)
            texts += [Text(column.title)] if titled else []
            bars = [cell.most for cell in cells if isinstance(cell, Bar)]
            widest = max([line.cell_len for text in texts for line in text.split()] + bars + [0])
            word = max([Text(w).cell_len for text in texts for w in text.plain.split()] + [0])
            found.append((min(widest, column.most or widest), min(word, column.most or word)))
        return found

    def _has_bars(self, index: int) -> bool:
        return any(isinstance(row[index], Bar) for row in self._rows)

    def _widths(self, room: int) -> list[int] | None:
        """Return the width of each column, 0 for an omitted column, or None if they do not fit side by side."""
        widths = [widest for widest, _ in self._limits]
        bars: dict[int, int] = {}  # by index, with the least width
        names: dict[int, int] = {}
        others: dict[int, int] = {}
        for index, (column, (_, word)) in enumerate(zip(self._columns, self._limits, strict=True)):
            least = [cell.least for row in self._rows if isinstance(cell := row[index], Bar)]
            group = bars if least else names if column.fit.endswith("wrap") else others
            group[index] = max(least, default=word)
        _squeeze(widths, bars, room)
        _squeeze(widths, names, room)
        if _total_width(widths) > room:
            for index in bars:
                widths[index] = 0
        _squeeze(widths, others, room)
        _squeeze(widths, {i: min(word, _NARROWEST) for i, word in names.items()}, room)
        return widths if _total_width(widths) <= room else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table, or paragraphs if the columns do not fit."""
        widths = self._widths(options.max_width)
        yield from self._paragraphs() if widths is None else [self._table(widths)]

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
            # A bar narrower than its heading loses the heading; the next column explains it.
            short = self._has_bars(index) and len(column.title) > widths[index]
            table.add_column(
                "" if short else column.title,
                justify="right" if column.is_numeric else "left",
                width=widths[index],
                overflow="fold",
            )
        for row in self._rows:
            table.add_row(*(_draw(row[index], widths[index]) for index in shown))
        return table

    def _paragraphs(self) -> Iterator[RenderableType]:
        """Yield the first cell of each row, and the other cells in one indented line."""
        for first, *rest in self._rows:
            yield _draw(first, _NARROWEST)
            text = Text()
            for column, cell in zip(self._columns[1:], rest, strict=True):
                if isinstance(cell, Bar) or not cell.plain:
                    continue
                text.append(" · " if text else "")
                text.append(f"{column.title} " if column.title and self._heads is not None else "")
                text.append(cell)
            if text:
                yield Indented(text)


def _cell(value: Cell, style: str) -> Text | Bar:
    if value is None or isinstance(value, str):
        return Text("-" if value is None else printable(value), style)
    return value


def _draw(cell: Text | Bar, width: int) -> Text:
    return cell.draw(width) if isinstance(cell, Bar) else cell


def _total_width(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + _GAP * max(0, len(shown) - 1)


def _squeeze(widths: list[int], least: dict[int, int], room: int) -> None:
    """Narrow the widest columns step by step until all columns fit or none can shrink further."""
    for _ in range(max(0, _total_width(widths) - room)):
        able = [index for index, low in least.items() if widths[index] > low]
        if not able:
            return
        widths[max(able, key=lambda index: widths[index])] -= 1


class Indented:
    """A block moved to the right. Paths in the block stay whole.

    Args:
        content: the block.
        indent: the columns before each line.
        most: the maximum width of a line.
    """

    def __init__(self, content: RenderableType, indent: int = 2, most: int | None = None) -> None:
        self._content, self._indent, self._most = content, indent, most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the indented lines of the block."""
        room = max(1, options.max_width - self._indent)
        for parts in _lines(console, options, self._content, min(room, self._most or room)):
            if parts:
                yield Segment(" " * self._indent)
                yield from parts
            yield Segment.line()


class Aligned:
    """Rows in columns without headings; the last cell gets the remaining width and may be a block."""

    def __init__(self, rows: Iterable[tuple[RenderableType, ...]]) -> None:
        self._rows = [
            tuple(Text(cell) if isinstance(cell, str) else cell for cell in row) for row in rows
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows; if too little width remains, the last cell moves to the next line."""
        left = [row[:-1] for row in self._rows]
        widths = [max(_width(cell) for cell in cells) for cells in zip(*left, strict=True)]
        indent = sum(width + _GAP for width in widths)
        for *first, last in self._rows:
            head = Text()
            for cell, width in zip(first, widths, strict=True):
                head.append(cell if isinstance(cell, Text) else "")
                head.append(" " * (width + _GAP - _width(cell)))
            if options.max_width - indent < 2 * _NARROWEST:
                yield head
                yield Indented(last)
                continue
            lines = _lines(console, options, last, options.max_width - indent)
            for number, parts in enumerate(lines):
                if number:
                    yield Segment(" " * head.cell_len)
                else:
                    head.end = ""
                    yield head
                yield from parts
                yield Segment.line()


def _width(cell: RenderableType) -> int:
    return cell.cell_len if isinstance(cell, Text) else 0


def _lines(
    console: Console, options: ConsoleOptions, content: RenderableType, width: int
) -> Iterator[list[Segment]]:
    """Yield the lines of a block at a width; a path may exceed it."""
    inner = options.update(width=max(1, width))
    yield from Segment.split_lines(console.render(content, inner))


class _UnbrokenWords(Text):
    """Text that wraps only between words, however long a word is."""

    def wrap(self, console: Console, width: int, **_: Any) -> Lines:
        """Return the lines; a line with a long word exceeds `width`."""
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
    """Return log text as printable text that may break within long words."""
    return Text(printable(text), style=style, overflow="fold")


def unbroken_line(text: str, style: str = "") -> Text:
    """Return text that contains paths as printable text that breaks only between words."""
    return _UnbrokenWords(printable(text), style=style)


def heading(title: str, rest: str = "") -> Text:
    """Return the first line of a block; `rest` must be printable."""
    text = _UnbrokenWords(title, "")
    text.stylize("bold")
    text.append("  " + rest if rest else "")
    return text


def verdict_heading(title: str, rest: str, verdict: str) -> Text:
    """Return the heading of a job or application, which ends with its verdict."""
    text = heading(title, rest)
    text.append(" · ")
    text.append(verdict, VERDICT_STYLES.get(verdict, "bold"))
    return text


def block(title: str | Text, *lines: RenderableType) -> Group:
    """Return a heading with indented lines."""
    return Group(heading(title) if isinstance(title, str) else title, *map(Indented, lines))


def and_more(hidden: int, what: str = "", hint: str = " (-v lists all)") -> list[Text]:
    """Return a line with the number of omitted rows, or no line if none is omitted.

    >>> [text.plain for text in and_more(3)], and_more(0)
    (['… and 3 more (-v lists all)'], [])
    """
    named = f" {what}" if what else ""
    return [Text(f"… and {hidden} more{named}{hint}", "dim")] if hidden > 0 else []


def render_blocks(blocks: Iterable[RenderableType], page: Page, *, apart: bool = False) -> str:
    """Convert blocks to text, with ANSI escapes on a page with color and blank lines if `apart`."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=page.width,
        force_terminal=page.color or page.hyperlinks,
        color_system="standard" if page.color or page.hyperlinks else None,
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
        drawing = partial(_block_text, console, part)
        out.writelines(page.section("this part", drawing, lambda text: f"{text}\n"))
    shown = _LINK_ID.sub("\x1b]8;;", out.getvalue())  # random IDs would change every output
    if not page.color:
        shown = _COLOR.sub("", shown)
    # Tables pad their last column; trailing spaces are noise in files and pastes.
    text = re.sub(r"[ \t]+$", "", shown, flags=re.MULTILINE)
    return text if page.unicode else text.translate(_ASCII)


def _block_text(console: Console, part: RenderableType) -> Iterator[str]:
    """Render a block in one piece, so that an error leaves no partial text."""
    with console.capture() as shown:
        console.print(Group(part), crop=False)  # print alone would convert a str
    yield shown.get()
