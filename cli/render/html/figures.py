"""The figures of the page: charts with legends, notes and data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from markupsafe import Markup

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Where
from flowdiag.analyses.faults import Faults
from flowdiag.analyses.model.fmt import abbreviate
from flowdiag.cli.render.html.converter import NoConverterError, SlowError
from flowdiag.cli.render.html.drawing import Spec, draw
from flowdiag.cli.text.grid import Column

T = TypeVar("T")

WIDE: Final = 800  # pixels, for windows
NARROW: Final = 330  # pixels, for phones and half a sheet of paper
_NOTHING: Final = Markup()
_MOST_SLOW: Final = 2  # timeouts after which the page draws no further charts


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of a legend: a color of `style.css` and its meaning."""

    color: str
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a section, or the data of a chart.

    Args:
        heads: the headings of columns; `>` at the start marks numbers.
        rows: the cells.
        more: the number of omitted rows.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with its explanations.

    Args:
        title: the caption.
        wide: the chart for windows and paper; empty if it could not be drawn.
        narrow: the chart for phones.
        legend: the meaning of its colors.
        note: what is omitted or aggregated.
        how: how to read it; only the first chart of its kind has this text.
        whole: whether it fills the width of a sheet of paper; otherwise two figures share the width.
        numbers: its data, collapsed.
        error: a message instead of a chart that could not be drawn.
    """

    title: str
    wide: Markup = _NOTHING
    narrow: Markup = _NOTHING
    legend: Sequence[Key] = ()
    note: str = ""
    how: str = ""
    whole: bool = False
    numbers: Table | None = None
    error: str = ""


@dataclass(slots=True)
class ChartRenderer:
    """Draws the charts of a page while the page has room.

    Args:
        room: the bytes that remain for charts.
        faults: collects the errors of charts.

    Attributes:
        omitted: the number of charts that did not fit.
        error: why no further chart is drawn; empty while drawing works.
    """

    room: int
    faults: Faults
    omitted: int = 0
    error: str = ""
    _slow: int = field(default=0)
    _drawn: int = field(default=0)
    _explained: set[str] = field(default_factory=set)

    def figure(
        self,
        title: str,
        label: str,
        spec: Callable[[int], Spec],
        *,
        how: str,
        legend: Sequence[Key] = (),
        note: str = "",
        whole: bool = False,
        numbers: Table | None = None,
    ) -> Figure | None:
        """Return a figure in both widths, or None if the page has no room left or charts cannot be drawn at all.

        A chart that cannot be drawn is replaced by a message and its data.

        Args:
            title: the caption.
            label: a description for screen readers.
            spec: returns the chart for a width in pixels.
            how: how to read charts of this kind; the page shows it once.
            legend: the meaning of colors.
            note: what is omitted.
            whole: whether the figure fills the width of a sheet of paper.
            numbers: the data.
        """
        if self.room <= 0:
            self.omitted += 1
            return None
        drawn = self._charts(title, printable(label), spec)
        if drawn is None:
            if self.error and numbers is None:
                return None
            message = "" if self.error else "This chart could not be drawn."
            return Figure(title=title, numbers=numbers, error=message)
        wide, narrow = drawn
        self.room -= len(wide) + len(narrow)
        first = how not in self._explained
        self._explained.add(how)
        return Figure(
            title=title,
            wide=wide,
            narrow=narrow,
            legend=legend,
            note=note,
            how=how if first else "",
            whole=whole,
            numbers=numbers,
        )

    def _charts(
        self, title: str, label: str, spec: Callable[[int], Spec]
    ) -> tuple[Markup, Markup] | None:
        """Return the chart in both widths, or None if it cannot be drawn."""
        if self.error:
            return None
        self._drawn += 1

        def both() -> tuple[Markup, Markup]:
            return (
                draw(spec(WIDE), f"c{self._drawn}w", label),
                draw(spec(NARROW), f"c{self._drawn}n", label),
            )

        try:
            return self.faults.run_or_default(both, None, Where.RENDER, about=title)
        except NoConverterError as error:
            self.error = str(error)
        except SlowError as error:  # a slow host is not a bug
            self._slow += 1
            self.error = str(error) if self._slow >= _MOST_SLOW else ""
        return None


def legend_of(*entries: tuple[object, str, str]) -> list[Key]:
    """Return the entries of a legend whose condition holds, from triples (condition, color, meaning)."""
    return [Key(color=color, means=means) for shown, color, means in entries if shown]


def join_notes(*notes: tuple[object, str]) -> str:
    """Join the texts whose condition holds, from pairs (condition, text)."""
    return "; ".join(text for shown, text in notes if shown)


def worst_of(items: Sequence[T], most: int, badness: Callable[[T], float]) -> tuple[list[T], int]:
    """Divide items into at most `most` groups of consecutive items. Return the worst item of each group, and the size
    of the groups.

    >>> worst_of([1, 5, 2, 3], 2, float), worst_of([1, 2], 2, float)
    (([5, 3], 2), ([1, 2], 1))
    """
    each = max(1, -(-len(items) // most))
    if each == 1:
        return list(items), 1
    return [max(items[n : n + each], key=badness) for n in range(0, len(items), each)], each


def table(columns: Sequence[Column], rows: Sequence[Any], most: int) -> Table:
    """Return a table of the first `most` rows."""
    return Table(
        heads=[f"{'>' if column.is_numeric else ''}{column.title}" for column in columns],
        rows=[[column.text(row) for column in columns] for row in rows[:most]],
        more=max(0, len(rows) - most),
    )


def unique_names(names: Iterable[str], most: int) -> dict[str, str]:
    """Return unique short names for the labels of an axis, where equal labels would share a position.

    >>> unique_names(["a-very-long-name-1", "a-very-long-name-1", "b"], 20)
    {'a-very-long-name-1': 'a-very-long-name-1', 'b': 'b'}
    >>> list(unique_names(["source of all orders", "source of old orders"], 11).values())
    ['sour … ders', 'sour … ders (2)']
    """
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for name in dict.fromkeys(names):
        short = abbreviate(printable(name), most)
        times[short] += 1
        found[name] = short if times[short] == 1 else f"{short} ({times[short]})"
    return found
