"""Finds the subtasks that made checkpoints fail, from their declines or else from missing acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowdiag.analyses.checkpoints.storage import refusals_of
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.model.derived import once
from flowdiag.parsers.flink.failures import failure_kind

Identity = tuple[int, int]  # run and number of a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Decliners:
    """The subtasks to blame for failed checkpoints: usually one, or several that declined about equally often.

    Args:
        attempts: the subtasks.
        text: the deepest exception of the first subtask; empty if the input contains none.
        times: number of checkpoints that the first subtask failed.
        signals: text by signal of CP301; None for signals that do not apply.
    """

    attempts: Sequence[h.Attempt]
    text: str
    times: int
    signals: dict[str, str | None]
    records: tuple[h.Evidence, ...]


def failed_checkpoints(job: h.Job) -> tuple[list[h.Episode], set[Identity]]:
    """Return the episodes with declined or failed checkpoints, and the checkpoints that the storage did not reject."""
    statuses = (h.Status.DECLINED, h.Status.FAILED)
    series = [e for e in h.episodes(job) if e.count(*statuses)]
    storage = refusals_of(job)
    failed = {(c.run, c.id) for e in series for c in e.checkpoints if c.status in statuses}
    return series, failed - (storage.checkpoints if storage is not None else frozenset())


def decliners_of(
    job: h.Job, failed: set[Identity], *, repeated: float, alike: float
) -> Decliners | None:
    """Return the subtasks that made checkpoints fail; takes the same arguments as `decliners_by_declines`."""
    if declines := declines_of(job, failed):
        return decliners_by_declines(declines, len(failed), repeated=repeated, alike=alike)
    return decliner_by_absence(job, failed, repeated=repeated)


def failed_snapshots(job: h.Job, repeated: float) -> h.Iterator[list[h.Incident]]:
    """Yield the failed snapshots of each subtask with at least `repeated` of them in TaskManager logs.

    Failures of the storage do not count.
    """
    storage = refusals_of(job)
    refused = set() if storage is None else {refusal.ref for refusal in storage.refusals}
    by_subtask: dict[tuple[str, int | None], list[h.Incident]] = {}
    for incident in h.incidents(job, "async-failure", "snapshot-failed"):
        text = incident.cause or ""
        if (
            not text
            or incident.ref in refused
            or failure_kind(text) == "cancelled"
            or h.is_blameless(text)
        ):
            continue
        if incident.task is not None:
            by_subtask.setdefault((incident.task, incident.subtask_index), []).append(incident)
    yield from (members for members in by_subtask.values() if len(members) >= repeated)


def declines_of(job: h.Job, failed: set[Identity]) -> list[h.Decline]:
    """Return the declines for which the subtask is to blame, with missing reasons added."""
    return [
        replace(decline, reason=decline.reason or _reason_elsewhere(job, decline))
        for decline in job.declines
        if (decline.run, decline.checkpoint) in failed
        and not h.is_blameless(decline.reason)
        and (decline.reason is None or failure_kind(decline.reason) not in ("cancelled", "expired"))
    ]


def decliners_by_declines(
    declines: Sequence[h.Decline], failed: int, *, repeated: float, alike: float
) -> Decliners | None:
    """Return the subtask that declined most often, and subtasks with at least `alike` of its declines.

    The result is None if that subtask gave no reason and declined fewer than `repeated` checkpoints.
    """
    by_subtask: dict[tuple[str | None, int | None], list[h.Decline]] = {}
    for decline in declines:
        key = (decline.attempt.task, decline.attempt.subtask_index)
        by_subtask.setdefault(key, []).append(decline)
    ranked = sorted(by_subtask.values(), key=lambda items: (-len(items), items[0].ref))
    most = ranked[0]
    likely = [items for items in ranked if len(items) >= len(most) * alike]
    text = h.exception_text(most[-1].reason)
    if not text and len(most) < repeated:
        return None
    others = len(declines) - sum(len(items) for items in likely)
    declined = f"declined {len(most)} of {failed} failed checkpoints"
    return Decliners(
        attempts=[items[-1].attempt for items in likely],
        text=text,
        times=len(most),
        signals={
            "exception": f"{declined}: {text}" if text else None,
            "repeated-declines": None if text else f"{declined}, and no input shows the reason",
            "other-decliners": f"{others} declines came from other subtasks" if others else None,
        },
        records=h.cite((decline.ref, decline.time_us) for decline in most),
    )


def decliner_by_absence(job: h.Job, failed: set[Identity], *, repeated: float) -> Decliners | None:
    """Return the only subtask that acknowledged none of at least `repeated` failed checkpoints.

    REST and archives do not show which subtask declined.
    """
    numbers = {number for run, number in failed if run == job.runs}
    missing = _missing_rows(job, numbers)
    always = set.intersection(*(set(rows) for rows in missing.values())) if missing else set()
    if len(missing) < repeated or len(always) != 1:
        return None
    task, index = next(iter(always))
    rows = [members[task, index] for members in missing.values()]
    reason = next((c.reason for c in job.checkpoints if c.id in numbers and c.reason), None)
    only = f"the only subtask that acknowledged none of {len(missing)} declined checkpoints"
    return Decliners(
        attempts=[attempt_of(job, rows[0])],
        text=h.exception_text(reason),
        times=len(missing),
        signals={"always-missing": only},
        records=h.cite((row.cited, None) for row in rows),
    )


def _missing_rows(
    job: h.Job, numbers: set[int]
) -> dict[int, dict[tuple[str | None, int], h.SubtaskCheckpoint]]:
    """Return the rows of subtasks that did not acknowledge, by checkpoint."""
    missing: dict[int, dict[tuple[str | None, int], h.SubtaskCheckpoint]] = {}
    for row in job.subtask_checkpoints:
        if row.checkpoint in numbers and not row.acknowledged and row.source != "debug":
            missing.setdefault(row.checkpoint, {})[row.task, row.subtask_index] = row
    return missing


def attempt_of(job: h.Job, row: h.SubtaskCheckpoint) -> h.Attempt:
    """Return the first attempt of a subtask, or build it from the row if the input shows no deployment."""
    place = (row.task, row.subtask_index)
    known = next((a for a in job.attempts if (a.task, a.subtask_index) == place), None)
    return known or h.Attempt(
        job=job.key,
        attempt_id="",
        vertex_id=row.vertex_id,
        task=row.task,
        subtask_index=row.subtask_index,
        taskmanager=row.taskmanager,
    )


def common_subject(job: h.Job, attempts: Sequence[h.Attempt]) -> h.Subject | None:
    """Return the narrowest subject that all attempts share: subtask, TaskManager or task. None means only the job."""
    first = attempts[0]
    if len(attempts) == 1:
        return h.subtask_subject(job, first)
    if first.taskmanager is not None and len({a.taskmanager for a in attempts}) == 1:
        return h.taskmanager_subject(job, first.taskmanager, first.host)
    if len({attempt.task for attempt in attempts}) > 1:
        return None
    return h.Subject(
        kind="task",
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=first.task,
        vertex_id=first.vertex_id,
        parallelism=first.parallelism,
    )


def _reason_elsewhere(job: h.JobFacts, decline: h.Decline) -> str | None:
    """Return why a subtask declined if the decline has no reason (up to 1.10, and in short logs).

    The TaskManager of the subtask logs the failed snapshot. The coordinator logs the reason of the first decline when
    it discards the checkpoint right afterwards.
    """
    place = (decline.checkpoint, decline.attempt.task, decline.attempt.subtask_index)
    reason = _failed_snapshots(job).get(place)
    if reason is not None:
        return reason
    first, discarded = _first_declines(job).get((decline.run, decline.checkpoint), (None, None))
    return discarded if first is not None and first.ref == decline.ref else None


@once
def _failed_snapshots(job: h.JobFacts) -> dict[tuple[int | None, str | None, int | None], str]:
    """Return the first cause of each failed snapshot, by checkpoint and subtask."""
    found: dict[tuple[int | None, str | None, int | None], str] = {}
    for incident in h.incidents(job, "snapshot-failed", "async-failure"):
        place = (incident.checkpoint, incident.task, incident.subtask_index)
        if incident.cause and place not in found and not h.is_blameless(incident.cause):
            found[place] = incident.cause
    return found


@once
def _first_declines(job: h.JobFacts) -> dict[Identity, tuple[h.Decline, str | None]]:
    """Return the first decline of each checkpoint, and the reason why the checkpoint was discarded."""
    reasons = {(c.run, c.id): c.reason for c in reversed(job.checkpoints)}
    return {
        (d.run, d.checkpoint): (d, reasons.get((d.run, d.checkpoint)))
        for d in reversed(job.declines)
    }
