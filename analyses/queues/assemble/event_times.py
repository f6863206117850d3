"""Builds the event-time gauges and the record counters of a job's operators from measured rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.queues.assemble.owners import Row, Tasks
from flowdiag.analyses.queues.facts import Flow, FlowPoint, Mark, MarkPoint, StoreMetric

_OF_POINT: Final = ("time_us", "until_us", "n", "low", "high", "first", "last")
_TERABYTE: Final = 1 << 40  # as in `engine.frames.PLACE`


def marks_of(rows: Iterable[Row], tasks: Tasks) -> tuple[Mark, ...]:
    """Return the event-time gauges. If two inputs contain the same gauge, keep the one with more samples."""
    found: dict[tuple[SubtaskKey, str, str], Mark] = {}
    for row in rows:
        task = tasks.of(row)
        if task is None:
            continue
        key = SubtaskKey(task, row["subtask_index"])
        mark = Mark(key=key, operator=row["operator"], name=row["name"], points=_points(row))
        known = found.get((key, mark.operator or "", mark.name))
        if known is None or len(known.points) < len(mark.points):
            found[key, mark.operator or "", mark.name] = mark
    return tuple(mark for _, mark in sorted(found.items(), key=lambda item: item[0]))


def flows_of(rows: Iterable[Row], tasks: Tasks) -> tuple[Flow, ...]:
    """Return the record counters. If two inputs contain the same counter, keep the one with more samples."""
    found: dict[tuple[str, str, str], list[Flow]] = defaultdict(list)
    for row in rows:
        task = tasks.of(row)
        if task is None:
            continue
        flow = Flow(
            task=task,
            operator=row["operator"],
            name=row["name"],
            points=tuple(
                FlowPoint(
                    point["time_us"], point["until_us"], point["increase"], _ref(point["place"])
                )
                for point in row["increases"]
            ),
        )
        found[task, flow.operator or "", flow.name].append(flow)
    return tuple(max(each, key=lambda flow: len(flow.points)) for _, each in sorted(found.items()))


def stores_of(rows: Iterable[Row], tasks: Tasks) -> tuple[StoreMetric, ...]:
    """Return the store metrics. If two inputs contain the same metric, the one with more samples takes precedence."""
    found: dict[tuple[SubtaskKey, str, str], StoreMetric] = {}
    for row in rows:
        task = tasks.of(row)
        if task is None:
            continue
        key = SubtaskKey(task, row["subtask_index"])
        each = StoreMetric(
            key=key,
            operator=row["operator"],
            name=row["name"],
            family=row["family"] or None,
            points=_points(row),
        )
        known = found.get((key, each.operator or "", each.name))
        found[key, each.operator or "", each.name] = (
            each if known is None else join_samples(known, each)
        )
    return tuple(each for _, each in sorted(found.items(), key=lambda item: item[0]))


def join_samples(one: StoreMetric, other: StoreMetric) -> StoreMetric:
    """Return the metric with more samples, extended by the samples of the other before its start and after its end."""
    less, more = sorted((one, other), key=lambda each: len(each.points))
    if not less.points:
        return more
    first_us, last_us = more.points[0].time_us, more.points[-1].until_us
    before = (point for point in less.points if point.until_us < first_us)
    after = (point for point in less.points if point.time_us > last_us)
    return replace(more, points=(*before, *more.points, *after))


def _points(row: Row) -> tuple[MarkPoint, ...]:
    return tuple(
        MarkPoint._make([*(point[name] for name in _OF_POINT), _ref(point["place"])])
        for point in row["points"]
    )


def _ref(place: int) -> Ref:
    return Ref(*divmod(place, _TERABYTE))
