"""What a figure of the page consists of; the templates show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from markupsafe import Markup

from flowdiag.analyses.model.fmt import abbreviate
from flowdiag.analyses.report.faults import Faults
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Where
from flowdiag.cli.render.html.converter import NoConverterError, SlowError
from flowdiag.cli.render.html.drawing import Spec, draw
from flowdiag.cli.text.grid import Column

T = TypeVar("T")

WIDE: Final = 800  # pixels: what a window has room for
NARROW: Final = 330  # what a telephone has, or half a sheet of paper
_NOTHING: Final = Markup()
_PATIENCE: Final = 2  # pictures that may take too long before no other is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of a legend: a colour of `style.css`, and what it means."""

    colour: str
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers behind a figure, or instead of one.

    Args:
        heads: over the columns; those that begin with `>` are of numbers.
        rows: cells as they are shown.
        more: how many rows are left out.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with all that is said of it.

    Args:
        title: what is seen.
        wide: the chart for windows and paper; empty where it could not be drawn.
        narrow: the same for telephones.
        legend: what its colours mean.
        note: what is left out, or aggregated.
        how: how to read it, at the first of its kind.
        whole: whether it takes the whole width of a sheet of paper; else two share it.
        numbers: behind it, folded.
        undrawn: what stands in the place of a chart that could not be drawn.
    """

    title: str
    wide: Markup = _NOTHING
    narrow: Markup = _NOTHING
    legend: Sequence[Key] = ()
    note: str = ""
    how: str = ""
    whole: bool = False
    numbers: Table | None = None
    undrawn: str = ""


@dataclass(slots=True)
class ChartRenderer:
    """Draws the charts of one page, each under a name of its own, as long as there is room.

    Args:
        room: bytes that all charts together may take.
        faults: takes what goes wrong with a chart.

    Attributes:
        left_out: charts that there was no room for.
        unable: why no more are drawn; empty while they are.
    """

    room: int
    faults: Faults
    left_out: int = 0
    unable: str = ""
    _slow: int = field(default=0)
    _drawn: int = field(default=0)
    _told: set[str] = field(default_factory=set)

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
        """A figure in both widths; None where the page has no more room for it, or nothing can be drawn.

        A chart that cannot be drawn leaves a sentence, and the numbers behind it.

        Args:
            title: of the figure.
            label: what it shows, for those who do not see it.
            spec: the chart for so many pixels.
            how: to read figures of this kind, which the page says once.
            legend: what colours mean.
            note: what is left out.
            whole: whether it takes the whole width of paper.
            numbers: behind it.
        """
        if self.room <= 0:
            self.left_out += 1
            return None
        drawn = self._charts(title, printable(label), spec)
        if drawn is None:
            if self.unable and numbers is None:
                return None
            told = "" if self.unable else "This picture could not be drawn."
            return Figure(title=title, numbers=numbers, undrawn=told)
        wide, narrow = drawn
        self.room -= len(wide) + len(narrow)
        first = how not in self._told
        self._told.add(how)
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
        """The chart in both widths; None where it cannot be drawn."""
        if self.unable:
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
            self.unable = str(error)
        except SlowError as error:  # the machine's fault, if any: nothing to report
            self._slow += 1
            self.unable = str(error) if self._slow >= _PATIENCE else ""
        return None


def worst_of(items: Sequence[T], most: int, badness: Callable[[T], float]) -> tuple[list[T], int]:
    """At most so many: of each run of neighbours the worst. Also how many neighbours share one.

    >>> worst_of([1, 5, 2, 3], 2, float), worst_of([1, 2], 2, float)
    (([5, 3], 2), ([1, 2], 1))
    """
    each = max(1, -(-len(items) // most))
    if each == 1:
        return list(items), 1
    return [max(items[n : n + each], key=badness) for n in range(0, len(items), each)], each


def table(columns: Sequence[Column], rows: Sequence[Any], most: int) -> Table:
    """Return a table of the first rows."""
    return Table(
        heads=[f"{'>' if column.is_numeric else ''}{column.title}" for column in columns],
        rows=[[column.text(row) for column in columns] for row in rows[:most]],
        more=max(0, len(rows) - most),
    )


def distinct(names: Iterable[str], most: int) -> dict[str, str]:
    """Short names for labels of an axis, where two that are alike would share a place.

    >>> distinct(["a-very-long-name-1", "a-very-long-name-1", "b"], 20)
    {'a-very-long-name-1': 'a-very-long-name-1', 'b': 'b'}
    >>> list(distinct(["source of all orders", "source of old orders"], 11).values())
    ['sour … ders', 'sour … ders (2)']
    """
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for name in dict.fromkeys(names):
        short = abbreviate(printable(name), most)
        times[short] += 1
        found[name] = short if times[short] == 1 else f"{short} ({times[short]})"
    return found
