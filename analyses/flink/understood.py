"""Lists the kinds of records recognized in Flink inputs, whether or not a rule uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.model.finding import RecognizedRecords
from flowdiag.analyses.model.keys import Ref

_WORDS: Final = {
    "task-failure": "task failures",
    "job-failure": "failed jobs",
    "job-failing": "failing jobs",
    "restart": "restarts",
    "job-restarting": "restarts",
    "taskmanager-lost": "lost TaskManagers",
    "taskmanager-registered": "registered TaskManagers",
    "out-of-memory": "memory errors",
    "network-buffers": "failures due to missing network buffers",
    "no-resource": "failures due to missing slots",
    "resource-failure": "resource failures",
    "failure": "other errors and exceptions",
    "process-stopped": "stopped processes",
    "task-stuck": "tasks that ignore cancellation",
    "snapshot-failed": "failed snapshots",
    "async-failure": "incomplete asynchronous parts",
    "abort-notified": "abort notifications",
    "barrier-delayed": "delayed barriers",
    "network-memory": "warnings about network memory",
    "external-failure": "connector and storage failures",
    "unreachable": "unreachable servers",
    "refused": "requests that a database rejected",
    "produce-refused": "records that a broker rejected",
    "upload-interrupted": "interrupted checkpoint uploads",
    "offset-reset": "offsets whose records were deleted",
    "not-triggered": "checkpoints that were not triggered",
    "checkpoint-counts": "checkpoint counts",
    "restored": "restores from a checkpoint",
    "savepoint": "savepoint requests",
    "cancelled": "canceled jobs",
    "finished": "finished jobs",
    "suspended": "suspended jobs",
    "coordinator-stopped": "checkpoint coordinator stops",
    "leadership": "leader changes",
    "worker": "messages about workers",
    "job-running": "jobs that switched to RUNNING",
    "submitted": "job submissions",
    "started": "job starts",
    "decline-ignored": "ignored declines",
    "request-in-queue": "queued checkpoint requests",
}


_COUNTED_PER_JOB: Final = (
    "cancelled",
    "finished",
    "suspended",
    "job-running",
)  # once per job instead of once per transition


def recognized_kinds(facts: ClusterFacts) -> tuple[RecognizedRecords, ...]:
    """Return the recognized kinds, in the order of their first record."""
    groups: dict[str, list[tuple[int | None, Ref | None]]] = {}
    for kind, time_us, ref in _records(facts):
        groups.setdefault(kind, []).append((time_us, ref))
    found = []
    for kind, members in groups.items():
        times = [time_us for time_us, _ in members if time_us is not None]
        found.append(
            RecognizedRecords(
                kind=kind,
                count=len(members),
                first_us=min(times, default=None),
                last_us=max(times, default=None),
                ref=next((ref for _, ref in members if ref is not None), None),
            )
        )
    return tuple(sorted(found, key=lambda kind: (kind.first_us or 0, kind.kind)))


def _records(facts: ClusterFacts) -> Iterator[tuple[str, int | None, Ref | None]]:
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
    counted = set()
    for incident in incidents:
        if incident.kind not in _WORDS or (incident.kind, incident.job) in counted:
            continue
        if incident.kind in _COUNTED_PER_JOB and incident.job is not None:
            counted.add((incident.kind, incident.job))
        yield _WORDS[incident.kind], incident.time_us, incident.ref
