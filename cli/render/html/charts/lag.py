"""Records that wait in the source of a job, over time."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.contract.queues import QueueLag
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import FIT, Spec
from flowdiag.cli.render.html.figures import ChartRenderer, Figure, legend_of
from flowdiag.cli.render.html.scales import time_axis, wall_ms
from flowdiag.cli.text import words

HOW: Final = (
    "The line shows the unread records in the source. While it rises, more records arrive than "
    "the job reads. While it falls, the job is catching up. Consumer group lag rises between "
    "two checkpoints, because Flink commits offsets when a checkpoint completes."
)
_HEIGHT: Final = 130


def consumer_lag(
    lag: QueueLag | None, clock: words.Clock, renderer: ChartRenderer
) -> Figure | None:
    """Return the lag of a job over time, or None with fewer than two points."""
    if lag is None or len(lag.points) < 2:
        return None
    rows = [
        {
            "x": wall_ms(point.at, clock),
            "y": point.records,
            "tooltip": f"{clock.show(point.at)}: {fmt.plural(round(point.records), 'record')}",
        }
        for point in lag.points
    ]
    times = [float(row["x"]) for row in rows if isinstance(row["x"], int | float)]
    span = (min(times), max(times)) if times and min(times) < max(times) else None
    title = f"Lag of {lag.of}: unread records in the source"
    label = f"{title}. {fmt.thousands(lag.first)} at the start, {fmt.thousands(lag.last)} at the end, {lag.direction}"

    def spec(width: int) -> Spec:
        axis = {"title": "records", "format": "~s", "tickCount": 4}
        y = {"field": "y", "type": "quantitative", "axis": axis, "scale": {"zero": True}}
        return {
            **FIT,
            "width": width,
            "height": _HEIGHT,
            "data": {"values": rows},
            "mark": {
                "type": "line",
                "color": "var(--violet)",
                "strokeWidth": 2,
                "aria": False,
                "point": {"fill": "var(--violet)", "size": 14},
            },
            "encoding": {
                "x": time_axis("x", clock, width, span),
                "y": y,
                "description": {"field": "tooltip"},
            },
        }

    legend = legend_of((True, "dots", "waiting records"))
    return renderer.figure(title, label, spec, how=HOW, legend=legend)
