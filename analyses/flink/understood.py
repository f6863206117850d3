"""What was understood of Flink's inputs, in the field's words, whether or not a rule can use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.model.finding import Understood
from flowdiag.analyses.model.keys import Ref

_WORDS: Final = {
    "task-failure": "failures of tasks",
    "job-failure": "jobs that failed",
    "job-failing": "jobs on the way to fail",
    "restart": "restarts",
    "job-restarting": "restarts",
    "taskmanager-lost": "lost TaskManagers",
    "taskmanager-registered": "registered TaskManagers",
    "out-of-memory": "memory errors",
    "network-buffers": "failures for missing network buffers",
    "no-resource": "failures for missing slots",
    "resource-failure": "failures of resources",
    "task-stuck": "tasks that do not react to cancelling",
    "snapshot-failed": "failed snapshots",
    "async-failure": "asynchronous parts that were not completed",
    "abort-notified": "notices that a checkpoint was aborted",
    "barrier-delayed": "barriers that took too long",
    "network-memory": "warnings about network memory",
    "external-failure": "failures of connectors and storage",
    "not-triggered": "checkpoints that were not triggered",
    "checkpoint-counts": "counts of checkpoints",
    "restored": "restores from a checkpoint",
    "savepoint": "requests for a savepoint",
    "cancelled": "jobs that were cancelled on purpose",
    "finished": "jobs that finished",
    "suspended": "jobs that were suspended",
    "coordinator-stopped": "stops of the checkpoint coordinator",
    "leadership": "changes of the leader",
    "worker": "messages about workers",
    "job-running": "jobs that switched to RUNNING",
    "submitted": "submissions of a job",
    "started": "starts of a job",
    "decline-ignored": "declines that were ignored",
    "request-in-queue": "checkpoint requests that had to wait",
}


def understood(facts: ClusterFacts) -> tuple[Understood, ...]:
    """The kinds of what was understood, in the order of their first record."""
    groups: dict[str, list[tuple[int | None, Ref | None]]] = {}
    for kind, time_us, ref in _told(facts):
        groups.setdefault(kind, []).append((time_us, ref))
    found = []
    for kind, told in groups.items():
        times = [time_us for time_us, _ in told if time_us is not None]
        found.append(
            Understood(
                kind=kind,
                count=len(told),
                first_us=min(times, default=None),
                last_us=max(times, default=None),
                ref=next((ref for _, ref in told if ref is not None), None),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.first_us or 0, one.kind)))


def _told(facts: ClusterFacts) -> Iterator[tuple[str, int | None, Ref | None]]:
    for job in facts.jobs:
        for checkpoint in job.checkpoints:
            status = checkpoint.status.replace("_", " ")
            what = "savepoints" if checkpoint.is_savepoint else "checkpoints"
            ref = checkpoint.end_ref or checkpoint.trigger_ref
            yield f"{what} {status}", checkpoint.ended_us or checkpoint.triggered_us, ref
        for late in job.late:
            yield "late acknowledgements", late.received_us, late.ref
        for decline in job.declines:
            yield "declines", decline.time_us, decline.ref
        for attempt in job.attempts:
            yield "execution attempts of tasks", attempt.deployed_us, attempt.ref
        yield from _incidents(job.incidents)
    yield from _incidents(facts.incidents)


def _incidents(incidents: Iterable[Incident]) -> Iterator[tuple[str, int | None, Ref | None]]:
    for incident in incidents:
        if incident.kind in _WORDS:
            yield _WORDS[incident.kind], incident.time_us, incident.ref
