"""From the small rows that Spark measured to the facts that rules judge; no Spark here.

One function per kind of fact, in the order of `assemble`. Where a record does not say to which job it
belongs (transitions of tasks never do), the job is taken from the execution graph id (1.16+), from a
message of the same attempt, or from the stream if it holds one job only; otherwise it stays unknown.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from flowdiag.analyses.engine.collector import paused
from flowdiag.analyses.flink.clocks.settle import Writer
from flowdiag.analyses.flink.job import (
    ZERO_JOB,
    Attempt,
    Checkpoint,
    ClusterFacts,
    Decline,
    Graph,
    Incident,
    JobFacts,
    LateAcknowledgement,
    Setting,
    Status,
    SubtaskCheckpoint,
    SubtaskLoad,
    Vertex,
)
from flowdiag.analyses.flink.reported_loads import reported_loads
from flowdiag.analyses.keys import JobKey, Process, Ref
from flowdiag.parsers.flink.failures import failure_kind, lost_peer, reason_kind
from flowdiag.parsers.rows import Event

Row = Mapping[str, Any]

# A failure that REST and a log tell this near to each other is one.
REPEATED_US: Final = 2_000_000

# Which end a reason means, where no line of its own says it (catalogue/flink.md 1.5).
_ENDS: Final = {
    "expired": Status.EXPIRED,
    "declined": Status.DECLINED,
    "async": Status.DECLINED,
    "task_failure": Status.FAILED,
    "trigger_io": Status.FAILED,
    "finalize": Status.FAILED,
    "not_running": Status.ABORTED,
    "suspended": Status.ABORTED,
    "shutdown": Status.ABORTED,
    "subsumed": Status.ABORTED,
    "superseded": Status.ABORTED,
    "cancelled": Status.ABORTED,
    "finished": Status.ABORTED,
    "postponed": Status.ABORTED,
}

_INCIDENT_KINDS: Final = {
    Event.JOB_SUBMITTED: "submitted",
    Event.JOB_STARTED: "started",
    Event.JOB_FINISHED: "finished",
    Event.JOB_RESTARTING: "restart",
    Event.RESTORED: "restored",
    Event.SAVEPOINT_REQUESTED: "savepoint",
    Event.COORDINATOR_STOPPED: "coordinator-stopped",
    Event.CHECKPOINT_NOT_TRIGGERED: "not-triggered",
    Event.SCHEDULER_SWITCHED: "scheduler-switched",
    Event.REQUEST_IN_QUEUE: "request-in-queue",
    Event.TASKMANAGER_REGISTERED: "taskmanager-registered",
    Event.TASKMANAGER_LOST: "taskmanager-lost",
    Event.WORKER: "worker",
    Event.LEADERSHIP: "leadership",
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

# Between the record of a job that starts to run and those of its tasks, which come at once.
SCHEDULED_WITHIN_US: Final = 1_000_000

_FOREVER_US: Final = 1 << 62


@paused()
def assemble(
    rows: Sequence[Row], load_rows: Sequence[Row], writers: Sequence[Writer]
) -> ClusterFacts:
    """Facts from rows.

    Args:
        rows: of `lifecycle.facts_frame`.
        load_rows: of `lifecycle.loads`.
        writers: what `settle` decided.

    Returns:
        facts in a stable order: jobs by first event, everything else by time and place.
    """
    by_what: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_what[row["what"]].append(row)
    records = sorted(by_what["incident"], key=_place)
    jobs = _Jobs(by_what, records, writers)
    checkpoints = _checkpoints(by_what["checkpoint"], jobs)
    attempts = _attempts(by_what["attempt"], jobs)
    incidents = _incidents(records, jobs, attempts)
    late = _late(_placed(by_what, "late"), checkpoints, jobs)
    declines = _declines(_placed(by_what, "decline"), jobs)
    checkpoints = _close(checkpoints, incidents)
    graphs = _graphs(records, attempts, jobs)
    parts = _parts(by_what["part"], attempts, graphs, jobs)
    loads = _loads(load_rows, jobs, attempts)
    loads += reported_loads(
        records, lambda row: _key(row["cluster"], row["job_id"]) if row["job_id"] else jobs.only
    )
    settings = _settings(records, checkpoints, jobs)
    sorted_out = _Sorted(
        checkpoints=_by_job(checkpoints.values()),
        late=_by_job(late),
        declines=_by_job(declines),
        attempts=_by_job(attempts.values()),
        incidents=_by_job(incidents),
        parts=_by_job(parts),
        loads=_by_job(loads),
        settings=_by_job(settings),
        order={id(setting): number for number, setting in enumerate(settings)},
    )
    found = [_job(key, jobs, sorted_out, graphs.get(key)) for key in jobs.keys]
    roles = {writer.role for writer in writers}
    return ClusterFacts(
        jobs=tuple(sorted(found, key=lambda job: (job.first_us or 0, job.key))),
        processes=_processes(writers),
        incidents=tuple(sorted_out.incidents.get(None, ())),
        has_jobmanager_log=bool(roles & {"jobmanager", "mixed"}),
        has_rest=any(row["rest_status"] for row in by_what["checkpoint"]),
    )


def _place(row: Row) -> tuple[int, int, int]:
    return (row["time_us"] or 0, row["source"], row["offset"])


def _ref(row: Row) -> Ref | None:
    if row["source"] is None or row["offset"] is None:
        return None
    return Ref(row["source"], row["offset"])


def _key(cluster: str | None, job_id: str | None) -> JobKey:
    repeats = job_id in (None, "", ZERO_JOB)
    return JobKey((cluster or "") if repeats else "", job_id or "")


class _Jobs:
    """Which jobs there are, what they are called, and to which of them a record belongs."""

    def __init__(
        self,
        by_what: Mapping[str, Sequence[Row]],
        records: Sequence[Row],
        writers: Sequence[Writer],
    ) -> None:
        self.names: dict[JobKey, str] = {}
        self.clusters: dict[JobKey, str] = {}
        self.versions: dict[JobKey, str] = {}
        self._graphs: dict[str, JobKey] = {}
        self._by_stream: dict[tuple[int, str | None], JobKey] = {}
        self._starts: dict[tuple[int, str | None], list[tuple[int, JobKey]]] = defaultdict(list)
        keys: dict[JobKey, None] = {}
        times: dict[JobKey, list[int]] = defaultdict(list)
        for row in by_what["checkpoint"]:
            key = _key(row["job_cluster"], row["job_id"])
            keys.setdefault(key)
            if row["triggered_us"] is not None:
                times[key].append(row["triggered_us"])
        for row in records:
            if row["job_id"]:
                key = _key(row["cluster"], row["job_id"])
                keys.setdefault(key)
                if row["time_us"] is not None:
                    times[key].append(row["time_us"])
                if row["job_name"]:
                    self.names.setdefault(key, row["job_name"])
                if row["event"] == Event.GRAPH_CREATED:
                    graph = (row["fields"] or {}).get("graph_id")
                    if graph:
                        self._graphs[graph] = key
                starts = row["event"] == Event.JOB_STATE and row["to_state"] == "RUNNING"
                if starts and row["time_us"] is not None:
                    stream = row["source"], row["owner"]
                    self._starts[stream].append((row["time_us"], key))
        self.keys = tuple(keys)
        for started in self._starts.values():
            started.sort(key=itemgetter(0))
        self._lives = {key: (min(found), max(found)) for key, found in times.items()}
        # A stream with one job belongs to it; the cluster of a job is that of its JobManager's stream.
        worded: dict[JobKey, str] = {}
        for writer in writers:
            known = {_key(writer.cluster, job_id) for job_id in writer.job_ids} & keys.keys()
            if writer.lacks_job and not known:
                known = {JobKey(writer.cluster, "")} & keys.keys()
            if len(known) == 1:
                self._by_stream[(writer.stream.source, writer.stream.owner)] = next(iter(known))
            for key in known:
                if writer.role in ("jobmanager", "mixed"):
                    self.clusters.setdefault(key, writer.cluster)
                    if writer.version:
                        self.versions.setdefault(key, writer.version)
                    elif writer.wording:
                        worded.setdefault(key, writer.wording)
        self.versions = worded | self.versions
        if not self.versions:
            versions = {writer.version or writer.wording for writer in writers} - {None}
            if len(versions) == 1:
                only = versions.pop()
                self.versions = {key: only for key in self.keys if only}
        self._by_name: dict[str, set[JobKey]] = defaultdict(set)
        for key, name in self.names.items():
            self._by_name[name].add(key)
            self._by_name[re.sub(r"[^A-Za-z0-9]", "_", name)].add(key)

    def of_graph(self, attempt_id: str | None) -> JobKey | None:
        """The job whose execution graph id is the first part of a four-part attempt id."""
        return self._graphs.get((attempt_id or "").partition("_")[0])

    def of_stream(self, source: int | None, owner: str | None) -> JobKey | None:
        """The only job of a stream."""
        if source is None:
            return None
        return self._by_stream.get((source, owner))

    def of_start(self, source: int | None, owner: str | None, time_us: int | None) -> JobKey | None:
        """The only job that began to run right before, in the same JobManager's log.

        Tasks are scheduled in the moment in which their job switches to RUNNING, at restarts too.
        """
        if source is None or time_us is None:
            return None
        starts = self._starts.get((source, owner), [])
        first = bisect_left(starts, time_us - SCHEDULED_WITHIN_US, key=itemgetter(0))
        last = bisect_right(starts, time_us, key=itemgetter(0))
        found = {key for _, key in starts[first:last]}
        return next(iter(found)) if len(found) == 1 else None

    def of_load(self, row: Row) -> JobKey | None:
        """The job of a row of metrics, which name the job: by cluster and time if several have the name."""
        found = self._by_name.get(row["job_name"] or "", set())
        if not found:
            return self.only
        if len(found) > 1:
            found = {key for key in found if self.clusters.get(key) == row["cluster"]} or found
        if len(found) > 1 and row["first_us"] is not None:
            lives = {key: self._lives[key] for key in found if key in self._lives}
            found = {
                key
                for key, (first, last) in lives.items()
                if first <= row["last_us"] and row["first_us"] <= last
            }
        return next(iter(found)) if len(found) == 1 else None

    @property
    def only(self) -> JobKey | None:
        """The job, if there is but one."""
        return self.keys[0] if len(self.keys) == 1 else None


def _checkpoints(rows: Iterable[Row], jobs: _Jobs) -> dict[tuple[JobKey, int, int], Checkpoint]:
    found = {}
    for row in rows:
        key = _key(row["job_cluster"], row["job_id"])
        checkpoint = _checkpoint(row, key)
        found[(key, checkpoint.run, checkpoint.id)] = checkpoint
    return found


def _checkpoint(row: Row, key: JobKey) -> Checkpoint:
    status, reason, kind, end = _end(row)
    duration = row["duration_ms"]
    ended_us = end["time_us"] if end else None
    if end is not None and end == row["status_record"]:  # an answer is dated by its trigger
        ended_us = row["rest_failure_ms"] * 1000 if row["rest_failure_ms"] else None
    if status is Status.COMPLETED and duration is None:
        duration = row["rest_duration_ms"]
    if (
        status is Status.COMPLETED
        and ended_us is None
        and row["triggered_us"]
        and duration is not None
    ):
        ended_us = row["triggered_us"] + duration * 1000
    if duration is None and status.unsuccessful and ended_us and row["triggered_us"]:
        duration = max(0, (ended_us - row["triggered_us"]) // 1000)
    trigger = row["trigger"] or row["status_record"]
    return Checkpoint(
        job=key,
        run=row["run"],
        id=row["checkpoint"],
        status=status,
        type=checkpoint_type(row["type"] or row["rest_type"], row["rest_savepoint"] == "true"),
        triggered_us=row["triggered_us"],
        ended_us=ended_us,
        duration_ms=duration,
        finalization_ms=row["finalization_ms"],
        bytes=row["bytes"] if row["bytes"] is not None else row["rest_bytes"],
        reason=reason,
        reason_kind=kind,
        acknowledged=row["acknowledged"],
        subtasks=row["subtasks"],
        trigger_ref=_ref(trigger) if trigger else None,
        end_ref=_ref(end) if end else None,
    )


def _end(row: Row) -> tuple[Status, str | None, str | None, Row | None]:
    """How a checkpoint ended: (status, reason, kind of reason, the record that says so)."""
    if row["completed"] or row["rest_status"] == "COMPLETED":
        return Status.COMPLETED, None, None, row["completed"] or row["status_record"]
    if row["expired"]:
        return Status.EXPIRED, "Checkpoint expired before completing.", "expired", row["expired"]
    if row["declined"]:
        return (
            Status.DECLINED,
            row["declined_cause"] or row["discarded_cause"] or row["failed_cause"],
            "declined",
            row["declined"],
        )
    for reason, record in (
        (row["failed_cause"], row["failed"]),
        (row["discarded_cause"], row["discarded"]),
        (row["rest_reason"], row["status_record"] if row["rest_status"] == "FAILED" else None),
    ):
        if record is None:
            continue
        kind = reason_kind(reason or "") if reason else None
        return (
            _ENDS.get(kind or "", Status.FAILED if reason else Status.ABORTED),
            reason,
            kind,
            record,
        )
    return Status.IN_FLIGHT, None, None, None


def checkpoint_type(printed: str | None, is_savepoint: bool = False) -> str:
    """The kind of checkpoint from what any version prints (catalogue/flink.md 1.1, 6.2).

    >>> checkpoint_type("CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}")
    'checkpoint'
    >>> checkpoint_type("SAVEPOINT_TERMINATE"), checkpoint_type("UNALIGNED_CHECKPOINT")
    ('stop-with-savepoint', 'unaligned-checkpoint')
    """
    text = (printed or "").lower()
    if "savepoint" in text or is_savepoint:
        stops = "suspend" in text or "terminate" in text or "sync_savepoint" in text
        return (
            "stop-with-savepoint"
            if stops and "postcheckpointaction=none" not in text
            else "savepoint"
        )
    if "unaligned" in text:
        return "unaligned-checkpoint"
    return "full-checkpoint" if "full checkpoint" in text else "checkpoint"


def _attempts(rows: Iterable[Row], jobs: _Jobs) -> dict[str, Attempt]:
    found: dict[str, Attempt] = {}
    by_task: dict[tuple[str, int | None], set[JobKey]] = defaultdict(set)
    unknown = []
    for row in sorted(rows, key=lambda r: r["attempt_id"]):
        job = _key(row["cluster"], row["job_id"]) if row["job_id"] is not None else None
        job = (
            job
            or jobs.of_graph(row["attempt_id"])
            or jobs.of_stream(row["jobmanager_source"], row["jobmanager_owner"])
            or jobs.only
            or jobs.of_start(row["scheduled_source"], row["scheduled_owner"], row["scheduled_us"])
        )
        attempt = Attempt(
            job=job,
            attempt_id=row["attempt_id"],
            vertex_id=row["vertex_id"],
            task=row["task"],
            subtask_index=row["subtask_index"],
            parallelism=row["parallelism"],
            attempt=row["attempt"],
            taskmanager=row["taskmanager"],
            host=row["host"],
            deployed_us=row["deployed_us"] or row["first_us"],
            ended_us=row["ended_us"],
            ref=_ref(row),
        )
        found[attempt.attempt_id] = attempt
        if job is None:
            unknown.append(attempt)
        elif attempt.task:
            by_task[(attempt.task, attempt.parallelism)].add(job)
    lives: dict[tuple[str | None, int | None, int | None], list[Attempt]] = defaultdict(list)
    for attempt in found.values():
        lives[(attempt.task, attempt.subtask_index, attempt.parallelism)].append(attempt)
    for subtask in {(one.task, one.subtask_index, one.parallelism): None for one in unknown}:
        owners = by_task.get((subtask[0] or "", subtask[2]), set())
        if len(owners) != 1:
            continue
        (owner,) = owners
        candidates = [one for one in lives[subtask] if one.job in (None, owner)]
        doubtful = _at_once(candidates)
        for attempt in candidates:
            if attempt.job is None and attempt.attempt_id not in doubtful:
                found[attempt.attempt_id] = replace(attempt, job=owner)
    return _name_by_vertex(found)


def _at_once(attempts: Iterable[Attempt]) -> set[str]:
    """Attempts that lived while another did: a subtask runs once at a time, so one is another job's."""
    lives = sorted(
        (
            one.deployed_us or 0,
            one.ended_us if one.ended_us is not None else _FOREVER_US,
            one.attempt_id,
        )
        for one in attempts
    )
    found = set()
    latest = 0
    for (_, end, before), (start, _, after) in pairwise(lives):
        latest = max(latest, end)
        if start < latest:
            found.add(after)
        if start < end:
            found.add(before)
    return found


def _name_by_vertex(attempts: dict[str, Attempt]) -> dict[str, Attempt]:
    """Four-part ids carry the vertex: one named attempt names all the others of its vertex."""
    names: dict[tuple[JobKey | None, str | None], Attempt] = {
        (attempt.job, attempt.vertex_id): attempt
        for attempt in attempts.values()
        if attempt.vertex_id and attempt.task
    }
    for attempt_id, attempt in attempts.items():
        known = names.get((attempt.job, attempt.vertex_id))
        if known and attempt.vertex_id and (attempt.task is None or attempt.parallelism is None):
            attempts[attempt_id] = replace(attempt, task=known.task, parallelism=known.parallelism)
    return attempts


def _attempt_of(row: Row, key: JobKey) -> Attempt:
    return Attempt(
        job=key,
        attempt_id=row["attempt_id"],
        vertex_id=row["vertex_id"],
        task=row["task"],
        subtask_index=row["subtask_index"],
        parallelism=row["parallelism"],
        attempt=row["attempt"],
        taskmanager=row["taskmanager"],
        host=row["host"],
    )


def _placed(by_what: Mapping[str, Sequence[Row]], what: str) -> list[Row]:
    """Messages of attempts about checkpoints, joined with both; ids that do not join add nothing."""
    told = by_what[what]
    if not told:
        return []
    key = itemgetter("job_cluster", "job_id", "run", "checkpoint")
    checkpoints = {key(row): row for row in by_what["checkpoint"]}
    attempts = {row["attempt_id"]: row for row in by_what["attempt"]}
    result: list[Row] = []
    for row in told:
        checkpoint = checkpoints.get(key(row), {})
        attempt = attempts.get(row["attempt_id"], {})
        # Rows are as wide as all kinds of them together: a copy takes what is read below.
        placed = {name: row[name] for name in _OF_MESSAGE}
        placed["parallelism"] = attempt.get("parallelism")
        placed["triggered_us"] = checkpoint.get("triggered_us")
        placed["expired_us"] = (checkpoint.get("expired") or {}).get("time_us")
        for name in ("task", "subtask_index", "vertex_id", "attempt"):
            placed[name] = row[name] if attempt.get(name) is None else attempt[name]
        for name in ("taskmanager", "host"):  # the message itself knows best
            placed[name] = attempt.get(name) if row[name] is None else row[name]
        result.append(placed)
    return result


_OF_MESSAGE: Final = (
    "job_cluster",
    "job_id",
    "run",
    "checkpoint",
    "attempt_id",
    "time_us",
    "cause",
    "source",
    "offset",
)


def _late(
    rows: Iterable[Row], checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint], jobs: _Jobs
) -> list[LateAcknowledgement]:
    found: list[LateAcknowledgement] = []
    for row in sorted(rows, key=_place):
        key = _key(row["job_cluster"], row["job_id"])
        checkpoint = checkpoints.get((key, row["run"], row["checkpoint"]))
        status = checkpoint.status if checkpoint else None
        if status not in (Status.EXPIRED, Status.IN_FLIGHT, None):
            continue
        found.append(
            LateAcknowledgement(
                job=key,
                run=row["run"],
                checkpoint=row["checkpoint"],
                attempt=_attempt_of(row, key),
                received_us=row["time_us"],
                after_trigger_ms=_milliseconds(row["triggered_us"], row["time_us"]),
                after_expiry_ms=_milliseconds(row["expired_us"], row["time_us"]),
                expired=status is Status.EXPIRED,
                ref=Ref(row["source"], row["offset"]),
            )
        )
    return found


def _milliseconds(start_us: int | None, end_us: int | None) -> int | None:
    if start_us is None or end_us is None:
        return None
    return (end_us - start_us) // 1000


def _declines(rows: Iterable[Row], jobs: _Jobs) -> list[Decline]:
    return [
        Decline(
            job=_key(row["job_cluster"], row["job_id"]),
            run=row["run"],
            checkpoint=row["checkpoint"],
            attempt=_attempt_of(row, _key(row["job_cluster"], row["job_id"])),
            time_us=row["time_us"],
            reason=row["cause"],
            ref=Ref(row["source"], row["offset"]),
        )
        for row in sorted(rows, key=_place)
    ]


def _incidents(
    records: Iterable[Row], jobs: _Jobs, attempts: Mapping[str, Attempt]
) -> list[Incident]:
    found = []
    records = list(records)
    told_by_jobmanager = {
        row["attempt_id"]
        for row in records
        if row["event"] == Event.TASK_STATE and row["role"] != "taskmanager" and row["attempt_id"]
    }
    # REST repeats the failures of the log without attempt ids, some milliseconds apart.
    told_by_logs = {
        (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US + step)
        for row in records
        if row["event"] == Event.TASK_STATE and row["attempt_id"]
        for step in (-1, 0, 1)
    }
    for row in records:
        event = Event(row["event"])
        told_twice = (row["role"] == "taskmanager" and row["attempt_id"] in told_by_jobmanager) or (
            row["attempt_id"] is None
            and (row["task"], row["subtask_index"], (row["time_us"] or 0) // REPEATED_US)
            in told_by_logs
        )
        if event is Event.TASK_STATE and told_twice:
            continue
        kind = _incident_kind(event, row)
        if kind is None:
            continue
        attempt = attempts.get(row["attempt_id"] or "")
        job = (
            (_key(row["cluster"], row["job_id"]) if row["job_id"] else None)
            or (attempt.job if attempt else None)
            or jobs.of_stream(row["source"], row["owner"])
            or jobs.only
        )
        text = dict(row["fields"] or {})
        for name in ("from_state", "to_state", "template", "thread", "job_name", "role", "logger"):
            if row[name]:
                text.setdefault(name, row[name])
        taskmanager, host = row["taskmanager"], row["host"]
        if event is Event.TASK_STATE and attempt is not None:
            taskmanager, host = attempt.taskmanager or taskmanager, attempt.host or host
        peer = (
            lost_peer(row["cause"] or text.get("exception", ""))
            if event is Event.TASK_STATE
            else None
        )
        if peer and any(peer):
            text["lost_taskmanager"], text["lost_host"] = peer[0] or "", peer[1] or ""
        found.append(
            Incident(
                kind=kind,
                time_us=row["time_us"],
                job=job,
                task=row["task"] or (attempt.task if attempt else None),
                subtask_index=(
                    row["subtask_index"]
                    if row["subtask_index"] is not None
                    else (attempt.subtask_index if attempt else None)
                ),
                parallelism=row["parallelism"] or (attempt.parallelism if attempt else None),
                attempt_id=row["attempt_id"],
                taskmanager=taskmanager,
                host=host,
                checkpoint=row["checkpoint"],
                duration_ms=row["duration_ms"],
                cause=row["cause"],
                text=text,
                ref=_ref(row),
            )
        )
    return found


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
    if event is Event.RESOURCE_FAILURE:
        kind = failure_kind(row["cause"] or (row["fields"] or {}).get("text", ""))
        return kind or "resource-failure"
    return _INCIDENT_KINDS.get(event)


def _close(
    checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint], incidents: Iterable[Incident]
) -> dict[tuple[JobKey, int, int], Checkpoint]:
    """A checkpoint without an end was aborted if its job failed, restarted or was cancelled after it."""
    breaks: dict[JobKey, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if (
            incident.job
            and incident.time_us is not None
            and incident.kind
            in (
                "job-failing",
                "job-failure",
                "job-restarting",
                "restart",
                "restored",
                "cancelled",
                "suspended",
                "finished",
                "coordinator-stopped",
            )
        ):
            breaks[incident.job].append(incident)  # incidents are in order of time
    times = {job: [i.time_us or 0 for i in broken] for job, broken in breaks.items()}
    closed = dict(checkpoints)
    for place, checkpoint in checkpoints.items():
        if checkpoint.status is not Status.IN_FLIGHT or checkpoint.triggered_us is None:
            continue
        number = bisect_left(times.get(checkpoint.job, ()), checkpoint.triggered_us)
        if number < len(breaks.get(checkpoint.job, ())):
            first = breaks[checkpoint.job][number]
            closed[place] = replace(
                checkpoint,
                status=Status.ABORTED,
                ended_us=first.time_us,
                reason=f"no end in the log; the job then: {first.kind}",
                end_ref=first.ref,
            )
    return closed


def _graphs(
    records: Iterable[Row], attempts: Mapping[str, Attempt], jobs: _Jobs
) -> dict[JobKey, Graph]:
    """Graphs from plans where there are some, else the vertices in the order of their deployment."""
    vertices: dict[JobKey, dict[str, Vertex]] = defaultdict(dict)
    edges: dict[JobKey, set[tuple[str, str]]] = defaultdict(set)
    shipping: dict[JobKey, dict[tuple[str, str], str]] = defaultdict(dict)
    origin: dict[JobKey, str] = {}
    for row in records:
        fields = row["fields"] or {}
        if row["event"] == Event.VERTEX and row["vertex_id"] and row["task"]:
            key = _key(row["cluster"], row["job_id"]) if row["job_id"] else jobs.only
            if key is None:
                continue
            order = fields.get("order")
            known = vertices[key].get(row["vertex_id"])
            vertices[key][row["vertex_id"]] = Vertex(
                job=key,
                vertex_id=row["vertex_id"],
                task=row["task"],
                parallelism=row["parallelism"] or (known.parallelism if known else 0),
                order=int(order) if order else (known.order if known else None),
            )
            origin.setdefault(key, fields.get("origin", "rest"))
        elif row["event"] == Event.EDGE and row["vertex_id"]:
            key = _key(row["cluster"], row["job_id"]) if row["job_id"] else jobs.only
            if key is not None and fields.get("upstream"):
                edges[key].add((fields["upstream"], row["vertex_id"]))
                if fields.get("ship_strategy"):
                    edge = (fields["upstream"], row["vertex_id"])
                    shipping[key][edge] = fields["ship_strategy"]
    graphs = {}
    for key, known_vertices in vertices.items():
        names = {vertex_id: vertex.task for vertex_id, vertex in known_vertices.items()}
        graphs[key] = Graph(
            job=key,
            vertices=_ordered(known_vertices, edges[key]),
            edges=tuple(
                sorted(
                    (names[upstream], names[downstream])
                    for upstream, downstream in edges[key]
                    if upstream in names and downstream in names
                )
            ),
            source=origin[key],
            shipping=tuple(
                sorted(
                    (names[upstream], names[downstream], strategy)
                    for (upstream, downstream), strategy in shipping[key].items()
                    if upstream in names and downstream in names
                )
            ),
        )
    by_job: dict[JobKey, list[Attempt]] = defaultdict(list)
    for attempt in attempts.values():
        if attempt.job and attempt.task and attempt.ref:
            by_job[attempt.job].append(attempt)
    for key, members in by_job.items():
        if key in graphs:
            continue
        first: dict[tuple[str, int], Attempt] = {}
        for attempt in sorted(members, key=lambda a: (a.deployed_us or 0, a.ref or Ref(0, 0))):
            first.setdefault((attempt.task or "", attempt.parallelism or 0), attempt)
        graphs[key] = Graph(
            job=key,
            vertices=tuple(
                Vertex(
                    job=key,
                    vertex_id=attempt.vertex_id,
                    task=task,
                    parallelism=parallelism,
                    order=index,
                )
                for index, ((task, parallelism), attempt) in enumerate(first.items())
            ),
            edges=(),
            source="deployment order",
        )
    return graphs


def _ordered(vertices: Mapping[str, Vertex], edges: set[tuple[str, str]]) -> tuple[Vertex, ...]:
    """Vertices from the sources down; by the listed order where the plan has no edges."""
    depth = dict.fromkeys(vertices, 0)
    for _ in vertices:
        for upstream, downstream in edges:
            if upstream in depth and downstream in depth:
                depth[downstream] = max(depth[downstream], depth[upstream] + 1)
    listed = list(vertices)
    ranked = sorted(vertices, key=lambda v: (depth[v], vertices[v].order or 0, listed.index(v)))
    return tuple(
        replace(vertices[vertex_id], order=index) for index, vertex_id in enumerate(ranked)
    )


def _parts(
    rows: Iterable[Row],
    attempts: Mapping[str, Attempt],
    graphs: Mapping[JobKey, Graph],
    jobs: _Jobs,
) -> list[SubtaskCheckpoint]:
    names: dict[tuple[JobKey | None, str | None], str] = {
        (graph.job, vertex.vertex_id): vertex.task
        for graph in graphs.values()
        for vertex in graph.vertices
        if vertex.vertex_id
    }
    places: dict[tuple[JobKey | None, str | None, int | None], Attempt] = {}
    for attempt in sorted(attempts.values(), key=lambda a: a.deployed_us or 0):
        places[(attempt.job, attempt.task, attempt.subtask_index)] = attempt
    by_task: dict[str, set[JobKey]] = defaultdict(set)
    for attempt in attempts.values():
        if attempt.task and attempt.job:
            by_task[attempt.task].add(attempt.job)
    found = []
    for row in sorted(
        rows, key=lambda r: (r["checkpoint"], r["vertex_id"] or "", r["subtask_index"] or 0)
    ):
        attempt_of = attempts.get(row["attempt_id"] or "")
        owners = by_task.get(row["task"] or "", set())
        job = (
            (_key(None, row["job_id"]) if row["job_id"] else None)
            or (attempt_of.job if attempt_of else None)
            or (next(iter(owners)) if len(owners) == 1 else None)
            or jobs.only
        )
        subtask_index = row["subtask_index"]
        if subtask_index is None and attempt_of:
            subtask_index = attempt_of.subtask_index
        if job is None or subtask_index is None:
            continue
        task = (
            row["task"]
            or (attempt_of.task if attempt_of else None)
            or names.get((job, row["vertex_id"]))
        )
        fields = row["fields"] or {}
        place = places.get((job, task, subtask_index))
        events = set(row["events"])
        reported = (
            events
            & {
                Event.ACKNOWLEDGED.value,
                Event.ASYNCHRONOUS_PART.value,
            }
            or fields.get("status") == "completed"
        )
        found.append(
            SubtaskCheckpoint(
                job=job,
                checkpoint=row["checkpoint"],
                vertex_id=row["vertex_id"] or (attempt_of.vertex_id if attempt_of else None),
                task=task,
                subtask_index=subtask_index,
                acknowledged=bool(reported),
                end_to_end_ms=row["duration_ms"] if row["origin"] != "debug" else None,
                sync_ms=_number(fields.get("sync_ms"), row["sync_ms"]),
                async_ms=_number(fields.get("async_ms"), row["async_ms"]),
                alignment_ms=_number(fields.get("alignment_ms"), row["alignment_ms"]),
                start_delay_ms=_number(fields.get("start_delay_ms"), None),
                bytes=row["bytes"],
                taskmanager=(
                    row["taskmanager"]
                    or (place.taskmanager if place else None)
                    or row["writer_taskmanager"]
                ),
                source=row["origin"],
                ref=_ref(row),
            )
        )
    return _merge_parts(found)


def _merge_parts(parts: Iterable[SubtaskCheckpoint]) -> list[SubtaskCheckpoint]:
    """One report per checkpoint and subtask: an archive and saved answers tell the same twice.

    An acknowledgement wins over its absence (an answer may have been saved before it), the later kinds
    of `_ORIGINS` fill in what the earlier do not say.
    """
    merged: dict[tuple[JobKey, int, str | None, int], SubtaskCheckpoint] = {}
    for part in sorted(parts, key=lambda p: (not p.acknowledged, _ORIGINS.index(p.source))):
        key = (part.job, part.checkpoint, part.task or part.vertex_id, part.subtask_index)
        known = merged.get(key)
        if known is None:
            merged[key] = part
            continue
        merged[key] = replace(
            known,
            **{name: getattr(part, name) for name in _PART_VALUES if getattr(known, name) is None},
        )
    return sorted(
        merged.values(), key=lambda p: (p.checkpoint, p.vertex_id or p.task or "", p.subtask_index)
    )


_ORIGINS: Final = ("archive", "rest", "dump", "debug")
_PART_VALUES: Final = (
    "vertex_id",
    "task",
    "end_to_end_ms",
    "sync_ms",
    "async_ms",
    "alignment_ms",
    "start_delay_ms",
    "bytes",
    "taskmanager",
)


def _number(text: str | None, other: int | None) -> int | None:
    if other is not None:
        return other
    try:
        return int(float(text)) if text is not None else None
    except ValueError:
        return None


def _loads(rows: Iterable[Row], jobs: _Jobs, attempts: Mapping[str, Attempt]) -> list[SubtaskLoad]:
    # Metric scopes print the dots of names as `_` from 1.13 on, Prometheus everything but letters and digits.
    real = {
        _scoped(name): name
        for attempt in attempts.values()
        for name in (attempt.taskmanager, attempt.host, attempt.task)
        if name
    }
    found = []
    for row in rows:
        ref = row["ref"]
        taskmanager, host, task = (
            real.get(_scoped(row[name] or ""), row[name])
            for name in ("taskmanager", "host", "task")
        )
        found.append(
            SubtaskLoad(
                job=jobs.of_load(row),
                task=task or "",
                subtask_index=row["subtask_index"],
                taskmanager=taskmanager,
                host=host,
                samples=row["samples"],
                busy=row["busy"],
                idle=row["idle"],
                back_pressured=row["back_pressured"],
                is_back_pressured=row["is_back_pressured"],
                records_in=row["records_in"],
                records_out=row["records_out"],
                bytes_in=row["bytes_in"],
                input_queue=row["input_queue"],
                in_pool_usage=row["in_pool_usage"],
                out_pool_usage=row["out_pool_usage"],
                alignment_ms=None if row["alignment_ns"] is None else row["alignment_ns"] / 1e6,
                start_delay_ms=None
                if row["start_delay_ns"] is None
                else row["start_delay_ns"] / 1e6,
                ref=Ref(ref["source"], ref["offset"]) if ref else None,
            )
        )
    # A log that was given twice, once of another cluster by its folder, gives two loads of a subtask.
    fullest: dict[tuple[object, ...], SubtaskLoad] = {}
    for load in sorted(found, key=lambda load: -load.samples):
        fullest.setdefault(
            (load.job, load.task, load.subtask_index, load.taskmanager, load.host), load
        )
    return sorted(
        fullest.values(), key=lambda load: (load.task, load.subtask_index, load.taskmanager or "")
    )


def _scoped(name: str) -> str:
    """A name as metric scopes print it, or Prometheus."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)


# REST keys of /checkpoints/config and the options they are (catalogue/flink.md 6.2).
_CONFIG_KEYS: Final = {
    "interval": "execution.checkpointing.interval",
    "timeout": "execution.checkpointing.timeout",
    "min_pause": "execution.checkpointing.min-pause",
    "max_concurrent": "execution.checkpointing.max-concurrent-checkpoints",
    "mode": "execution.checkpointing.mode",
    "unaligned_checkpoints": "execution.checkpointing.unaligned",
    "tolerable_failed_checkpoints": "execution.checkpointing.tolerable-failed-checkpoints",
    "aligned_checkpoint_timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "state_backend": "state.backend",
    "checkpoint_storage": "state.checkpoint-storage",
}


def _settings(
    records: Iterable[Row],
    checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint],
    jobs: _Jobs,
) -> list[Setting]:
    found: list[Setting] = []
    printed: set[tuple[str, str]] = set()
    for row in records:
        fields = row["fields"] or {}
        if row["event"] == Event.CHECKPOINT_CONFIG:
            job = _key(row["cluster"], row["job_id"]) if row["job_id"] else jobs.only
            for name, key in _CONFIG_KEYS.items():
                if fields.get(name) not in (None, ""):
                    found.append(
                        Setting(job=job, key=key, value=fields[name], source="rest", ref=_ref(row))
                    )
        elif row["event"] == Event.CONFIGURATION and fields.get("key"):
            # Every process prints its configuration: thousands of them print the same.
            value = fields["key"], fields.get("value", "")
            if value in printed:
                continue
            printed.add(value)
            found.append(
                Setting(
                    job=None,
                    key=fields["key"],
                    value=fields.get("value", ""),
                    source="log",
                    ref=_ref(row),
                )
            )
    by_job: dict[JobKey, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints.values():
        by_job[checkpoint.job].append(checkpoint)
    for job, members in sorted(by_job.items()):
        found.extend(observed_settings(job, members))
    return found


def observed_settings(job: JobKey, checkpoints: Sequence[Checkpoint]) -> list[Setting]:
    """Interval and time-out as the checkpoints show them, in milliseconds.

    The interval is the lower quartile of the gaps between triggers, since waiting can only widen a
    gap; the time-out is the median life of expired checkpoints.
    """
    found = []
    triggers = sorted(
        (c.run, c.triggered_us) for c in checkpoints if c.triggered_us and not c.is_savepoint
    )
    gaps = [
        (later - earlier) // 1000
        for (run, earlier), (next_run, later) in pairwise(triggers)
        if run == next_run
    ]
    if len(gaps) >= 2:
        quartile = int(statistics.quantiles(gaps, n=4, method="inclusive")[0])
        found.append(
            Setting(job=job, key="observed.interval_ms", value=str(quartile), source="observed")
        )
    lives = [
        c.duration_ms
        for c in checkpoints
        if c.status is Status.EXPIRED and c.duration_ms and c.reason_kind == "expired"
    ]
    if lives:
        found.append(
            Setting(
                job=job,
                key="observed.timeout_ms",
                value=str(int(statistics.median_low(lives))),
                source="observed",
            )
        )
    return found


class _OfJob(Protocol):
    @property
    def job(self) -> JobKey | None: ...


Fact = TypeVar("Fact", bound=_OfJob)


def _by_job(found: Iterable[Fact]) -> Mapping[JobKey | None, list[Fact]]:
    grouped: defaultdict[JobKey | None, list[Fact]] = defaultdict(list)
    for fact in found:
        grouped[fact.job].append(fact)
    return dict(grouped)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Facts by job, each list in order."""

    checkpoints: Mapping[JobKey | None, list[Checkpoint]]
    late: Mapping[JobKey | None, list[LateAcknowledgement]]
    declines: Mapping[JobKey | None, list[Decline]]
    attempts: Mapping[JobKey | None, list[Attempt]]
    incidents: Mapping[JobKey | None, list[Incident]]
    parts: Mapping[JobKey | None, list[SubtaskCheckpoint]]
    loads: Mapping[JobKey | None, list[SubtaskLoad]]
    settings: Mapping[JobKey | None, list[Setting]]
    order: Mapping[int, int]  # of settings, by their identity

    def settings_of(self, key: JobKey) -> tuple[Setting, ...]:
        """What holds for a job, of all jobs and its own, as they were told."""
        found = [*self.settings.get(None, ()), *self.settings.get(key, ())]
        return tuple(sorted(found, key=lambda setting: self.order[id(setting)]))


def _job(key: JobKey, jobs: _Jobs, facts: _Sorted, graph: Graph | None) -> JobFacts:
    of_job = facts.incidents.get(key, [])
    queued = {i.checkpoint: i.duration_ms for i in of_job if i.kind == "request-in-queue"}
    mine = sorted(
        (
            replace(c, queue_ms=queued.get(c.id)) if c.id in queued else c
            for c in facts.checkpoints.get(key, ())
        ),
        key=lambda c: (c.run, c.id),
    )
    times = [
        time_us
        for time_us in (
            *[c.triggered_us for c in mine],
            *[c.ended_us for c in mine],
            *[i.time_us for i in of_job],
        )
        if time_us is not None
    ]
    return JobFacts(
        key=JobKey(jobs.clusters.get(key, key.cluster) if key.cluster else "", key.job_id),
        name=jobs.names.get(key),
        version=jobs.versions.get(key),
        checkpoints=tuple(mine),
        late=tuple(facts.late.get(key, ())),
        declines=tuple(facts.declines.get(key, ())),
        attempts=tuple(
            sorted(
                facts.attempts.get(key, ()),
                key=lambda a: (
                    a.deployed_us or 0,
                    a.task or "",
                    a.subtask_index or 0,
                    a.attempt_id,
                ),
            )
        ),
        graph=graph,
        subtask_checkpoints=tuple(facts.parts.get(key, ())),
        loads=tuple(facts.loads.get(key, ())),
        incidents=tuple(of_job),
        settings=facts.settings_of(key),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
    )


def _processes(writers: Iterable[Writer]) -> tuple[Process, ...]:
    return tuple(
        Process(
            source=writer.stream.source,
            label=writer.stream.owner,
            role=writer.role,
            cluster=writer.cluster,
            version=writer.version,
            taskmanager=writer.taskmanager,
            host=writer.host,
            zone_offset_ms=writer.clock.zone_ms if writer.dated else None,
            zone_from=writer.clock.known_from if writer.dated else None,
            zone_changes=len(writer.clock.segments) > 1,
            clock_offset_ms=writer.clock.drift_ms,
            first_us=writer.first_us,
            last_us=writer.last_us,
            events=writer.events,
        )
        for writer in writers
        if writer.logged
    )
