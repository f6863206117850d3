"""Heat maps of subtasks by TaskManager: late acknowledgements and busy time, with the culprit framed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.analyses.contract.queues import QueueVertex
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import CheckpointJob
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import Spec
from flowdiag.cli.render.html.figures import (
    WIDE,
    ChartRenderer,
    Figure,
    join_notes,
    legend_of,
    unique_names,
)

HOW_LATE: Final = (
    "Each row is a subtask, and each column is the TaskManager that ran it. The number counts the expired checkpoints "
    "that the subtask acknowledged too late. A dark column means a slow TaskManager, and a dark row a slow subtask. If "
    "all rows below a task are dark, that task delays them. A late subtask is not always the culprit, because subtasks "
    "that wait for the culprit are also late."
)
HOW_BUSY: Final = (
    "Each row is a subtask, and each column is the TaskManager that ran it. The number is the share of time that the subtask was busy. "
    "A dark row among light rows of the same task means skew. A dark column is a slow or overloaded TaskManager. A frame "
    "marks the culprit."
)

_STEPS: Final = 5  # colors --heat-1 to --heat-5
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
    """Return late acknowledgements by subtask and TaskManager, or None if no TaskManager is known.

    Args:
        job: the job.
        vertices: its tasks, if known, for their order.
        renderer: draws the figure.
    """
    counts: Counter[tuple[str, int, str]] = Counter()
    seen = set()
    for ack in job.late_acknowledgements:
        if ack.task is None or ack.subtask_index is None or ack.taskmanager is None:
            continue
        key = ack.task, ack.subtask_index, ack.taskmanager
        if (ack.run, ack.checkpoint, *key) not in seen:
            seen.add((ack.run, ack.checkpoint, *key))
            counts[key] += 1
    if not counts:
        return None
    parallelism = {ack.task: _parallelism(ack.subtask) for ack in job.late_acknowledgements}
    order = {vertex.name: number for number, vertex in enumerate(vertices)}
    named = {(culprit.subject.task, culprit.subject.subtask_index) for culprit in job.culprits} - {
        (None, None)
    }
    cells = [
        _Cell(
            task,
            index,
            parallelism.get(task),
            taskmanager,
            count,
            str(count),
            (task, index) in named,
        )
        for (task, index, taskmanager), count in counts.items()
    ]
    cells.sort(key=lambda c: (order.get(c.task, len(order)), c.task, c.subtask_index))
    title = "Late acknowledgements: subtask by TaskManager"
    return _figure(
        HOW_LATE, title, "late in expired checkpoints", cells, renderer, unit="late checkpoints"
    )


def _parallelism(subtask: str | None) -> int | None:
    """Return the parallelism in Flink's notation of a subtask, such as 6 in `3/6`."""
    width = (subtask or "").rpartition("/")[2]
    return int(width) if width.isdecimal() else None


def busy(vertices: Sequence[QueueVertex], renderer: ChartRenderer) -> Figure | None:
    """Return the busy time by subtask and TaskManager, or None if it was not measured."""
    cells = [
        _Cell(
            vertex.name,
            subtask.subtask_index,
            vertex.parallelism,
            subtask.taskmanager,
            subtask.busy,
            fmt.share(subtask.busy, whole=True),
            subtask.culprit,
        )
        for vertex in vertices
        for subtask in sorted(vertex.subtasks, key=lambda subtask: subtask.subtask_index)
        if subtask.taskmanager is not None and subtask.busy is not None
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
    ranked = sorted(range(len(cells)), key=lambda n: (not cells[n].culprit, -cells[n].value))
    shown = [cells[n] for n in sorted(ranked[:_ROWS])]
    top = most or max(cell.value for cell in shown)
    taskmanagers = _taskmanagers(shown)
    names = (
        unique_names(taskmanagers, _NAME),
        unique_names((c.task for c in shown), _NAME),
        unique_names((c.task for c in shown), _NAME_NARROW),
    )
    rows = [_row(cell, top, unit, *names) for cell in shown]
    legend = legend_of(
        (True, "heat-1", f"least {word}"),
        (True, f"heat-{_STEPS}", f"most {word}"),
        (any(cell.culprit for cell in shown), "frame", "culprit"),
    )
    columns = len(taskmanagers)
    note = join_notes(
        (len(shown) < len(cells), f"shows the {len(shown)} worst of {len(cells)} subtasks"),
        (columns > _COLUMNS_NARROW, "narrow screens show only the worst TaskManagers"),
        (columns > _COLUMNS[WIDE], f"shows the {_COLUMNS[WIDE]} worst of {columns} TaskManagers"),
    )

    def spec(width: int) -> Spec:
        fits = _COLUMNS.get(width, _COLUMNS_NARROW)
        return _spec(rows, [names[0][taskmanager] for taskmanager in taskmanagers[:fits]], width)

    worst = max(shown, key=lambda cell: cell.value)
    label = f"{title}. Most: {worst.task} {_subtask(worst)} on {worst.taskmanager}, {worst.shown} {unit}"
    return renderer.figure(title, label, spec, how=how, legend=legend, note=note)


def _taskmanagers(cells: Sequence[_Cell]) -> list[str]:
    """Return the TaskManagers, the highest total first."""
    totals: dict[str, float] = defaultdict(float)
    for cell in cells:
        totals[cell.taskmanager] += cell.value
    return sorted(totals, key=lambda name: (-totals[name], name))


def _subtask(cell: _Cell) -> str:
    return fmt.subtask(cell.subtask_index, cell.parallelism)


def _row(
    cell: _Cell,
    top: float,
    unit: str,
    taskmanagers: Mapping[str, str],
    tasks: Mapping[str, str],
    short: Mapping[str, str],
) -> dict[str, Any]:
    step = 1 if top <= 0 else max(1, min(_STEPS, -int(-_STEPS * cell.value // top)))
    name = printable(cell.task)
    return {
        "row": f"{tasks[cell.task]} {_subtask(cell)}",
        "short": f"{short[cell.task]} {_subtask(cell)}",
        "taskmanager": taskmanagers[cell.taskmanager],
        "step": step,
        "text": cell.shown,
        "frame": cell.culprit,
        "tooltip": f"{name} {_subtask(cell)} on {printable(cell.taskmanager)}: {cell.shown} {unit}",
    }


def _spec(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> Spec:
    place = _axes(rows, names, width)
    steps = list(range(1, _STEPS + 1))
    scale = {"domain": steps, "range": [f"var(--heat-{n})" for n in steps]}
    inks = {"domain": steps, "range": [f"var(--on-heat-{n})" for n in steps]}
    cell = {"type": "rect", "cornerRadius": 2}
    tooltip = {"description": {"field": "tooltip"}}
    return {
        "width": {"step": _step(names, width)},
        "height": {"step": 21},
        "data": {"values": [row for row in rows if row["taskmanager"] in set(names)]},
        "layer": [
            {
                "mark": cell,
                "encoding": {
                    **place,
                    **tooltip,
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
    """Return the width of a column, in pixels."""
    return max(34, min(110, (width - _LABEL[width == WIDE] - 30) // len(names)))


def _axes(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> Spec:
    """Return the axes: a row per subtask and a column per TaskManager."""
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
            "field": "taskmanager",
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
