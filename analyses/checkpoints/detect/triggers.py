"""Finds checkpoint triggers that the JobManager refused or skipped."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import crises
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.settings import setting


def all_finished(refused: list[h.Incident], *, fewest: float, finishing_ms: float) -> bool:
    """Return whether finished tasks explain all refusals, for longer than a bounded job takes to finish."""
    if len(refused) < fewest:
        return False
    span = ((refused[-1].time_us or 0) - (refused[0].time_us or 0)) / 1000
    return span >= finishing_ms and all("finished" in (i.cause or "") for i in refused)


def refused_triggers(job: h.Job) -> list[h.Incident]:
    """Return the triggers refused since the last successful one, unless a failure of the job explains them."""
    # If the job failed and does not recover, other rules report the reason.
    if any(crisis.state is h.State.ONGOING for crisis in crises(job)):
        return []
    last = max(
        (c.triggered_us for c in job.checkpoints if c.triggered_us is not None), default=None
    )
    return [
        i
        for i in h.incidents(job, "not-triggered")
        if i.time_us is not None and (last is None or i.time_us > last)
    ]


_EXCUSES: Final = (
    "cancelled",
    "coordinator-stopped",
    "job-failure",
    "job-failing",
    "job-restarting",
    "suspended",
    "task-failure",
    "savepoint",
)


def silence_ms(job: h.Job) -> float | None:
    """Return the time since the last checkpoint in ms, or None if no further checkpoint was certainly due."""
    triggered = [c for c in job.checkpoints if c.triggered_us is not None]
    if job.interval_ms is None or job.last_us is None or not triggered:
        return None
    if any(c.status is h.Status.IN_FLIGHT for c in triggered):
        return None
    if setting(job, "execution.checkpointing.interval-during-backlog") is not None:
        return None  # while a source reads its backlog, checkpoints may be rare or off (since 1.19)
    last = max(c.ended_us or c.triggered_us or 0 for c in triggered)
    until = jobmanager_logged_until(job.cluster, last, job.last_us)
    if any(i.time_us is None or i.time_us >= last for i in h.incidents(job, *_EXCUSES)):
        return None
    return (until - last) / 1000
