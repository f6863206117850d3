"""Collects Flink's `Insufficient number of network buffers` errors with their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory.facts import BufferNeeds, MemoryFacts

_ERROR: Final = re.compile(
    r"Insufficient number of network buffers: required ([0-9]{1,9}), but only ([0-9]{1,9}) available"
    r"(?:.{0,80}?currently set to ([0-9]{1,9}) of ([0-9]{1,9}) bytes each)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferShortage:
    """A record of the error.

    Args:
        text: the error itself, if it contains numbers.
        required, available, total: segments, as printed.
        least_bytes: the network memory with which this allocation would succeed.
    """

    job: JobFacts
    incident: Incident
    text: str | None = None
    required: str | None = None
    available: str | None = None
    total: str | None = None
    least_bytes: int | None = None


def shortages_in(facts: MemoryFacts) -> list[BufferShortage]:
    """Return the records of the error, grouped by job."""
    found = []
    for job in facts.jobs:
        for incident in job.incidents:
            cause = incident.cause or ""
            failed = incident.kind == "task-failure" and "number of network buffers" in cause
            if incident.kind != "network-buffers" and not failed:
                continue
            match = _ERROR.search(cause)
            if match is None:
                found.append(BufferShortage(job=job, incident=incident))
                continue
            required, available, total, size = match.groups()
            least = (int(total) - int(available) + int(required)) * int(size) if total else None
            found.append(
                BufferShortage(
                    job=job,
                    incident=incident,
                    text=match[0],
                    required=required,
                    available=available,
                    total=total,
                    least_bytes=least or None,
                )
            )
    return found


def affected_job(
    facts: MemoryFacts, errors: Sequence[BufferShortage], short: Sequence[BufferNeeds]
) -> JobFacts | None:
    """Return the job of the first error or, without errors, a job on the first TaskManager with too few buffers."""
    if errors:
        return errors[0].job
    names = {need.job for need in short[0].tasks}
    return next((job for job in facts.jobs if (job.name or job.key.job_id) in names), None)


def has_recovered(job: JobFacts | None, error: BufferShortage | None) -> bool:
    """Return whether a checkpoint of the job completed after an error."""
    if job is None or error is None:
        return False
    failed_us = error.incident.time_us or 0
    return any(c.status == "completed" and failed_us < (c.ended_us or 0) for c in job.checkpoints)
