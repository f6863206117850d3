"""All listings share the same layout."""

from __future__ import annotations

import pytest
from rich.text import Text

from flowdiag.cli.text.grid import Aligned, Column, Listing, block, render_blocks
from flowdiag.cli.text.page import Page

ROWS = [("a\x1b[31mb", 1, None), ("longer name", 20, "x")]


def _drawn(width: int, *, color: bool = False, heads: str | None = "bold") -> list[str]:
    table = Listing(
        ROWS,
        Column("name", lambda row: row[0], "wrap"),
        Column("count", lambda row: str(row[1])),
        Column("", lambda row: row[2], "left"),
        heads=heads,
        style=lambda row: "red" if row[1] == 1 else "",
    )
    return render_blocks([table], Page(width=width, color=color)).splitlines()


def test_headings_alignment_and_missing_values() -> None:
    assert _drawn(40) == ["name         count", "ab               1  -", "longer name     20  x"]


def test_only_wrap_columns_shrink() -> None:
    assert _drawn(18) == ["name      count", "ab            1  -", "longer       20  x", "name"]


def test_a_row_has_one_style_and_headings_are_optional() -> None:
    first, second = _drawn(40, color=True, heads=None)
    assert first.count("\x1b[31m") == 3 and "\x1b" not in second


@pytest.mark.parametrize("unicode", [True, False])
def test_no_markup_and_no_trailing_spaces(unicode: bool) -> None:
    shown = block("Title", Aligned([("[bold]", Text("·")), ("c", Text("·  "))]))
    text = render_blocks([shown, Text("next")], Page(unicode=unicode), apart=True)
    dot = "·" if unicode else "-"
    assert text == f"Title\n  [bold]  {dot}\n  c       {dot}\n\nnext\n"
