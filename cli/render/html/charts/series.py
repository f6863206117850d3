"""Durations, delays and rates of batches or triggers over time, with the interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from flowdiag.analyses.contract.report import RateApplication, RateQuery, iso
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import FIT, Spec
from flowdiag.cli.render.html.figures import (
    WIDE,
    ChartRenderer,
    Figure,
    join_notes,
    legend_of,
    worst_of,
)
from flowdiag.cli.render.html.scales import time_axis, unit_of_lengths, wall_ms
from flowdiag.cli.text import words

HOW_TIMES: Final = (
    "Each bar is a batch or a trigger, and its height is the duration. The dashed line is the interval: if bars stay above it, "
    "the job does not keep up. The dotted line is the delay before processing. While it rises, work accumulates. If it is "
    "flat and low, the job keeps up, even if some bars are high."
)
HOW_RATES: Final = (
    "The area shows the records per second of each batch or trigger. The line is the rate limit that Spark published, or "
    "the backlog if the source reports it. A limit far below earlier rates means that back pressure throttles the source. "
    "If the limit stays low and constant, a setting causes it."
)

_POINTS: Final = 160
_HEIGHT: Final = 170


Window = tuple[float, float]
"""A period in milliseconds of `wall_ms`."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A batch or a trigger."""

    at: str | None
    took_ms: float | None
    waited_ms: float | None
    records: float | None
    kind: str
    failed: bool = False


def of_batches(
    app: RateApplication, clock: words.Clock, renderer: ChartRenderer
) -> Iterator[Figure]:
    points = [
        _Point(
            at=iso(batch.batch_time_ms * 1000),
            took_ms=batch.processing_delay_ms,
            waited_ms=float(max(0, batch.processing_start_ms - batch.batch_time_ms))
            if batch.processing_start_ms is not None
            else batch.scheduling_delay_ms,
            records=batch.records,
            kind="batch",
            failed=batch.failed_outputs > 0,
        )
        for batch in app.batches
    ]
    missing = app.total.batches - len(app.batches)
    span = _span(points, clock)
    yield from _times(
        "Batches: processing time, delay, and the interval",
        points,
        app.batch_interval_ms,
        clock,
        renderer,
        span,
        missing,
    )
    limits = [
        {"x": wall_ms(iso(step.time_ms * 1000), clock), "y": step.new_rate, "of": f"{stream}"}
        for stream, steps in groupby(
            sorted(app.pid, key=lambda s: s.stream_id), lambda s: s.stream_id
        )
        for step in steps
        if step.new_rate is not None
    ]
    seconds = (app.batch_interval_ms or 0) / 1000
    title = "Records per second" + (", and the published rate limit" if limits else "")
    yield from _rates(title, points, seconds, limits, clock, renderer, span)


def of_triggers(query: RateQuery, clock: words.Clock, renderer: ChartRenderer) -> Iterator[Figure]:
    points = [
        _Point(
            at=trigger.started_at,
            took_ms=trigger.duration_ms,
            waited_ms=None,
            records=trigger.backlog,
            kind="trigger",
        )
        for trigger in query.triggers
    ]
    interval = None if query.real_time else query.trigger_interval_ms
    title = "Triggers: execution time" + (", and the interval" if interval else "")
    span = _span(points, clock)
    yield from _times(title, points, interval, clock, renderer, span)
    if any(point.records for point in points):
        backlog = [
            {"x": wall_ms(point.at, clock), "y": point.records, "of": "backlog"}
            for point in points
            if point.records is not None
        ]
        yield from _rates(
            "Backlog: rows waiting in the source", [], 0, backlog, clock, renderer, span
        )


def _span(points: Sequence[_Point], clock: words.Clock) -> Window | None:
    """Return the period that all batches or triggers cover, finished or not."""
    times = [time for point in points if (time := wall_ms(point.at, clock)) is not None]
    return (min(times), max(times)) if times and min(times) < max(times) else None


def _times(
    title: str,
    points: Sequence[_Point],
    interval_ms: int | None,
    clock: words.Clock,
    renderer: ChartRenderer,
    span: Window | None,
    missing: int = 0,
) -> Iterator[Figure]:
    known = [point for point in points if point.at and point.took_ms is not None]
    if len(known) < 2:
        return
    shown, each = worst_of(known, _POINTS, lambda p: p.took_ms or 0)
    size, unit = unit_of_lengths(
        [*(point.took_ms for point in shown), *(point.waited_ms for point in shown), interval_ms]
    )
    rows = [_row(point, size, clock) for point in shown]
    waits = any(row["wait"] is not None for row in rows)
    legend = legend_of(
        (True, "blue", "duration"),
        (any(p.failed for p in shown), "bad", "failed"),
        (waits, "dots", "delay before processing"),
        (interval_ms, "dash", f"interval, {fmt.duration(interval_ms)}"),
    )
    note = join_notes(
        (each > 1, f"each bar shows the worst of {each}"),
        (missing > 0, f"{missing} more are not in the report"),
    )
    label = f"{title}. {_summary(known, interval_ms)}"

    def spec(width: int) -> Spec:
        limit = None if interval_ms is None else interval_ms / size
        return _times_spec(
            rows, limit, unit, time_axis("x", clock, width, span), width, waits=waits
        )

    figure = renderer.figure(title, label, spec, how=HOW_TIMES, legend=legend, note=note)
    if figure:
        yield figure


def _summary(points: Sequence[_Point], interval_ms: int | None) -> str:
    took = [point.took_ms or 0 for point in points]
    text = f"{len(points)} shown, the longest took {fmt.duration(max(took))}"
    if interval_ms:
        text += f", {sum(ms > interval_ms for ms in took)} took longer than the interval"
    return text


def _row(point: _Point, size: int, clock: words.Clock) -> dict[str, Any]:
    waited = "" if point.waited_ms is None else f", waited {fmt.duration(point.waited_ms)}"
    records = "" if point.records is None else f", {fmt.thousands(point.records)} records"
    took = fmt.duration(point.took_ms)
    return {
        "x": wall_ms(point.at, clock),
        "y": (point.took_ms or 0) / size,
        "wait": None if point.waited_ms is None else point.waited_ms / size,
        "state": "failed" if point.failed else "done",
        "tooltip": f"{point.kind} of {clock.show(point.at)}: took {took}{waited}{records}",
    }


def _times_spec(
    rows: Sequence[dict[str, Any]],
    limit: float | None,
    unit: str,
    x: Spec,
    width: int,
    *,
    waits: bool,
) -> Spec:
    y = {"field": "y", "type": "quantitative", "axis": {"title": unit}}
    thick = max(1.2, min(14.0, 0.6 * width / len(rows)))
    color = {
        "field": "state",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": ["done", "failed"], "range": ["var(--blue)", "var(--bad)"]},
    }
    dots = {
        "transform": [{"filter": "isValid(datum.wait)"}],
        "mark": {
            "type": "line",
            "color": "var(--violet)",
            "strokeWidth": 1.5,
            "aria": False,
            "point": {"fill": "var(--violet)", "size": 14, "aria": False},
        },
        "encoding": {"x": x, "y": {**y, "field": "wait"}},
    }
    line = {
        "mark": {
            "type": "rule",
            "color": "var(--ink)",
            "strokeDash": [6, 4],
            "strokeWidth": 1.5,
            "aria": False,
        },
        "encoding": {"y": {"datum": limit}},
    }
    return {
        **FIT,
        "width": width,
        "height": _HEIGHT if width == WIDE else _HEIGHT - 20,
        "data": {"values": list(rows)},
        "layer": [
            {
                "mark": {"type": "bar", "width": thick},
                "encoding": {"x": x, "y": y, "color": color, "description": {"field": "tooltip"}},
            },
            *([dots] if waits else []),
            *([line] if limit is not None else []),
        ],
    }


def _rates(
    title: str,
    points: Sequence[_Point],
    seconds: float,
    limits: Sequence[dict[str, Any]],
    clock: words.Clock,
    renderer: ChartRenderer,
    span: Window | None,
) -> Iterator[Figure]:
    known = [p for p in points if p.at and p.records is not None] if seconds else []
    if len(known) < 2 and len(limits) < 2:
        return
    shown, each = worst_of(known, _POINTS, lambda p: p.records or 0)
    rows = [{"x": wall_ms(point.at, clock), "y": (point.records or 0) / seconds} for point in shown]
    lines, per = worst_of(limits, _POINTS, lambda row: float(row["y"] or 0))
    limited = "backlog" if lines and lines[0]["of"] == "backlog" else "published rate limit"
    legend = legend_of((rows, "area", "records per second"), (lines, "dots", limited))
    group = max(each, per)
    note = join_notes((group > 1, f"a point shows the highest of {group}"))
    highest = max(row["y"] for row in (*rows, *lines))
    label = f"{title}. The highest value is {fmt.number(round(highest, 1))}"

    def spec(width: int) -> Spec:
        return _rates_spec(rows, lines, time_axis("x", clock, width, span), width)

    figure = renderer.figure(title, label, spec, how=HOW_RATES, legend=legend, note=note)
    if figure:
        yield figure


def _rates_spec(
    rows: Sequence[dict[str, Any]],
    lines: Sequence[dict[str, Any]],
    x: Spec,
    width: int,
) -> Spec:
    axis = {"title": "records/s" if rows else "rows", "format": "~s", "tickCount": 4}
    y = {"field": "y", "type": "quantitative", "axis": axis}
    return {
        **FIT,
        "width": width,
        "height": _HEIGHT - 40,
        "layer": [
            {
                "data": {"values": list(rows)},
                "mark": {
                    "type": "area",
                    "color": "var(--area)",
                    "line": {"color": "var(--blue)", "strokeWidth": 1, "aria": False},
                    "aria": False,
                },
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": list(lines)},
                "mark": {"type": "line", "color": "var(--violet)", "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": y, "detail": {"field": "of"}},
            },
        ],
    }
