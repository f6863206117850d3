"""Draws text-mode column charts of values over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from flowdiag.cli.text import words

HEIGHT: Final = 6
_LABEL: Final = 14
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Chart:
    """The rows of a chart, top to bottom, each with a label or an empty string. A column covers `per_column` values."""

    rows: tuple[tuple[str, str], ...]
    per_column: int


def chart(
    values: Sequence[float | None],
    *,
    width: int,
    height: int = HEIGHT,
    line: float | None = None,
    unicode: bool = True,
    unit: str = "ms",
) -> Chart:
    """Draw a column for each value, or for several consecutive values if they exceed the width.

    A column shows its largest value, so that no peak disappears. `line` is drawn where no column reaches.

    >>> chart([1.0, 2.0, 4.0], width=10, height=2, unit="").rows
    (('4', '  █'), ('', '▄██'))
    """
    per = max(1, -(-len(values) // max(1, width)))
    columns = [
        max((v for v in values[i : i + per] if v is not None), default=None)
        for i in range(0, len(values), per)
    ]
    top = max([v for v in columns if v is not None] + ([line] if line else []), default=0.0)
    if top <= 0 or height < 1:
        return Chart((), per)
    at = None if line is None else min(height - 1, int(line / top * height))
    labels = {at: line, height - 1: top}
    rows = []
    for row in range(height - 1, -1, -1):
        cells = "".join(
            _cell(0.0 if v is None else v / top * height, row, on_line=at == row, unicode=unicode)
            for v in columns
        )
        label = words.quantity(labels[row], unit) if row in labels else ""
        rows.append((label, cells.rstrip()))
    return Chart(tuple(rows), per)


def labeled_lines(values: Sequence[float | None], *, width: int, unicode: bool) -> list[Text]:
    """Return the lines of a chart with its labels, or an empty list if all values are zero or missing."""
    drawn = chart(values, width=width - _LABEL, unicode=unicode, unit="")
    return [Text(f"{label:>9}  {cells}") for label, cells in drawn.rows]


def _cell(filled: float, row: int, *, on_line: bool, unicode: bool) -> str:
    """Return the character of one cell. `filled` is the column's height; row 0 is at the bottom."""
    eighth = max(0, min(8, round((filled - row) * 8)))
    if filled and row == 0:
        eighth = max(1, eighth)
    if eighth == 0 and on_line:
        return "─" if unicode else "-"
    if unicode:
        return _EIGHTHS[eighth]
    return "#" if eighth > 4 else "." if eighth else " "
