"""The steps of a start as a waterfall chart: the start time and duration of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.startup import StartStep
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import FIT, Spec
from flowdiag.cli.render.html.figures import WIDE, ChartRenderer, Figure, Key, table, unique_names
from flowdiag.cli.render.html.scales import unit_of_lengths
from flowdiag.cli.text.grid import Column

HOW: Final = (
    "Each row is a startup step. The bar shows when it began and how long it took. Consecutive steps form a staircase, "
    "and steps with overlapping bars ran at the same time. A step that never ended extends to the end of the input, "
    "with a plus after its duration: the job is still waiting for it."
)

_ROWS: Final = 40
_NAME: Final = 60


def waterfall(
    steps: Sequence[StartStep], slowest: str | None, title: str, renderer: ChartRenderer
) -> Figure | None:
    """Return the waterfall chart of a start, or None if no step has a time.

    Args:
        steps: the steps in order.
        slowest: the name of the slowest step.
        title: the caption.
        renderer: draws the figure.
    """
    dated = [(step, begin) for step in steps if (begin := _ms(step.started_at)) is not None]
    if not dated:
        return None
    first = min(begin for _, begin in dated)
    size, unit = unit_of_lengths(begin - first + (step.duration_ms or 0) for step, begin in dated)
    names = unique_names((step.step for step, _ in dated), _NAME)
    rows = [_row(step, begin - first, names[step.step], slowest, size) for step, begin in dated]
    styles = {
        "held": ("bad", "never ended"),
        "slowest": ("warn", "slowest on the way to RUNNING"),
        "step": ("blue", "step"),
    }
    legend = [
        Key(color=color, means=means)
        for style, (color, means) in styles.items()
        if any(row["style"] == style for row in rows)
    ]

    def spec(width: int) -> Spec:
        return _spec(rows, list(names.values()), unit, width)

    longest = max(dated, key=lambda pair: pair[0].duration_ms or 0)[0]
    label = (
        f"{title}: {len(dated)} steps, the longest is {longest.step} ({_duration_text(longest)})"
    )
    return renderer.figure(
        title, label, spec, how=HOW, legend=legend, numbers=table(_COLUMNS, steps, _ROWS)
    )


def _ms(instant: str | None) -> float | None:
    try:
        return None if instant is None else datetime.fromisoformat(instant).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def _duration_text(step: StartStep) -> str:
    lasted = "?" if step.duration_ms is None else fmt.duration(step.duration_ms)
    return f"{lasted}{'+' if step.ended_at is None else ''}"


def _last_subject(step: StartStep) -> str:
    if step.subject is None:
        return ""
    subject = step.subject
    name = subject.task or ""
    if name and subject.subtask_index is not None:
        name = f"{name} ({subject.subtask_index + 1})"
    return " on ".join(filter(None, [name, subject.taskmanager]))


_COLUMNS: Final = (
    Column("step", lambda step: step.step, "left"),
    Column("took", _duration_text),
    Column("tasks", lambda step: None if step.tasks is None else str(step.tasks)),
    Column("median", lambda step: None if step.p50_ms is None else fmt.duration(step.p50_ms)),
    Column("p95", lambda step: None if step.p95_ms is None else fmt.duration(step.p95_ms)),
    Column("last to finish", _last_subject, "left"),
)


def _row(
    step: StartStep, after: float, name: str, slowest: str | None, size: int
) -> dict[str, Any]:
    style = "held" if step.ended_at is None else "slowest" if step.step == slowest else "step"
    subject = _last_subject(step)
    last = f", last: {subject}" if subject else ""
    return {
        "step": name,
        "x": after / size,
        "x2": (after + (step.duration_ms or 0)) / size,
        "style": style,
        "text": _duration_text(step),
        "tooltip": printable(f"{step.step}: {_duration_text(step)}{last}"),
    }


def _spec(rows: Sequence[dict[str, Any]], order: Sequence[str], unit: str, width: int) -> Spec:
    longest = max(row["x2"] for row in rows) or 1
    room = 1.12 if width == WIDE else 1.35
    y = {
        "field": "step",
        "type": "nominal",
        "sort": list(order),
        "axis": {
            "title": None,
            "labelColor": "var(--ink)",
            "ticks": False,
            "labelLimit": 150,
            "labelOverlap": False,
        },
    }
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, longest * room], "nice": False},
        "axis": {"title": f"{unit} since the first step", "tickCount": 5},
    }
    color = {
        "field": "style",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": ["step", "slowest", "held"],
            "range": ["var(--blue)", "var(--warn)", "var(--bad)"],
        },
    }
    return {
        **FIT,
        "width": width,
        "height": 40 + 24 * len(order),
        "data": {"values": list(rows)},
        "layer": [
            {
                "mark": {"type": "bar", "height": 14},
                "encoding": {
                    "y": y,
                    "x": x,
                    "x2": {"field": "x2"},
                    "color": color,
                    "description": {"field": "tooltip"},
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "aria": False},
                "encoding": {"y": y, "x": {**x, "field": "x2"}, "text": {"field": "text"}},
            },
        ],
    }
