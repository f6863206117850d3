"""What of a cluster's logs and metrics was not given, for people: whoever judges without it is less sure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.episodes import episodes
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts, Status
from flowdiag.analyses.model import fmt
from flowdiag.parsers.notes import InputNote, Kind

_NAMED: Final = 3


def missing_inputs(facts: ClusterFacts) -> Iterator[InputNote]:
    """Logs of TaskManagers that ran something, and metrics of jobs that are sick.

    Where no TaskManager's log was given at all nothing is missing: then nobody wanted them.
    """
    given = {p.taskmanager for p in facts.processes if p.role == "taskmanager" and p.taskmanager}
    given |= {p.host for p in facts.processes if p.role == "taskmanager" and p.host}
    logs = any(p.role == "taskmanager" for p in facts.processes)
    named = len(facts.jobs) > 1
    for job in facts.jobs:
        of = f" of {job.name or job.key.job_id}" if named else ""
        lacking, ran = _without_logs(job, given)
        if given and 0 < len(lacking) < ran:
            shown = ", ".join(lacking[:_NAMED])
            more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
            yield InputNote(
                Kind.NO_TASKMANAGER_LOG,
                f"no log of {len(lacking)} of the {fmt.plural(ran, 'TaskManager')} that ran tasks{of}: "
                f"{shown}{more}",
            )
        expired = [episode for episode in episodes(job) if episode.count(Status.EXPIRED)]
        if logs and expired and not any(load.samples for load in job.loads):
            times = [us for e in expired for us in (e.first_us, e.last_us) if us is not None]
            yield InputNote(
                Kind.NO_METRICS,
                f"the TaskManagers' logs hold no metrics{of} of the time in which checkpoints expired: "
                "nothing tells who was busy or waited",
                first_us=min(times, default=None),
                last_us=max(times, default=None),
            )


def _without_logs(job: JobFacts, given: set[str]) -> tuple[list[str], int]:
    """The TaskManagers that ran tasks of a job and whose logs were not given, and how many ran any."""
    hosts = {a.taskmanager: a.host for a in job.attempts if a.taskmanager}
    lacking = sorted(name for name, host in hosts.items() if not {name, host} & given)
    return lacking, len(hosts)
