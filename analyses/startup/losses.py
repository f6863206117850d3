"""Finds TaskManagers that were lost while a job ran, and what other logs show about them at that time."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.analyses.startup.failures import incidents_of

_TEMPLATES: Final = ("heartbeat-timed-out", "taskmanager-unreachable")
_LOST: Final = re.compile(
    r"eartbeat of TaskManager with id|TaskManager with id \S+ is no longer reach"
)
_BROKEN: Final = re.compile(
    r"unexpectedly closed by remote task manager|Lost connection to task manager|Connection refused|"
    r"Connecting to remote task manager|Connection reset by peer|RemoteTransportException"
)
_SAME_US: Final = 20_000_000  # both ResourceManager and JobMaster log the loss


def losses(facts: StartupFacts) -> list[Incident]:
    """Return one record per TaskManager whose heartbeat timed out in the JobManager, in order."""
    seen: dict[tuple[object, ...], Incident] = {}
    for incident in incidents_of(facts):
        reported = incident.text.get("template") in _TEMPLATES or (
            incident.kind == "taskmanager-lost" and _LOST.search(incident.cause or "")
        )
        if reported and incident.taskmanager and while_job_ran(facts, incident.time_us):
            key = (incident.taskmanager, (incident.time_us or 0) // _SAME_US)
            seen.setdefault(key, incident)
    return sorted(seen.values(), key=lambda i: i.time_us or 0)


def while_job_ran(facts: StartupFacts, time_us: int | None) -> bool:
    """Return whether a job was starting or running at a time. If not, TaskManagers may leave the cluster."""
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
    """Return the host of a TaskManager from its registration or, failing that, its tasks."""
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


def taskmanager_at(facts: StartupFacts, address: str | None) -> str | None:
    """Return the TaskManager with an address, or None if none or several may have it.

    By default, the resource ID begins with the address of the RPC layer. Otherwise, the host counts.

    Args:
        address: `host:port`, or only the host.
    """
    if address is None:
        return None
    host = address.partition(":")[0]
    hosts = _hosts(facts)
    by_id = {name for name in hosts if name.startswith(f"{address}-")}
    found = by_id or {name for name in hosts if host in (hosts[name], name)}
    return next(iter(found)) if len(found) == 1 else None


def _hosts(facts: StartupFacts) -> dict[str, str | None]:
    """Return the host of each known TaskManager, from its losses, its tasks or its registration."""
    tasks = [task for job in facts.jobs for start in job.starts for task in start.tasks]
    hosts = {i.taskmanager: i.host for i in incidents_of(facts) if i.taskmanager}
    hosts |= {task.taskmanager: task.host for task in tasks if task.taskmanager}
    return hosts | {worker.name: worker.host for worker in facts.workers}


def broken_connection(
    facts: StartupFacts, name: str, host: str | None, low: float, high: float
) -> Incident | None:
    """Return the first task failure in a period that was caused by a broken connection to the TaskManager."""
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


def noticed_us(facts: StartupFacts, name: str, lost_us: int, low: float, high: float) -> int | None:
    """Return when the TaskManager itself noticed the loss, from missed heartbeats of its JobManager or from its tasks.

    Tasks that began after the loss do not count: another process with the same resource ID runs them.
    """
    ended = [
        task.own_ended_us
        for job in facts.jobs
        for start in job.starts
        for task in start.tasks
        if task.taskmanager == name and (task.begins_us or 0) <= lost_us
    ]
    noticed = [
        us
        for trouble in facts.of_kind("master-heartbeat-lost")
        if trouble.taskmanager == name
        for us in trouble.times
    ]
    known = (us for us in (*ended, *noticed) if us is not None)
    return min((us for us in known if low <= us <= high), default=None)


def last_master_record(facts: StartupFacts, before_us: int) -> int | None:
    """Return the time of the last record of the JobManager that ended last before a given time."""
    ends = [p.last_us for p in facts.processes if p.role == "jobmanager" and p.last_us is not None]
    return max((us for us in ends if us < before_us), default=None)
