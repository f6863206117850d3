"""What any fact may point at, whatever engine it is of: a record, a job, a process of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Ref(NamedTuple):
    """Where a record lies: index of the source, first byte in its decoded stream."""

    source: int
    offset: int


class JobKey(NamedTuple):
    """A job: the cluster matters only where job ids repeat (0…0 in application mode with HA, none in 1.4)."""

    cluster: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process (or the part of it that the inputs hold)."""

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
    zone_changes: bool = False  # summer time begins or ends in it: `zone_offset_ms` is the last one
    clock_offset_ms: int | None = None  # against the JobManager's clock, after the zone
    first_us: int | None = None
    last_us: int | None = None
    events: int = 0
