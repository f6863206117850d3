"""Builds the checkpoints, late acknowledgements and declines."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Final

from flowdiag.analyses.flink.assemble.rows import Row, key_of, place, ref_of
from flowdiag.analyses.flink.job import (
    BREAKS,
    Attempt,
    Checkpoint,
    Decline,
    Incident,
    LateAcknowledgement,
    Status,
)
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.parsers.flink.failures import reason_kind

# The end that a reason implies if no record of its own reports it.
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


def checkpoints_of(rows: Iterable[Row]) -> dict[tuple[JobKey, int, int], Checkpoint]:
    """Return the checkpoints by job, run and ID."""
    found = {}
    failure_counts: dict[tuple[JobKey, int], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        key = key_of(row["job_cluster"], row["job_id"])
        checkpoint = _checkpoint(row, key)
        found[(key, checkpoint.run, checkpoint.id)] = checkpoint
        if row["failed_before"] is not None:
            failure_counts[key, checkpoint.run].append((checkpoint.id, row["failed_before"]))
    for life, failures in failure_counts.items():
        for (number, before), (_, after) in pairwise(sorted(failures)):
            checkpoint = found[(*life, number)]
            if checkpoint.status is Status.ABORTED and checkpoint.reason is None and after > before:
                # Flink counts it as failed, unlike one that ended with the job or was subsumed.
                found[(*life, number)] = replace(checkpoint, status=Status.FAILED)
    return found


def _checkpoint(row: Row, key: JobKey) -> Checkpoint:
    status, reason, kind, end = _end(row)
    duration = row["duration_ms"]
    if status is Status.COMPLETED and duration is None:
        duration = row["rest_duration_ms"]
    ended_us = _ended_us(row, status, end, duration)
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
        trigger_ref=ref_of(trigger) if trigger else None,
        end_ref=ref_of(end) if end else None,
    )


def _ended_us(row: Row, status: Status, end: Row | None, duration: int | None) -> int | None:
    """Return the time of the end record or, without one, the trigger time plus the duration.

    A REST response carries the trigger time instead, so it does not count. The Web UI also shows the
    duration of failed checkpoints.
    """
    ended_us: int | None = end["time_us"] if end else None
    responded = end is not None and end == row["status_record"]
    if responded:
        ended_us = row["rest_failure_ms"] * 1000 if row["rest_failure_ms"] else None
    took = duration if status is Status.COMPLETED else None
    if responded and status.unsuccessful:
        took = row["rest_duration_ms"]
    if ended_us is None and row["triggered_us"] and took is not None:
        ended_us = row["triggered_us"] + took * 1000
    return ended_us


def _end(row: Row) -> tuple[Status, str | None, str | None, Row | None]:
    """Return the end of a checkpoint as (status, reason, kind of reason, record)."""
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
    return _end_by_reason(row)


def _end_by_reason(row: Row) -> tuple[Status, str | None, str | None, Row | None]:
    """Return how a checkpoint ended according to its first failure record, or that it is in progress."""
    for reason, record in (
        (row["failed_cause"], row["failed"]),
        (row["discarded_cause"], row["discarded"]),
        (row["rest_reason"], row["status_record"] if row["rest_status"] == "FAILED" else None),
    ):
        if record is None:
            continue
        kind = reason_kind(reason or "") if reason else None
        if kind is None and record is row["failed"]:
            # The deepest exception contains the cause, the outermost one Flink's operation.
            kind = reason_kind(row["failed_exception"] or "")
        # A FAILED response is definite, even without a reason.
        definite = bool(reason) or record == row["status_record"]
        return (
            _ENDS.get(kind or "", Status.FAILED if definite else Status.ABORTED),
            reason,
            kind,
            record,
        )
    return Status.IN_FLIGHT, None, None, None


def checkpoint_type(printed: str | None, is_savepoint: bool = False) -> str:
    """Return the kind of checkpoint from the text that any Flink version prints.

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


def abort_unfinished(
    checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint], incidents: Iterable[Incident]
) -> dict[tuple[JobKey, int, int], Checkpoint]:
    """Mark checkpoints without an end as aborted if the job failed, restarted or was canceled after them."""
    breaks: dict[JobKey, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if incident.job and incident.time_us is not None and incident.kind in BREAKS:
            breaks[incident.job].append(incident)  # incidents are sorted by time
    times = {job: [i.time_us or 0 for i in broken] for job, broken in breaks.items()}
    result = dict(checkpoints)
    for key, checkpoint in checkpoints.items():
        if checkpoint.status is not Status.IN_FLIGHT or checkpoint.triggered_us is None:
            continue
        number = bisect_left(times.get(checkpoint.job, ()), checkpoint.triggered_us)
        if number < len(breaks.get(checkpoint.job, ())):
            first = breaks[checkpoint.job][number]
            result[key] = replace(
                checkpoint,
                status=Status.ABORTED,
                ended_us=first.time_us,
                reason=f"the log does not show its end; next event of the job: {first.kind}",
                end_ref=first.ref,
            )
    return result


def join_attempts(by_what: Mapping[str, Sequence[Row]], what: str) -> list[Row]:
    """Add the attempt and the checkpoint to messages of attempts whose IDs are known."""
    messages = by_what[what]
    if not messages:
        return []
    key = itemgetter("job_cluster", "job_id", "run", "checkpoint")
    checkpoints = {key(row): row for row in by_what["checkpoint"]}
    attempts = {row["attempt_id"]: row for row in by_what["attempt"]}
    result: list[Row] = []
    for row in messages:
        checkpoint = checkpoints.get(key(row), {})
        attempt = attempts.get(row["attempt_id"], {})
        # Rows have the columns of all kinds. The copy contains only the columns read below.
        placed = {name: row[name] for name in _OF_MESSAGE}
        placed["parallelism"] = attempt.get("parallelism")
        placed["triggered_us"] = checkpoint.get("triggered_us")
        placed["expired_us"] = (checkpoint.get("expired") or {}).get("time_us")
        for name in ("task", "subtask_index", "vertex_id", "attempt"):
            placed[name] = row[name] if attempt.get(name) is None else attempt[name]
        for name in ("taskmanager", "host"):  # the message itself is most reliable
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


def late_of(
    rows: Iterable[Row], checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint]
) -> list[LateAcknowledgement]:
    """Return late acknowledgements from `join_attempts` rows, but only if their checkpoint expired."""
    found: list[LateAcknowledgement] = []
    for row in sorted(rows, key=place):
        key = key_of(row["job_cluster"], row["job_id"])
        checkpoint = checkpoints.get((key, row["run"], row["checkpoint"]))
        if checkpoint is not None and _ended_without_expiring(checkpoint):
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
                expired=checkpoint is not None and checkpoint.status is Status.EXPIRED,
                ref=Ref(row["source"], row["offset"]),
            )
        )
    return found


def _ended_without_expiring(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint certainly ended without expiring.

    A failure without a reason may be an expiry, because some consoles lack INFO lines or stack traces.
    """
    if checkpoint.status in (Status.FAILED, Status.ABORTED):
        return checkpoint.reason is not None
    return checkpoint.status not in (Status.EXPIRED, Status.IN_FLIGHT)


def declines_of(rows: Iterable[Row]) -> list[Decline]:
    """Return the declines of `join_attempts` rows."""
    return [
        Decline(
            job=key_of(row["job_cluster"], row["job_id"]),
            run=row["run"],
            checkpoint=row["checkpoint"],
            attempt=_attempt_of(row, key_of(row["job_cluster"], row["job_id"])),
            time_us=row["time_us"],
            reason=row["cause"],
            ref=Ref(row["source"], row["offset"]),
        )
        for row in sorted(rows, key=place)
    ]


def declines_in_failures(rows: Iterable[Row]) -> Iterator[Decline]:
    """Yield the declines that only a failure record shows, from checkpoint rows.

    A console without INFO lines has no decline records. The exception names the subtask that declined.
    """
    for row in rows:
        if row["failed_task"] is None or row["declined"] is not None:
            continue
        key = key_of(row["job_cluster"], row["job_id"])
        number, _, size = (row["failed_subtask"] or "").partition("/")
        yield Decline(
            job=key,
            run=row["run"],
            checkpoint=row["checkpoint"],
            attempt=Attempt(
                job=key,
                attempt_id="",
                task=row["failed_task"],
                subtask_index=int(number) - 1 if number else None,
                parallelism=int(size) if size else None,
            ),
            time_us=row["failed"]["time_us"],
            reason=row["failed_cause"],
            ref=Ref(row["failed"]["source"], row["failed"]["offset"]),
        )


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


def _milliseconds(start_us: int | None, end_us: int | None) -> int | None:
    if start_us is None or end_us is None:
        return None
    return (end_us - start_us) // 1000
