"""Reports missing logs and metrics of a cluster, which make a diagnosis less certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.failures.episodes import episodes
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, Status
from flowdiag.analyses.model import fmt
from flowdiag.parsers.notes import InputNote, Kind

_NAMED: Final = 3


def missing_inputs(facts: ClusterFacts) -> Iterator[InputNote]:
    """Yield notes about logs missing for TaskManagers that ran tasks, and about metrics missing for failing jobs.

    If the input has no TaskManager log at all, the user probably left these logs out on purpose.
    """
    taskmanagers = [p for p in facts.processes if p.role == "taskmanager"]
    given = {name for p in taskmanagers for name in (p.taskmanager, p.host) if name}
    named = len(facts.jobs) > 1
    for job in facts.jobs:
        of = f" of {job.name or job.key.job_id}" if named else ""
        if given:
            yield from _missing_logs(job, given, of)
        if taskmanagers and not any(load.samples for load in job.loads):
            yield from _missing_metrics(job, of)


def _missing_logs(job: JobFacts, given: set[str], of: str) -> Iterator[InputNote]:
    hosts = {a.taskmanager: a.host for a in job.attempts if a.taskmanager}
    missing = sorted(name for name, host in hosts.items() if not {name, host} & given)
    if 0 < len(missing) < len(hosts):
        shown = ", ".join(missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield InputNote(
            Kind.NO_TASKMANAGER_LOG,
            f"the input has no logs of {len(missing)} of the {fmt.plural(len(hosts), 'TaskManager')} that ran tasks{of}: "
            f"{shown}{more}",
        )


def _missing_metrics(job: JobFacts, of: str) -> Iterator[InputNote]:
    expired = [episode for episode in episodes(job) if episode.count(Status.EXPIRED)]
    if expired:
        times = [us for e in expired for us in (e.first_us, e.last_us) if us is not None]
        yield InputNote(
            Kind.NO_METRICS,
            f"the TaskManagers' logs contain no metrics{of} from the time when checkpoints expired, so "
            "no input shows which tasks were busy or waiting",
            first_us=min(times, default=None),
            last_us=max(times, default=None),
        )
