"""The duration and status of checkpoints over time, with the episodes in which they expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Checkpoint, CheckpointEpisode, CheckpointJob
from flowdiag.analyses.model import fmt
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
    "Each bar is a checkpoint at its trigger time, and its height is the duration. Letters mark checkpoints that did not "
    "complete: E expired, D declined, F failed, A aborted, I in flight when the input ends. A shaded area is an "
    "episode of expired checkpoints. Bars marked E are as high as the timeout. A healthy job has low bars of similar "
    "height."
)

_BARS: Final = 180
_ROWS: Final = 100
_HEIGHT: Final = 190
_COLORS: Final = {
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
    """Return the chart of a job, or None if fewer than two of its checkpoints have a time."""
    dated = [checkpoint for checkpoint in job.checkpoints if checkpoint.triggered_at]
    if len(dated) < 2:
        return None
    shown, each = worst_of(dated, _BARS, _severity)
    rows = [_row(checkpoint, clock) for checkpoint in shown]
    size, unit = unit_of_lengths(row["ms"] for row in rows)
    for row in rows:
        row["y"] = None if row["ms"] is None else row["ms"] / size
    bands = [band for episode in job.episodes if (band := _band(episode, clock))]
    kinds = [kind for kind in _COLORS if any(checkpoint.status == kind for checkpoint in shown)]
    legend = legend_of(
        *((True, _COLORS[kind], words.STATUS_WORDS[kind]) for kind in kinds),
        (bands, "band", "episode of expired checkpoints"),
    )

    def spec(width: int) -> Spec:
        return _spec(rows, bands, unit, clock, width)

    left_out = job.total.checkpoints - len(job.checkpoints)
    note = join_notes(
        (each > 1, f"each bar shows the worst of {each} checkpoints"),
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


def _severity(checkpoint: Checkpoint) -> float:
    rank = _WORST.index(checkpoint.status) if checkpoint.status in _WORST else len(_WORST)
    return rank + min((checkpoint.duration_ms or 0) / 1e10, 0.9)


def _row(checkpoint: Checkpoint, clock: words.Clock) -> dict[str, Any]:
    took = (
        "" if checkpoint.duration_ms is None else f" after {fmt.duration(checkpoint.duration_ms)}"
    )
    ended = words.STATUS_WORDS.get(checkpoint.status, checkpoint.status)
    return {
        "x": wall_ms(checkpoint.triggered_at, clock),
        "ms": checkpoint.duration_ms,
        "status": checkpoint.status if checkpoint.status in _COLORS else "aborted",
        "letter": _LETTERS.get(checkpoint.status, "" if checkpoint.status == "completed" else "?"),
        "tooltip": printable(
            f"checkpoint {checkpoint.id}, {clock.show(checkpoint.triggered_at)}: {ended}{took}"
        ),
    }


def _band(episode: CheckpointEpisode, clock: words.Clock) -> dict[str, Any] | None:
    first, last = wall_ms(episode.first_seen, clock), wall_ms(episode.last_seen, clock)
    if first is None or last is None:
        return None
    culprit = (
        words.subject_name(episode.subject)
        if episode.subject
        else episode.reason or "no culprit found"
    )
    span = f"checkpoints {episode.first_checkpoint} to {episode.last_checkpoint}"
    tooltip = f"{span}, {episode.expired} expired: {culprit}"
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
    color = {
        "field": "status",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": list(_COLORS),
            "range": [f"var(--{color})" for color in _COLORS.values()],
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
                "encoding": {"x": x, "y": y, "color": color, "description": {"field": "tooltip"}},
            },
            *([{"data": {"values": list(rows)}, **letters}] if lettered else []),
        ],
    }
