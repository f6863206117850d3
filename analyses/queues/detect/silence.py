"""Operators whose watermark does not advance, paused sources, and tasks that emit nothing."""

from __future__ import annotations

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.alignment import PausedSource, paused_source


def stuck_operators(
    job: h.JobQueues, *, back_pressured: bool, first: float, seconds: float, records: float
) -> list[tuple[e.Stuck, e.Holder | None]] | None:
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
        enough = first if stuck.held.value is None else seconds
        lasts = stuck.held.lasted_ms >= enough * 1000 and stuck.records >= records
        if not stuck.certain or not lasts:
            continue
        if e.is_ahead(stuck.held.value, stuck.held.until_us):
            return None
        holder = next(iter(e.holders(job, stuck.task, stuck.held)), None)
        never_set = stuck.held.value is None and holder is not None and bool(holder.reading)
        if not back_pressured or never_set:
            found.append((stuck, holder))
    return found


def lasting_pause(job: h.JobQueues, seconds: float) -> PausedSource | None:
    """Return the source that watermark alignment has paused for `seconds`, unless the other source catches up."""
    paused = paused_source(job)
    if paused is None or paused.catches_up:
        return None
    return paused if (paused.until_us - paused.since_us) / 1e6 >= seconds else None


def silent_task(job: h.JobQueues, *, records: float, seconds: float) -> h.Silence | None:
    """Return the first task that received `records` in at least `seconds` and emitted none. Without such a task,
    return the first such operator.
    """
    tasks = (h.silence_of(job, task) for task in job.topology.tasks)
    found = next((each for each in tasks if each is not None and each.records >= records), None)
    silent = found or e.silent_operator(job)
    if silent is None or silent.records < records or silent.lasted_ms < seconds * 1000:
        return None
    return silent
