"""TaskManagers that were given up while a job ran, and what else the logs tell of them then."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.analyses.startup.failures import incidents_of

_TEMPLATES: Final = ("heartbeat-timed-out", "taskmanager-unreachable")
_SAID: Final = re.compile(
    r"eartbeat of TaskManager with id|TaskManager with id \S+ is no longer reach"
)
_BROKEN: Final = re.compile(
    r"unexpectedly closed by remote task manager|Lost connection to task manager|Connection refused|"
    r"Connecting to remote task manager|Connection reset by peer|RemoteTransportException"
)
_SAME_US: Final = 20_000_000  # ResourceManager and JobMaster say it both


def losses(facts: StartupFacts) -> list[Incident]:
    """TaskManagers that the JobManager gave up for their heartbeats, in order."""
    seen: dict[tuple[object, ...], Incident] = {}
    for incident in incidents_of(facts):
        told = incident.text.get("template") in _TEMPLATES or (
            incident.kind == "taskmanager-lost" and _SAID.search(incident.cause or "")
        )
        if told and incident.taskmanager and in_a_life(facts, incident.time_us):
            key = (incident.taskmanager, (incident.time_us or 0) // _SAME_US)
            seen.setdefault(key, incident)
    return sorted(seen.values(), key=lambda i: i.time_us or 0)


def in_a_life(facts: StartupFacts, time_us: int | None) -> bool:
    """Whether a job was on its way then: TaskManagers that leave an idle cluster are no trouble."""
    if time_us is None:
        return False
    for job in facts.jobs:
        if not job.starts:
            continue
        ends = [job.ended_us] + [
            i.time_us for i in job.job.incidents if i.kind in ("cancelled", "finished", "suspended")
        ]
        end = min((us for us in ends if us is not None), default=1 << 62)
        if job.starts[0].started_us <= time_us < end:
            return True
    return False


def host_of(facts: StartupFacts, name: str) -> str | None:
    """The host of a TaskManager, as it registered or as its tasks tell."""
    known = next((w.host for w in facts.workers if w.name == name and w.host), None)
    return known or next(
        (
            task.host
            for job in facts.jobs
            for start in job.starts
            for task in start.tasks
            if task.taskmanager == name and task.host
        ),
        None,
    )


def broken_connection(
    facts: StartupFacts, name: str, host: str | None, low: float, high: float
) -> Incident | None:
    """The first task that failed for a broken connection to that TaskManager in that time."""
    return next(
        (
            i
            for job in facts.jobs
            for i in job.job.incidents
            if i.kind == "task-failure"
            and i.time_us is not None
            and low <= i.time_us <= high
            and (
                i.text.get("lost_taskmanager") == name or (host and i.text.get("lost_host") == host)
            )
            and _BROKEN.search(f"{i.cause} {i.text.get('exception')} {i.text.get('text')}")
        ),
        None,
    )


def noticed_us(facts: StartupFacts, name: str, low: float, high: float) -> int | None:
    """When the TaskManager itself noticed in that time: by heartbeats of its masters, or by its tasks."""
    ended = [
        task.own_ended_us
        for job in facts.jobs
        for start in job.starts
        for task in start.tasks
        if task.taskmanager == name and task.own_ended_us is not None
    ]
    noticed = [
        us
        for trouble in facts.of_kind("master-heartbeat-lost")
        if trouble.taskmanager == name
        for us in trouble.times
    ]
    return min((us for us in (*ended, *noticed) if low <= us <= high), default=None)
