"""Texts and measurements about missing network buffers."""

from __future__ import annotations

from flowdiag.analyses.flink.advice.exception_texts import exception_measurements
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.shortage import (
    BufferShortage,
)


def texts_of(worst: h.BufferNeeds | None, last: BufferShortage | None) -> tuple[str, str]:
    """Return the title and the reason of a finding about missing buffers."""
    if worst is not None:
        return (
            f"{worst.taskmanager} has {worst.segments} network buffers, but its tasks require {worst.required}",
            f"{worst.missing} segments of {h.fmt.size(worst.segment_bytes)} are missing",
        )
    title = "Too few network buffers"
    if last is not None and last.text:
        title += f": {last.required} more required, {last.available} left of {last.total or '?'}"
    cause = last.incident.cause or "" if last is not None else "the pools do not fit"
    return title, h.fmt.shorten(cause, 140)


def measurements_of(
    worst: h.BufferNeeds | None, last: BufferShortage | None
) -> h.Iterator[h.Measurement]:
    if worst is None:
        if last is not None:
            yield from exception_measurements(classify_incident(last.incident))
        return
    tasks = f"{len(worst.tasks)} subtasks on {worst.taskmanager}"
    yield h.measurement("required-buffers", worst.required, "segments", worst.segments, over=tasks)
    yield h.measurement("worst-case-buffers", worst.any_placement, "segments")
    yield h.measurement("desired-buffers", worst.desired, "segments")
    if worst.tasks:
        most = max(worst.tasks, key=lambda need: need.required)
        subtask = f"{most.task} ({most.subtask_index + 1})"
        yield h.measurement("largest-subtask", most.required, "segments", over=subtask)
