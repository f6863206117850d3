"""Notes about missing logs and metrics of a cluster, which make a diagnosis less certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.episodes import episodes
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, Status
from flowdiag.analyses.model import fmt
from flowdiag.parsers.notes import InputNote, Kind

_NAMED: Final = 3


def missing_inputs(facts: ClusterFacts) -> Iterator[InputNote]:
    """Yield notes about missing logs of TaskManagers that ran tasks, and missing metrics of failing jobs.

    An input without any TaskManager log lacks nothing: leaving them out was intended.
    """
    given = {p.taskmanager for p in facts.processes if p.role == "taskmanager" and p.taskmanager}
    given |= {p.host for p in facts.processes if p.role == "taskmanager" and p.host}
    logs = any(p.role == "taskmanager" for p in facts.processes)
    named = len(facts.jobs) > 1
    for job in facts.jobs:
        of = f" of {job.name or job.key.job_id}" if named else ""
        missing, ran = _without_logs(job, given)
        if given and 0 < len(missing) < ran:
            shown = ", ".join(missing[:_NAMED])
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            yield InputNote(
                Kind.NO_TASKMANAGER_LOG,
                f"no log of {len(missing)} of the {fmt.plural(ran, 'TaskManager')} that ran tasks{of}: "
                f"{shown}{more}",
            )
        expired = [episode for episode in episodes(job) if episode.count(Status.EXPIRED)]
        if logs and expired and not any(load.samples for load in job.loads):
            times = [us for e in expired for us in (e.first_us, e.last_us) if us is not None]
            yield InputNote(
                Kind.NO_METRICS,
                f"the TaskManagers' logs contain no metrics{of} from the time when checkpoints expired, so "
                "no input shows which tasks were busy or waiting",
                first_us=min(times, default=None),
                last_us=max(times, default=None),
            )


def _without_logs(job: JobFacts, given: set[str]) -> tuple[list[str], int]:
    """Return the TaskManagers of a job without logs, and the number of all that ran its tasks."""
    hosts = {a.taskmanager: a.host for a in job.attempts if a.taskmanager}
    lacking = sorted(name for name, host in hosts.items() if not {name, host} & given)
    return lacking, len(hosts)
