"""Operators whose watermark does not advance, paused sources, and tasks that emit nothing."""

from __future__ import annotations

from math import isfinite

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.alignment import PausedSource, paused_source
from flowdiag.analyses.queues.starts import age_us


def stuck_operators(
    job: h.JobQueues, *, back_pressured: bool, first: float, seconds: float, records: float
) -> list[tuple[e.StuckOperator, e.Holder | None]] | None:
    """Return the operators that wait for a watermark, each with the source that holds it back.

    The result is None if a watermark is in the future. During back pressure, queued records delay watermarks, so only
    a watermark that was never set counts.

    Args:
        job: the job.
        back_pressured: whether the job is back-pressured.
        first, seconds: minimum time without any watermark, and with an unchanged one.
        records: minimum number of records that the operator receives.
    """
    found = []
    for stuck in e.stuck_operators(job):
        if not stuck.certain or stuck.records < records:
            continue
        holder = next(iter(e.holders(job, stuck.task, stuck.held)), None)
        enough = first if stuck.held.value is None else seconds
        measured = stuck.held.duration_ms >= enough * 1000
        if not measured and _known_ms(job, stuck, holder) < seconds * 1000:
            continue
        if e.is_ahead(stuck.held.value, stuck.held.until_us):
            return None
        never_set = stuck.held.value is None and holder is not None and bool(holder.reading)
        if not back_pressured or never_set:
            found.append((stuck, holder))
    return found


def _known_ms(job: h.JobQueues, stuck: e.StuckOperator, holder: e.Holder | None) -> float:
    """Return for how long, in ms, evidence other than samples proves that the watermark did not advance.

    A watermark that was never set has been missing since the start of the job. An idle source emits no watermarks, so
    its idle time counts.
    """
    if stuck.held.value is None:
        age = age_us(job, stuck.held.until_us)
        return age / 1000 if isfinite(age) else 0.0
    if holder is None or holder.reading:
        return 0.0
    idle = e.event_time(job).gauges
    marks = (idle.get((key, "sourceIdleTime")) for key in holder.keys)
    return min(((mark.latest or 0.0) if mark is not None else 0.0) for mark in marks)


def stuck_throughout(job: h.JobQueues, *, records: float) -> e.StuckOperator | None:
    """Return an operator that receives `records` records while its watermark does not advance in any sample."""
    inputs = e.event_time(job).inputs
    for stuck in e.stuck_operators(job):
        marks = [mark for key in stuck.keys if (mark := inputs.get(key)) is not None]
        throughout = all(
            (held := e.constant_period(mark)) and held.since_us == mark.points[0].time_us
            for mark in marks
        )
        if stuck.certain and marks and throughout and stuck.records >= records:
            return stuck
    return None


def lasting_pause(job: h.JobQueues, seconds: float) -> PausedSource | None:
    """Return the source that watermark alignment has paused for `seconds`, unless the other source catches up."""
    paused = paused_source(job)
    if paused is None or paused.catches_up:
        return None
    return paused if (paused.until_us - paused.since_us) / 1e6 >= seconds else None


def silent_task(job: h.JobQueues, *, records: float, seconds: float) -> h.Silence | None:
    """Return the first task that received `records` in at least `seconds` but emitted none, or such an operator."""
    tasks = (h.silence_of(job, task) for task in job.topology.tasks)
    found = next((each for each in tasks if each is not None and each.records >= records), None)
    silent = found or e.silent_operator(job)
    if silent is None or silent.records < records or silent.duration_ms < seconds * 1000:
        return None
    return silent
