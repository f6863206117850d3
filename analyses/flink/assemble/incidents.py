"""The dated events that explain something, each told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, key_of, ref_of
from flowdiag.analyses.flink.job import Attempt, Incident
from flowdiag.parsers.exceptions import classify, kind_of_class
from flowdiag.parsers.flink.failures import failure_kind, lost_peer
from flowdiag.parsers.rows import Event

# A failure that REST and a log tell this near to each other is one.
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
    Event.RESOURCE_FAILURE: "resource-failure",
    Event.TASK_STUCK: "task-stuck",
    Event.SNAPSHOT_FAILED: "snapshot-failed",
    Event.ABORT_NOTIFIED: "abort-notified",
    Event.DECLINE_IGNORED: "decline-ignored",
    Event.BARRIER_DELAYED: "barrier-delayed",
    Event.NETWORK_MEMORY: "network-memory",
    Event.EXTERNAL_FAILURE: "external-failure",
    Event.ACKNOWLEDGE_REFUSED: "acknowledge-refused",
    Event.ASYNCHRONOUS_PART: "async-failure",
    Event.TASK_STATE: "task-failure",
}


def incidents_of(
    records: Sequence[Row], jobs: Jobs, attempts: Mapping[str, Attempt]
) -> list[Incident]:
    """Incidents in the order of the records; a failure of a task that several tell of is one."""
    repeated = _Repeated(records)
    found = []
    for row in records:
        event = Event(row["event"])
        if event in (Event.TASK_STATE, Event.RESOURCE_FAILURE) and repeated.tells(row):
            continue
        kind = _incident_kind(event, row)
        if kind is not None:
            attempt = attempts.get(row["attempt_id"] or "")
            found.append(_incident(kind, row, attempt, jobs))
    return _placed(found)


def _placed(found: list[Incident]) -> list[Incident]:
    """A lost TaskManager that its record does not name is the one that the next record names."""
    result = list(found)
    for number, incident in enumerate(found[:-1]):
        told = found[number + 1]
        if (
            incident.kind == "taskmanager-lost"
            and incident.taskmanager is None
            and incident.host is None
            and told.kind in ("taskmanager-lost", "worker", "task-failure")
            and incident.ref is not None
            and told.ref is not None
            and incident.ref.source == told.ref.source
            and _near(incident, told)
        ):
            name, host = told.taskmanager, told.host
            if told.kind == "task-failure":  # of a survivor, who names its peer
                name, host = told.text.get("lost_taskmanager"), told.text.get("lost_host")
            result[number] = replace(incident, taskmanager=name or None, host=host or None)
    return result


def _near(one: Incident, other: Incident) -> bool:
    if one.time_us is None or other.time_us is None:
        return one.time_us is other.time_us
    return abs(other.time_us - one.time_us) <= REPEATED_US


class _Repeated:
    """Which failures of tasks are told again: by TaskManagers, and by REST."""

    def __init__(self, records: Sequence[Row]) -> None:
        states = [row for row in records if row["event"] == Event.TASK_STATE and row["attempt_id"]]
        self._by_jobmanager = {row["attempt_id"] for row in states if row["role"] != "taskmanager"}
        # REST repeats the failures of the log without attempt ids, some milliseconds apart.
        self._by_logs = {
            (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US + step)
            for row in states
            for step in (-1, 0, 1)
        }

        # A line of an exception by itself may be a message of its own as well.
        self._pasted = {
            (row["source"], kind_of_class((row["fields"] or {}).get("class", "")))
            for row in records
            if row["event"] == Event.EXCEPTION
        }

    def tells(self, row: Row) -> bool:
        if row["event"] == Event.RESOURCE_FAILURE:
            kind = failure_kind(row["cause"] or (row["fields"] or {}).get("text", ""))
            return row["time_us"] is None and (row["source"], kind) in self._pasted
        if row["role"] == "taskmanager" and row["attempt_id"] in self._by_jobmanager:
            return True
        place = (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US)
        return row["attempt_id"] is None and place in self._by_logs


def _incident(kind: str, row: Row, attempt: Attempt | None, jobs: Jobs) -> Incident:
    """A record with what is known of its attempt."""
    job = (
        (key_of(row["cluster"], row["job_id"]) if row["job_id"] else None)
        or (attempt.job if attempt else None)
        or jobs.of_stream(row["source"], row["owner"])
        or jobs.only
    )
    text = dict(row["fields"] or {})
    for name in ("from_state", "to_state", "template", "thread", "job_name", "role", "logger"):
        if row[name]:
            text.setdefault(name, row[name])
    taskmanager, host = row["taskmanager"], row["host"]
    task, index, parallelism = row["task"], row["subtask_index"], row["parallelism"]
    if attempt is not None:
        task, parallelism = task or attempt.task, parallelism or attempt.parallelism
        index = attempt.subtask_index if index is None else index
    if row["event"] == Event.TASK_STATE:
        if attempt is not None:
            taskmanager, host = attempt.taskmanager or taskmanager, attempt.host or host
        text |= _lost(row["cause"], text.get("exception"))
    elif row["event"] == Event.JOB_STATE:
        text |= _lost(row["cause"], text.get("exception"))
        if task is None and text.get("named_task"):
            task, named = text["named_task"], text.get("named_subtask", "").partition("/")
            index = int(named[0]) - 1 if named[0] else None
            parallelism = int(named[2]) if named[2] else None
    elif kind == "taskmanager-lost" and taskmanager is None and host is None:
        taskmanager, host = lost_peer(row["cause"] or text.get("text", "")) or (None, None)
    return Incident(
        kind=kind,
        time_us=row["time_us"],
        job=job,
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


def _lost(*texts: str | None) -> dict[str, str]:
    """The TaskManager that a failure names as lost, as texts of the incident.

    Args:
        texts: the deepest exception, then the outermost; this one names the other end of a connection also
            where something else went wrong on this end.
    """
    said = classify([text for text in reversed(texts) if text], "flink")
    if said is not None and said.kind != "taskmanager-lost":
        texts = texts[:1]
    peer = next((found for text in texts if any(found := lost_peer(text or ""))), None)
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
    if event is Event.JOB_FINISHED and row["to_state"] not in (None, "FINISHED"):
        return None  # its transition says how it ended
    if event is Event.CHECKPOINT_FAILED and row["checkpoint"] is not None:
        return None  # one of the checkpoints; without a number it failed before it was one
    if event is Event.RESOURCE_FAILURE:
        kind = failure_kind(row["cause"] or (row["fields"] or {}).get("text", ""))
        return kind or "resource-failure"
    return _INCIDENT_KINDS.get(event)
