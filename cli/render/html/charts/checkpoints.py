"""The duration and status of checkpoints over time, with the episodes in which they expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Checkpoint, CheckpointEpisode, CheckpointJob
from flowdiag.cli.render.html.drawing import FIT, Spec
from flowdiag.cli.render.html.figures import (
    WIDE,
    ChartRenderer,
    Figure,
    Table,
    join_notes,
    legend_of,
    table,
    worst_of,
)
from flowdiag.cli.render.html.scales import time_axis, unit_of_lengths, wall_ms
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Column

HOW: Final = (
    "Each bar is a checkpoint at its trigger time; its height is the duration. Letters mark checkpoints that did not "
    "complete: E expired, D declined, F failed, A aborted, I in flight when the input ends. A shaded area is an "
    "episode of expired checkpoints. Bars marked E are as high as the timeout. A healthy job has low bars of similar "
    "height."
)

_BARS: Final = 180
_ROWS: Final = 100
_HEIGHT: Final = 190
_COLOURS: Final = {
    "completed": "ok",
    "expired": "bad",
    "failed": "bad",
    "declined": "warn",
    "aborted": "mute",
    "in_flight": "blue",
}
_LETTERS: Final = {"expired": "E", "failed": "F", "declined": "D", "aborted": "A", "in_flight": "I"}
_WORST: Final = ("completed", "aborted", "in_flight", "declined", "expired", "failed")


def checkpoints(job: CheckpointJob, clock: words.Clock, renderer: ChartRenderer) -> Figure | None:
    """Return the figure of a job, or None if it has fewer than two checkpoints with a time."""
    dated = [one for one in job.checkpoints if one.triggered_at]
    if len(dated) < 2:
        return None
    shown, each = worst_of(dated, _BARS, _severity)
    rows = [_row(one, clock) for one in shown]
    size, unit = unit_of_lengths(row["ms"] for row in rows)
    for row in rows:
        row["y"] = None if row["ms"] is None else row["ms"] / size
    bands = [band for one in job.episodes if (band := _band(one, clock))]
    kinds = [kind for kind in _COLOURS if any(one.status == kind for one in shown)]
    legend = legend_of(
        *((True, _COLOURS[kind], words.STATUS_WORDS[kind]) for kind in kinds),
        (bands, "band", "episode of expired checkpoints"),
    )

    def spec(width: int) -> Spec:
        return _spec(rows, bands, unit, clock, width)

    left_out = job.total.checkpoints - len(job.checkpoints)
    note = join_notes(
        (each > 1, f"a bar shows the worst of {each} checkpoints"),
        (left_out > 0, f"{left_out} more are not in the report"),
    )
    return renderer.figure(
        "Checkpoints over time",
        f"Checkpoints over time: {words.checkpoint_counts(job)}",
        spec,
        how=HOW,
        legend=legend,
        note=note,
        numbers=_numbers(job, clock),
    )


def _numbers(job: CheckpointJob, clock: words.Clock) -> Table:
    runs = job.runs > 1
    columns = (
        Column("checkpoint", lambda c: f"{c.id} (run {c.run})" if runs else f"{c.id}", "left"),
        Column("triggered", lambda c: clock.show(c.triggered_at), "left"),
        Column("took", lambda c: None if c.duration_ms is None else fmt.duration(c.duration_ms)),
        Column("size", lambda c: None if c.bytes is None else fmt.size(c.bytes)),
        Column("ended", lambda c: words.STATUS_WORDS.get(c.status, c.status), "left"),
        Column("reason", lambda c: c.reason or "", "left"),
    )
    return table(columns, job.checkpoints, _ROWS)


def _severity(one: Checkpoint) -> float:
    rank = _WORST.index(one.status) if one.status in _WORST else len(_WORST)
    return rank + min((one.duration_ms or 0) / 1e10, 0.9)


def _row(one: Checkpoint, clock: words.Clock) -> dict[str, Any]:
    took = "" if one.duration_ms is None else f" after {fmt.duration(one.duration_ms)}"
    ended = words.STATUS_WORDS.get(one.status, one.status)
    return {
        "x": wall_ms(one.triggered_at, clock),
        "ms": one.duration_ms,
        "status": one.status if one.status in _COLOURS else "aborted",
        "letter": _LETTERS.get(one.status, "" if one.status == "completed" else "?"),
        "tooltip": printable(f"checkpoint {one.id}, {clock.show(one.triggered_at)}: {ended}{took}"),
    }


def _band(one: CheckpointEpisode, clock: words.Clock) -> dict[str, Any] | None:
    first, last = wall_ms(one.first_seen, clock), wall_ms(one.last_seen, clock)
    if first is None or last is None:
        return None
    culprit = words.subject_name(one.subject) if one.subject else one.reason or "no culprit found"
    tooltip = f"checkpoints {one.first_checkpoint} to {one.last_checkpoint}, {one.expired} expired: {culprit}"
    return {"x": first, "x2": last, "tooltip": printable(tooltip)}


def _spec(
    rows: Sequence[dict[str, Any]],
    bands: Sequence[dict[str, Any]],
    unit: str,
    clock: words.Clock,
    width: int,
) -> Spec:
    thick = max(1.5, min(14.0, 0.6 * width / len(rows)))
    lettered = len(rows) * 9 <= width
    x = time_axis("x", clock, width)
    y = {"field": "y", "type": "quantitative", "axis": {"title": f"duration, {unit}"}}
    colour = {
        "field": "status",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": list(_COLOURS),
            "range": [f"var(--{colour})" for colour in _COLOURS.values()],
        },
    }
    letters = {
        "mark": {"type": "text", "dy": -7, "aria": False, "fontWeight": "bold"},
        "encoding": {"x": x, "y": y, "text": {"field": "letter"}},
        "transform": [{"calculate": "isValid(datum.y) ? datum.y : 0", "as": "y"}],
    }
    return {
        **FIT,
        "width": width,
        "height": _HEIGHT if width == WIDE else _HEIGHT - 30,
        "layer": [
            {
                "data": {"values": list(bands)},
                "mark": {"type": "rect", "color": "var(--band)"},
                "encoding": {"x": x, "x2": {"field": "x2"}, "description": {"field": "tooltip"}},
            },
            {
                "data": {"values": list(rows)},
                "mark": {"type": "bar", "width": thick},
                "encoding": {"x": x, "y": y, "color": colour, "description": {"field": "tooltip"}},
            },
            *([{"data": {"values": list(rows)}, **letters}] if lettered else []),
        ],
    }
