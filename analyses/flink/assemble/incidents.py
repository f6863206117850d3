"""Collects the events that may explain a fault, without duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, key_of, ref_of
from flowdiag.analyses.flink.job import Attempt, Incident
from flowdiag.analyses.model.keys import JobKey
from flowdiag.parsers.exceptions import classify, kind_of_class
from flowdiag.parsers.flink.failures import failure_kind, lost_peer
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD
from flowdiag.parsers.rows import Event

# Failures reported by REST and by a log this close together are the same failure.
REPEATED_US: Final = 2_000_000
_INCIDENT_KINDS: Final = {
    Event.JOB_SUBMITTED: "submitted",
    Event.JOB_STARTED: "started",
    Event.JOB_FINISHED: "finished",
    Event.JOB_RESTARTING: "restart",
    Event.RESTORED: "restored",
    Event.SAVEPOINT_REQUESTED: "savepoint",
    Event.COORDINATOR_STOPPED: "coordinator-stopped",
    Event.CHECKPOINT_NOT_TRIGGERED: "not-triggered",
    Event.CHECKPOINT_FAILED: "not-triggered",
    Event.CHECKPOINT_COUNTS: "checkpoint-counts",
    Event.SCHEDULER_SWITCHED: "scheduler-switched",
    Event.REQUEST_IN_QUEUE: "request-in-queue",
    Event.TASKMANAGER_REGISTERED: "taskmanager-registered",
    Event.TASKMANAGER_LOST: "taskmanager-lost",
    Event.WORKER: "worker",
    Event.LEADERSHIP: "leadership",
    Event.EXCEPTION: "exception",
    Event.FAILURE: "failure",
    Event.PROCESS_STOPPED: "process-stopped",
    Event.RESOURCE_FAILURE: "resource-failure",
    Event.TASK_STUCK: "task-stuck",
    Event.SNAPSHOT_FAILED: "snapshot-failed",
    Event.ABORT_NOTIFIED: "abort-notified",
    Event.DECLINE_IGNORED: "decline-ignored",
    Event.BARRIER_DELAYED: "barrier-delayed",
    Event.NETWORK_MEMORY: "network-memory",
    Event.EXTERNAL_FAILURE: "external-failure",
    Event.UNREACHABLE: "unreachable",
    Event.SERVER: "server",
    Event.UPLOAD_INTERRUPTED: "upload-interrupted",
    Event.PARTITIONS: "partitions",
    Event.COMMIT_FAILED: "commit-failed",
    Event.SLOT_CREATED: "slot-created",
    Event.PRODUCE_REFUSED: "produce-refused",
    Event.OFFSET_RESET: "offset-reset",
    Event.REFUSED: "refused",
    Event.ACKNOWLEDGE_REFUSED: "acknowledge-refused",
    Event.ASYNCHRONOUS_PART: "async-failure",
    Event.TASK_STATE: "task-failure",
}


def incidents_of(
    records: Sequence[Row], jobs: Jobs, attempts: Mapping[str, Attempt]
) -> list[Incident]:
    """Return the incidents in record order, with each task failure only once."""
    repeated = _Repeated(records)
    found = []
    for row in records:
        event = Event(row["event"])
        if event in (Event.TASK_STATE, Event.RESOURCE_FAILURE) and repeated.contains(row):
            continue
        kind = _incident_kind(event, row)
        if kind is not None:
            attempt = attempts.get(row["attempt_id"] or "")
            found.append(_incident(kind, row, attempt, jobs))
    return mark_rescales(_name_lost_taskmanagers(found))


_NEW_RUN: Final = frozenset({"submitted", "started", "finished", "job-failure", "leadership"})


def mark_rescales(found: list[Incident]) -> list[Incident]:
    """Distinguish rescales from cancellations: the adaptive scheduler cancels tasks and restarts the same job.

    A cancellation becomes `rescaled`, or `job-restarting` if a failure caused it.
    """
    result = list(found)
    waiting: dict[JobKey | None, list[int]] = {}
    restarted: dict[JobKey | None, int] = {}
    dated = [number for number, incident in enumerate(found) if incident.time_us is not None]
    for number in sorted(dated, key=lambda n: found[n].time_us or 0):
        incident = found[number]
        if incident.kind == "restart":
            restarted[incident.job] = incident.time_us or 0
        elif incident.kind == "cancelled":
            waiting.setdefault(incident.job, []).append(number)
        elif incident.kind in _NEW_RUN:
            waiting.pop(incident.job, None)
        elif incident.kind == "job-running":
            for cancelled in waiting.pop(incident.job, []):
                before = result[cancelled]
                failed = abs((before.time_us or 0) - restarted.get(before.job, 0)) <= REPEATED_US
                kind = "job-restarting" if failed else "rescaled"
                result[cancelled] = replace(before, kind=kind)
    return result


def _name_lost_taskmanagers(found: list[Incident]) -> list[Incident]:
    """Fill in the name of a lost TaskManager from the next record, if its own record lacks the name."""
    result = list(found)
    for number, incident in enumerate(found[:-1]):
        after = found[number + 1]
        if (
            incident.kind == "taskmanager-lost"
            and incident.taskmanager is None
            and incident.host is None
            and after.kind in ("taskmanager-lost", "worker", "task-failure")
            and incident.ref is not None
            and after.ref is not None
            and incident.ref.source == after.ref.source
            and _are_close(incident, after)
        ):
            name, host = after.taskmanager, after.host
            if after.kind == "task-failure":  # a surviving task names the lost peer
                name, host = after.text.get("lost_taskmanager"), after.text.get("lost_host")
            result[number] = replace(incident, taskmanager=name or None, host=host or None)
    return result


def _are_close(one: Incident, other: Incident) -> bool:
    if one.time_us is None or other.time_us is None:
        return one.time_us is other.time_us
    return abs(other.time_us - one.time_us) <= REPEATED_US


class _Repeated:
    """Recognizes task failures that both a TaskManager and REST report."""

    def __init__(self, records: Sequence[Row]) -> None:
        states = [row for row in records if row["event"] == Event.TASK_STATE and row["attempt_id"]]
        self._by_jobmanager = {row["attempt_id"] for row in states if row["role"] != "taskmanager"}
        # REST reports the failures in the log again, without attempt IDs and some milliseconds apart.
        self._by_logs = {
            (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US + step)
            for row in states
            for step in (-1, 0, 1)
        }

        # The line of an exception may also be a separate message.
        self._pasted = {
            (row["source"], kind_of_class((row["fields"] or {}).get("class", "")))
            for row in records
            if row["event"] == Event.EXCEPTION
        }

    def contains(self, row: Row) -> bool:
        if row["event"] == Event.RESOURCE_FAILURE:
            kind = failure_kind(row["cause"] or (row["fields"] or {}).get("text", ""))
            return row["time_us"] is None and (row["source"], kind) in self._pasted
        if row["role"] == "taskmanager" and row["attempt_id"] in self._by_jobmanager:
            return True
        place = (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US)
        return row["attempt_id"] is None and place in self._by_logs


def _incident(kind: str, row: Row, attempt: Attempt | None, jobs: Jobs) -> Incident:
    """Build an incident from a record, with details from its attempt."""
    text = dict(row["fields"] or {})
    for name in ("from_state", "to_state", "template", "thread", "job_name", "role", "logger"):
        if row[name]:
            text.setdefault(name, row[name])
    if row["event"] in (Event.TASK_STATE, Event.JOB_STATE):
        text |= _lost_taskmanager(row["cause"], text.get("exception"))
    task, index, parallelism = _subtask(row, attempt, text)
    taskmanager, host = _place(kind, row, attempt, text)
    return Incident(
        kind=kind,
        time_us=row["time_us"],
        job=_job(row, attempt, jobs),
        task=task or None,
        subtask_index=index,
        parallelism=parallelism or None,
        attempt_id=row["attempt_id"],
        taskmanager=taskmanager,
        host=host,
        checkpoint=row["checkpoint"],
        duration_ms=row["duration_ms"],
        cause=row["cause"],
        text=text,
        ref=ref_of(row),
    )


def _job(row: Row, attempt: Attempt | None, jobs: Jobs) -> JobKey | None:
    if row["job_id"]:
        return key_of(row["cluster"], row["job_id"])
    own = attempt.job if attempt is not None else None
    return own or jobs.of_stream(row["source"], row["owner"]) or jobs.only


def _subtask(
    row: Row, attempt: Attempt | None, text: Mapping[str, str]
) -> tuple[str | None, int | None, int | None]:
    """Return task, subtask index and parallelism from the row, its attempt or its exception."""
    task, index, parallelism = row["task"], row["subtask_index"], row["parallelism"]
    if attempt is not None:
        task, parallelism = task or attempt.task, parallelism or attempt.parallelism
        index = attempt.subtask_index if index is None else index
    if row["event"] == Event.JOB_STATE and task is None and text.get("named_task"):
        number, _, size = text.get("named_subtask", "").partition("/")
        return text["named_task"], int(number) - 1 if number else None, int(size) if size else None
    return task, index, parallelism


def _place(
    kind: str, row: Row, attempt: Attempt | None, text: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """Return the TaskManager and its host, from the attempt, the row, or the text about a lost TaskManager."""
    taskmanager, host = row["taskmanager"], row["host"]
    if row["event"] == Event.TASK_STATE and attempt is not None:
        return attempt.taskmanager or taskmanager, attempt.host or host
    if kind == "taskmanager-lost" and taskmanager is None and host is None:
        return lost_peer(row["cause"] or text.get("text", "")) or (None, None)
    return taskmanager, host


def _lost_taskmanager(*texts: str | None) -> dict[str, str]:
    """Return the TaskManager and host that the text of a failure reports as lost.

    Args:
        texts: the deepest exception, then the outermost. The outermost exception names the remote end of a
            connection, even if the error is at the local end.
    """
    found = classify([text for text in reversed(texts) if text], "flink")
    if found is not None and found.kind != "taskmanager-lost":
        texts = texts[:1]
    peer = next((pair for text in texts if any(pair := lost_peer(text or ""))), None)
    return {} if peer is None else {"lost_taskmanager": peer[0] or "", "lost_host": peer[1] or ""}


def _incident_kind(event: Event, row: Row) -> str | None:
    if event is Event.JOB_STATE:
        return {
            "FAILING": "job-failing",
            "FAILED": "job-failure",
            "RESTARTING": "job-restarting",
            "RUNNING": "job-running",
            "CANCELLING": "cancelled",
            "CANCELED": "cancelled",
            "FINISHED": "finished",
            "SUSPENDED": "suspended",
        }.get(row["to_state"] or "")
    if event is Event.FAILURE and row["template"] == KNOWN_RECORD:
        return "repeated-failure"
    if event is Event.JOB_FINISHED and row["to_state"] not in (None, "FINISHED"):
        return None  # the state transition shows the end
    if event is Event.CHECKPOINT_FAILED and row["checkpoint"] is not None:
        return None  # only failures before a checkpoint gets its number are incidents
    if event is Event.RESOURCE_FAILURE:
        kind = failure_kind(row["cause"] or (row["fields"] or {}).get("text", ""))
        return kind or "resource-failure"
    return _INCIDENT_KINDS.get(event)
