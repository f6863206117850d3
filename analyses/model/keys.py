"""Identifies records, jobs and processes in the inputs of either engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Ref(NamedTuple):
    """The position of a record: the index of its source and its first byte in the decoded stream."""

    source: int
    offset: int


class JobKey(NamedTuple):
    """A job. The cluster matters only if job IDs repeat (0…0 in application mode with HA, none in 1.4)."""

    cluster: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, or the part of its log that is in the input."""

    source: int
    label: str | None
    role: str  # jobmanager | taskmanager | client | history-server | unknown
    cluster: str
    version: str | None = None
    taskmanager: str | None = None
    host: str | None = None
    zone_offset_ms: int | None = None
    zone_from: str | None = (
        None  # printed | trigger-timestamps | carrier | transitions | --tz | assumed
    )
    zone_changes: bool = (
        False  # daylight saving time starts or ends: `zone_offset_ms` is the last offset
    )
    clock_offset_ms: int | None = None  # against the JobManager's clock, after the zone
    first_us: int | None = None
    last_us: int | None = None
    events: int = 0
