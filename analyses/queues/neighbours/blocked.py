"""Finds database sessions of a job that wait for locks of other sessions."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import cite
from flowdiag.analyses.neighbours.locks import LockedSessions, find_blocked
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.parsers.exceptions import classify
from flowdiag.parsers.neighbours.sessions import MARIADB, POSTGRES

REFUSALS: Final = 2
"""Minimum number of writes that failed to get the lock. A single one may have met a long transaction."""
RECENT_US: Final = 60_000_000
"""A wait ends after the timeout of the database (50 s by default in MariaDB)."""


@once
def blocked_sessions(job: JobQueues) -> LockedSessions | None:
    """Return the waits of the job's sessions for locks of other sessions, or None if they are short or unknown."""
    return find_blocked(job.neighbours, job.job.last_us) or _aborted_waits(job)


def _aborted_waits(job: JobQueues) -> LockedSessions | None:
    """Return the waits that the database aborted, from the log of the sink."""
    found = [
        incident
        for incident in job.job.incidents
        if incident.kind == "refused" and class_of(incident) == "lock-wait-ended"
    ]
    times = [incident.time_us for incident in found if incident.time_us is not None]
    if len(found) < REFUSALS:
        return None
    end_us = job.job.last_us
    postgres = any("canceling statement" in (incident.cause or "") for incident in found)
    return LockedSessions(
        waiting=0,
        sessions=0,
        holder=None,
        holder_state=None,
        event=None,
        snapshots=(0, 0),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        ongoing=not times or end_us is None or end_us - max(times) <= RECENT_US,
        system=POSTGRES if postgres else MARIADB,
        refused=len(found),
        evidence=cite((incident.ref, incident.time_us) for incident in found),
    )


def class_of(incident: Incident) -> str | None:
    """Return the exception class of a log record."""
    found = classify([incident.cause], "flink") if incident.cause else None
    return None if found is None else found.name
