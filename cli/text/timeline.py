"""Draws the checkpoints of a job over time as rows of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from flowdiag.analyses.contract.report import Checkpoint
from flowdiag.analyses.model.fmt import duration, plural
from flowdiag.cli.text.words import STATUS_WORDS, Clock

# Glyphs in Unicode and ASCII. Failed checkpoints are letters, which need neither legend nor color.
GLYPHS: Final = {
    "completed": ("✓", "."),
    "savepoint": ("S", "S"),
    "expired": ("E", "E"),
    "declined": ("D", "D"),
    "failed": ("F", "F"),
    "aborted": ("a", "a"),
    "in_flight": ("…", "~"),
    "break": ("│", "|"),
    "other": ("?", "?"),
}
BARS: Final = ("▁▂▃▄▅▆▇█", "_.-=+*%#")
_WORST: Final = ("failed", "expired", "declined", "other", "in_flight", "aborted")

MAX_ROWS: Final = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One or more consecutive checkpoints with their worst status and longest duration."""

    kind: str
    first: Checkpoint | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of cells, labeled with the time of its first cell."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows of cells of `per_cell` checkpoints each; bars are scaled to `longest_ms`."""

    rows: tuple[Row, ...]
    per_cell: int
    longest_ms: int | None
    median_ms: float | None

    def kinds(self) -> list[str]:
        """Return the kinds of cells that occur, for the legend."""
        seen = {cell.kind for row in self.rows for cell in row.cells}
        return [kind for kind in GLYPHS if kind in seen]

    def bars(self, row: Row, *, unicode: bool) -> str:
        """Return the durations of a row as a sparkline; an unknown duration is a space."""
        steps = BARS[0] if unicode else BARS[1]
        return "".join(_bar(cell.duration_ms, self.longest_ms, steps) for cell in row.cells)

    def scale(self) -> str:
        """Return the legend of the bars."""
        if self.longest_ms is None:
            return ""
        longest = f"longest {duration(self.longest_ms)}"
        if self.median_ms is None:
            return longest
        return f"median completed {duration(self.median_ms)}, {longest}"


def timeline(
    checkpoints: Sequence[Checkpoint], clock: Clock, width: int, *, rows: int = MAX_ROWS
) -> Timeline:
    """Lay out checkpoints in at most `rows` rows of `width` columns."""
    days = {clock.show(c.triggered_at)[:10] for c in checkpoints if c.triggered_at}
    dated = len(days) > 1
    digits = len(str(max((c.id for c in checkpoints), default=0)))
    label = len("01-31 18:43" if dated else "18:43:04") + len(" #") + digits + 2
    columns = max(10, width - label)
    breaks = sum(a.run != b.run for a, b in pairwise(checkpoints))
    room = columns * rows
    # Many restarts would fill the rows with separators.
    show_breaks = breaks <= room // 8
    per_cell = max(1, -(-len(checkpoints) // (room - breaks if show_breaks else room)))
    cells = list(_cells(checkpoints, per_cell, show_breaks))
    timed = [(c, c.duration_ms) for c in checkpoints if c.duration_ms is not None]
    completed = [ms for c, ms in timed if _kind(c) == "completed"]
    return Timeline(
        rows=tuple(
            Row(_label(cells[start : start + columns], clock, dated=dated), tuple(part))
            for start in range(0, len(cells), columns)
            if (part := cells[start : start + columns])
        ),
        per_cell=per_cell,
        longest_ms=max((ms for _, ms in timed), default=None),
        median_ms=median(completed) if completed else None,
    )


def plain(picture: Timeline) -> list[str]:
    """Return a timeline as plain text: cells, bars below them, and a legend."""
    left = max((len(row.label) for row in picture.rows), default=0) + 2
    lines = []
    for row in picture.rows:
        lines.append(row.label.ljust(left) + "".join(GLYPHS[cell.kind][0] for cell in row.cells))
        bars = picture.bars(row, unicode=True)
        lines += [" " * left + bars] if bars.strip() else []
    legend = [f"{GLYPHS[kind][0]} {legend_word(kind)}" for kind in picture.kinds()]
    legend += filter(None, (bucket_note(picture.per_cell), picture.scale()))
    return [line.rstrip() for line in [*lines, "   ".join(legend)]]


def legend_word(kind: str) -> str:
    return {"break": "new run", "savepoint": "savepoint", "other": "unknown"}.get(
        kind, STATUS_WORDS.get(kind, kind)
    )


def bucket_note(per_cell: int) -> str:
    return "" if per_cell == 1 else f"one cell shows the worst of {plural(per_cell, 'checkpoint')}"


def _cells(checkpoints: Sequence[Checkpoint], per_cell: int, show_breaks: bool) -> Iterator[Cell]:
    bucket: list[Checkpoint] = []
    for checkpoint in checkpoints:
        new_run = show_breaks and bool(bucket) and bucket[-1].run != checkpoint.run
        if new_run or len(bucket) == per_cell:
            yield _cell(bucket)
            bucket = []
        if new_run:
            yield Cell("break")
        bucket.append(checkpoint)
    if bucket:
        yield _cell(bucket)


def _cell(bucket: Sequence[Checkpoint]) -> Cell:
    kinds = {_kind(checkpoint) for checkpoint in bucket}
    worst = next((kind for kind in _WORST if kind in kinds), None)
    return Cell(
        kind=worst or ("savepoint" if kinds == {"savepoint"} else "completed"),
        first=bucket[0],
        duration_ms=max((c.duration_ms for c in bucket if c.duration_ms is not None), default=None),
    )


def _kind(checkpoint: Checkpoint) -> str:
    if checkpoint.status == "completed" and "savepoint" in checkpoint.type:
        return "savepoint"
    return checkpoint.status if checkpoint.status in GLYPHS else "other"


def _bar(value: int | None, top: int | None, steps: str) -> str:
    if value is None or top is None:
        return " "
    return steps[min(len(steps) - 1, value * len(steps) // (top + 1))]


def _label(cells: Sequence[Cell], clock: Clock, *, dated: bool) -> str:
    first = next((cell.first for cell in cells if cell.first), None)
    if first is None:
        return ""
    shown = clock.show(first.triggered_at)
    when = "" if first.triggered_at is None else shown[5:16] if dated else shown[11:]
    return f"{when:>11} #{first.id}" if dated else f"{when:>8} #{first.id}"
