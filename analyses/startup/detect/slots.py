"""Compares the slots that a start required with those it acquired."""

from __future__ import annotations

from bisect import bisect_left

from flowdiag.analyses.flink.settings import setting
from flowdiag.analyses.startup import helpers as h


def is_short(start: h.Start, times: list[int]) -> bool:
    """Return whether a start had too few slots, judged by its numbers or by a slot error."""
    if start.held not in ("slots", "back-off"):
        return False
    slots = start.slots
    if slots and slots.required and slots.acquired is not None and start.tasks:
        return slots.acquired < slots.required
    return bisect_left(times, start.started_us) < bisect_left(times, start.ended_us or 1 << 62)


def slots_each(
    job: h.JobStarting, required: int | None, acquired: int | None, taskmanagers: int | None
) -> int | None:
    """Return how many slots each TaskManager needs.

    If the slots per TaskManager are known, only TaskManagers that offered slots count, because others may be gone.
    """
    each = setting(job.job, "taskmanager.numberOfTaskSlots")
    slots = int(each.value) if each is not None and each.value.isdecimal() else None
    offering = (acquired // slots if slots and acquired else None) or taskmanagers
    return -(-required // offering) if required and offering else None


def slot_numbers(job: h.JobStarting, short: list[h.Start]) -> tuple[int | None, int | None]:
    """Return required and acquired slots of the latest start with numbers, or the slots of the widest vertex."""
    slots = [start.slots for start in short if start.slots]
    latest = next(
        (s for s in reversed(slots) if s.acquired is not None), slots[0] if slots else None
    )
    vertices = job.job.graph.vertices if job.job.graph else ()
    widest = max((vertex.parallelism for vertex in vertices), default=0) or None
    return (latest.required if latest else None) or widest, latest.acquired if latest else None
