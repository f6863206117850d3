"""Finds TaskManagers that ended themselves while their tasks ran: by a fatal error, or by System.exit in user code.

A TaskManager logs each signal that stops it, and each fatal error that ends it. If it stops without such a record,
code in the process ended the JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.failures.crises import FATAL, SHUTDOWN_US, memory_kind_of_text
from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.model.derived import once

_STOPPING: Final = "taskmanager-stopping"
_TERMINATING: Final = "taskmanager-terminating"
# The shutdown hooks run for at most this long after the record that gives the reason.
_HOOKS_US: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class Exit:
    """A TaskManager that ended itself.

    Attributes:
        stop: the record in which it stops.
        tasks: number of subtasks that ran until then.
        error: the fatal error that ended it; None if its log contains none.
    """

    stop: Incident
    tasks: int
    error: Incident | None = None

    @property
    def time_us(self) -> int:
        return self.stop.time_us or 0

    @property
    def record(self) -> Incident:
        """The record that shows why the TaskManager ended: the fatal error or, without one, the stop."""
        return self.error or self.stop


@once
def exits_of(facts: ClusterFacts) -> tuple[Exit, ...]:
    """Return the TaskManagers that ended themselves, in order of time, each only once: a process that restarts has a new ID.

    Errors of memory do not count, because CP303 reports them.
    """
    stops = _stops(facts)
    found: dict[str | None, Exit] = {}
    for stop in sorted(stops, key=lambda incident: incident.time_us or 0):
        if not _is_of_taskmanager(stop):
            continue
        reasons = [other for other in stops if _explains(other, stop)]
        tasks = _running_tasks(facts, stop)
        errors = [reason for reason in reasons if _is_fatal_error(reason)]
        # An error also leads to a record with the exit code.
        others = [r for r in reasons if r.text.get("template") != _TERMINATING and r not in errors]
        if tasks and (not reasons or (errors and not others)):
            found.setdefault(stop.taskmanager, Exit(stop, tasks, next(iter(errors), None)))
    return tuple(found.values())


def _stops(facts: ClusterFacts) -> tuple[Incident, ...]:
    """Return the dated records about the stop of a process."""
    return tuple(
        incident
        for incident in (*(i for job in facts.jobs for i in job.incidents), *facts.incidents)
        if incident.kind == "process-stopped" and incident.time_us is not None
    )


def _is_of_taskmanager(stop: Incident) -> bool:
    """Return whether a TaskManager stops that is a process of its own. The address of a local cluster has no host."""
    text = stop.text
    remote = "@" in text.get("address", "")
    return text.get("template") == _STOPPING and text.get("role") == "taskmanager" and remote


def _is_fatal_error(reason: Incident) -> bool:
    """Return whether a record reports a fatal error with its exception, other than one of memory."""
    error = reason.cause or ""
    fatal = reason.text.get("template") in FATAL and error != ""
    return fatal and "OutOfMemoryError" not in error and memory_kind_of_text(error) is None


def _explains(other: Incident, stop: Incident) -> bool:
    """Return whether a record explains a stop: a signal or fatal error, or the JobManager that stops as well."""
    apart = abs((other.time_us or 0) - (stop.time_us or 0))
    if other.text.get("role") == "jobmanager":
        return apart <= SHUTDOWN_US
    one, two = other.ref, stop.ref
    same_file = one is not None and two is not None and one.source == two.source
    same_process = other.taskmanager is not None and other.taskmanager == stop.taskmanager
    given = other.text.get("template") != _STOPPING
    return given and (same_file or same_process) and apart <= _HOOKS_US


def _running_tasks(facts: ClusterFacts, stop: Incident) -> int:
    """Return how many subtasks of the TaskManager had started and not ended when it stopped."""
    at = stop.time_us or 0
    return sum(
        stop.taskmanager is not None
        and attempt.taskmanager == stop.taskmanager
        and attempt.deployed_us is not None
        and attempt.deployed_us <= at
        and (attempt.ended_us is None or attempt.ended_us >= at)
        for job in facts.jobs
        for attempt in job.attempts
    )
