"""Subtasks by TaskManagers: where the late or the busy ones run, with the culprit framed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.queues.wire import QueueVertex
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import CheckpointJob
from flowdiag.cli.render.html.drawing import Spec
from flowdiag.cli.render.html.figures import WIDE, ChartRenderer, Figure, Key, distinct

HOW_LATE: Final = (
    "A row is a subtask, a column the TaskManager that ran it. The number says how many expired checkpoints the subtask "
    "acknowledged too late; the darker, the more. A dark column is a slow machine, a dark row a slow subtask, everything "
    "below one task dark: it is held up by what is before it. Late is not guilty: whoever waits for the culprit is late too."
)
HOW_BUSY: Final = (
    "A row is a subtask, a column the TaskManager that ran it. The number is the share of time in which the subtask was busy. "
    "One dark row among pale siblings has more to do than they: skew. A dark column is a slow or crowded machine. "
    "A frame marks the culprit."
)

_STEPS: Final = 5  # colours --heat-1 to --heat-5
_ROWS: Final = 36
_COLUMNS: Final = {WIDE: 16}
_COLUMNS_NARROW: Final = 5
_NAME: Final = 26
_LABEL: Final = (130, 200)  # pixels left of the rows: narrow, wide
_NAME_NARROW: Final = 14


@dataclass(frozen=True, slots=True)
class _Cell:
    task: str
    subtask_index: int
    parallelism: int | None
    taskmanager: str
    value: float
    shown: str
    culprit: bool = False


def late(
    job: CheckpointJob, vertices: Sequence[QueueVertex], renderer: ChartRenderer
) -> Figure | None:
    """Late acknowledgements by subtask and TaskManager; None where there are none with a place.

    Args:
        job: of `flowdiag checkpoints`.
        vertices: of the same job, if they are known: for parallelism and the culprit.
        renderer: of the page.
    """
    counts: Counter[tuple[str, int, str]] = Counter()
    seen = set()
    for one in job.late_acknowledgements:
        if one.task is None or one.subtask_index is None or one.taskmanager is None:
            continue
        key = one.task, one.subtask_index, one.taskmanager
        if (one.run, one.checkpoint, *key) not in seen:
            seen.add((one.run, one.checkpoint, *key))
            counts[key] += 1
    if not counts:
        return None
    parallelism = {one.task: _parallelism(one.subtask) for one in job.late_acknowledgements}
    order = {vertex.name: number for number, vertex in enumerate(vertices)}
    named = {(culprit.subject.task, culprit.subject.subtask_index) for culprit in job.culprits} - {
        (None, None)
    }
    cells = [
        _Cell(
            task, index, parallelism.get(task), machine, count, str(count), (task, index) in named
        )
        for (task, index, machine), count in counts.items()
    ]
    cells.sort(key=lambda c: (order.get(c.task, len(order)), c.task, c.subtask_index))
    title = "Late acknowledgements: subtask by TaskManager"
    return _figure(
        HOW_LATE, title, "late in expired checkpoints", cells, renderer, unit="late checkpoints"
    )


def _parallelism(subtask: str | None) -> int | None:
    """Of a subtask as Flink prints it: 3/6."""
    width = (subtask or "").rpartition("/")[2]
    return int(width) if width.isdecimal() else None


def busy(vertices: Sequence[QueueVertex], renderer: ChartRenderer) -> Figure | None:
    """Busy time by subtask and TaskManager of one job; None where nobody measured it."""
    cells = [
        _Cell(
            vertex.name,
            one.subtask_index,
            vertex.parallelism,
            one.taskmanager,
            one.busy,
            fmt.share(one.busy, whole=True),
            one.culprit,
        )
        for vertex in vertices
        for one in sorted(vertex.subtasks, key=lambda one: one.subtask_index)
        if one.taskmanager is not None and one.busy is not None
    ]
    if len(cells) < 2:
        return None
    title = "Busy time: subtask by TaskManager"
    return _figure(HOW_BUSY, title, "busy", cells, renderer, unit="of the time busy", most=1.0)


def _figure(
    how: str,
    title: str,
    word: str,
    cells: Sequence[_Cell],
    renderer: ChartRenderer,
    *,
    unit: str,
    most: float | None = None,
) -> Figure | None:
    shown = _sickest(cells)
    top = most or max(cell.value for cell in shown)
    machines = _machines(shown)
    names = (
        distinct(machines, _NAME),
        distinct((c.task for c in shown), _NAME),
        distinct((c.task for c in shown), _NAME_NARROW),
    )
    rows = [_row(cell, top, unit, *names) for cell in shown]
    # One frame where a subtask moved: all places in which it ran are framed.
    legend = [
        Key(colour="heat-1", means=f"least {word}"),
        Key(colour=f"heat-{_STEPS}", means=f"most {word}"),
    ]
    legend += [Key(colour="frame", means="culprit")] if any(c.culprit for c in shown) else []
    notes = []
    if len(shown) < len(cells):
        notes.append(f"the {len(shown)} worst of {len(cells)} subtasks are shown")
    if len(machines) > _COLUMNS_NARROW:
        notes.append("on narrow screens the TaskManagers with the most are shown")

    def spec(width: int) -> Spec:
        fits = _COLUMNS.get(width, _COLUMNS_NARROW)
        return _spec(rows, [names[0][machine] for machine in machines[:fits]], width)

    if len(machines) > _COLUMNS[WIDE]:
        notes.append(f"the {_COLUMNS[WIDE]} worst of {len(machines)} TaskManagers are shown")
    worst = max(shown, key=lambda cell: cell.value)
    told = f"{title}. Most: {worst.task} {_subtask(worst)} on {worst.taskmanager}, {worst.shown} {unit}"
    return renderer.figure(title, told, spec, how=how, legend=legend, note="; ".join(notes))


def _sickest(cells: Sequence[_Cell]) -> list[_Cell]:
    """The culprits and those with the highest values, in the order of the graph."""
    ranked = sorted(range(len(cells)), key=lambda n: (not cells[n].culprit, -cells[n].value))
    return [cells[n] for n in sorted(ranked[:_ROWS])]


def _machines(cells: Sequence[_Cell]) -> list[str]:
    """The TaskManagers, those with the most first."""
    sums: Counter[str] = Counter()
    for cell in cells:
        sums[cell.taskmanager] += 1
    totals: Mapping[str, float] = {
        name: sum(cell.value for cell in cells if cell.taskmanager == name) for name in sums
    }
    return sorted(sums, key=lambda name: (-totals[name], name))


def _subtask(cell: _Cell) -> str:
    return fmt.subtask(cell.subtask_index, cell.parallelism)


def _row(
    cell: _Cell,
    top: float,
    unit: str,
    machines: Mapping[str, str],
    tasks: Mapping[str, str],
    short: Mapping[str, str],
) -> dict[str, Any]:
    step = 1 if top <= 0 else max(1, min(_STEPS, -int(-_STEPS * cell.value // top)))
    name = printable(cell.task)
    return {
        "row": f"{tasks[cell.task]} {_subtask(cell)}",
        "short": f"{short[cell.task]} {_subtask(cell)}",
        "machine": machines[cell.taskmanager],
        "step": step,
        "text": cell.shown,
        "frame": cell.culprit,
        "told": f"{name} {_subtask(cell)} on {printable(cell.taskmanager)}: {cell.shown} {unit}",
    }


def _spec(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> Spec:
    place = _place(rows, names, width)
    steps = list(range(1, _STEPS + 1))
    scale = {"domain": steps, "range": [f"var(--heat-{n})" for n in steps]}
    inks = {"domain": steps, "range": [f"var(--on-heat-{n})" for n in steps]}
    cell = {"type": "rect", "cornerRadius": 2}
    told = {"description": {"field": "told"}}
    return {
        "width": {"step": _step(names, width)},
        "height": {"step": 21},
        "data": {"values": [row for row in rows if row["machine"] in set(names)]},
        "layer": [
            {
                "mark": cell,
                "encoding": {
                    **place,
                    **told,
                    "color": {"field": "step", "type": "ordinal", "legend": None, "scale": scale},
                },
            },
            {
                "transform": [{"filter": "datum.frame"}],
                "mark": {
                    "type": "rect",
                    "cornerRadius": 2,
                    "filled": False,
                    "stroke": "var(--frame)",
                    "strokeWidth": 3,
                    "aria": False,
                },
                "encoding": place,
            },
            {
                "mark": {"type": "text", "aria": False},
                "encoding": {
                    **place,
                    "text": {"field": "text"},
                    "color": {"field": "step", "type": "ordinal", "legend": None, "scale": inks},
                },
            },
        ],
        "resolve": {"scale": {"color": "independent"}},
    }


def _step(names: Sequence[str], width: int) -> int:
    """Pixels of a column."""
    return max(34, min(110, (width - _LABEL[width == WIDE] - 30) // len(names)))


def _place(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> Spec:
    """Rows of subtasks and columns of TaskManagers, in their order."""
    field = "row" if width == WIDE else "short"
    step = _step(names, width)
    bare = {"title": None, "ticks": False, "domain": False, "labelOverlap": False}
    return {
        "y": {
            "field": field,
            "type": "nominal",
            "sort": list(dict.fromkeys(row[field] for row in rows)),
            "axis": {**bare, "labelLimit": _LABEL[width == WIDE], "labelColor": "var(--ink)"},
            "scale": {"paddingInner": 0.1},
        },
        "x": {
            "field": "machine",
            "type": "nominal",
            "sort": list(names),
            "scale": {"domain": list(names), "paddingInner": 0.06},
            "axis": {
                **bare,
                "orient": "top",
                "labelAngle": 0 if step >= 90 else -35,
                "labelLimit": max(step, 120),
            },
        },
    }
