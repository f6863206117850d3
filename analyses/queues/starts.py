"""Checks whether a time is near a start, a restore or a restart of a job."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from flowdiag.analyses.queues.facts import JobQueues

NEAR_START_US: Final = 120_000_000

_RESUMING: Final = frozenset({"restored", "restart", "job-restarting"})


def begins_near(times: Iterable[int], us: int | None) -> bool:
    """Return whether a time is within two minutes after or one minute before any of `times`."""
    return us is not None and any(
        -NEAR_START_US // 2 <= us - start <= NEAR_START_US for start in times
    )


def age_us(job: JobQueues, us: int | None) -> float:
    """Return the time since the last start of the job."""
    starts = [*job.starts_us, *_resumed_us(job)]
    if us is None:
        return inf
    return min((us - start for start in starts if start <= us), default=inf)


def restarted_at_end(job: JobQueues, last_us: int | None) -> bool:
    """Return whether the job restarted when the spell ended."""
    return last_us is not None and any(
        -job.window_us <= start - last_us <= NEAR_START_US for start in job.starts_us
    )


def has_restarted(job: JobQueues, first_us: int | None, last_us: int | None) -> bool:
    """Return whether the job was restored or restarted between two times."""
    if first_us is None or last_us is None:
        return False
    return any(first_us < us < last_us for us in (*job.starts_us, *_resumed_us(job)))


def has_resumed(job: JobQueues, first_us: int | None) -> bool:
    """Return whether the job ran before the spell and restarted shortly before it."""
    if first_us is None:
        return False
    times = _resumed_us(job)
    first_sample = min(
        (s.first_us for each in job.samples.values() for s in each if s.first_us is not None),
        default=first_us,
    )
    times += [start for start in job.starts_us if start > first_sample + job.window_us]
    return begins_near(times, first_us)


def _resumed_us(job: JobQueues) -> list[int]:
    """Return the times at which the job was restored or restarted."""
    return [
        incident.time_us
        for incident in job.job.incidents
        if incident.kind in _RESUMING and incident.time_us is not None
    ]
