"""Finds checkpoints that sources do not acknowledge or begin late, and measures the load of these sources."""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.checkpoints.decliners import attempt_of
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.pressure import overall_view
from flowdiag.analyses.flink.tasks.topology import Topology


def silent_checkpoints(job: h.Job, topology: Topology) -> tuple[list[h.Checkpoint], int]:
    """Return the expired checkpoints that no source acknowledged, and the number of expired checkpoints with details."""
    expired = {
        c.id: c for e in h.episodes(job) for c in e.checkpoints if c.status is h.Status.EXPIRED
    }
    acknowledged: dict[int, list[bool]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if (
            row.checkpoint in expired
            and row.source != "debug"
            and topology.canonical(row.task) in topology.sources
        ):
            acknowledged[row.checkpoint].append(row.acknowledged)
    silent = [expired[number] for number, known in sorted(acknowledged.items()) if not any(known)]
    return silent, len(acknowledged)


def delaying_sources(
    job: h.Job, topology: Topology, limit_ms: float, share: float
) -> tuple[list[h.SubtaskCheckpoint], dict[int, h.Checkpoint]]:
    """Return the rows of source subtasks that began slow checkpoints late, and the slow checkpoints with details.

    Args:
        job: the job.
        topology: the tasks of the job.
        limit_ms: minimum duration of a slow checkpoint.
        share: minimum share of the duration of a checkpoint that passes before a late subtask begins.
    """
    slow = {
        c.id: c
        for stretch in h.steady_checkpoints(job, 0)
        for c in stretch
        if (h.elapsed_ms(c) or 0.0) >= limit_ms
    }
    known = [
        row
        for row in job.subtask_checkpoints
        if row.checkpoint in slow
        and row.end_to_end_ms is not None
        and topology.canonical(row.task) in topology.sources
    ]
    late = [
        row for row in known if begun_ms(row) >= share * (h.elapsed_ms(slow[row.checkpoint]) or 0.0)
    ]
    return late, {row.checkpoint: slow[row.checkpoint] for row in known}


def begun_ms(row: h.SubtaskCheckpoint) -> int:
    """Return the time from the trigger to the start of the subtask's snapshot."""
    return (row.end_to_end_ms or 0) - (row.sync_ms or 0) - (row.async_ms or 0)


def sender_of(job: h.Job, late: list[h.SubtaskCheckpoint]) -> h.Attempt:
    """Return the attempt that began last. If several subtasks began late, it has neither subtask nor TaskManager."""
    attempt = attempt_of(job, max(late, key=begun_ms))
    if len({(each.task, each.subtask_index) for each in late}) > 1:
        return h.replace(attempt, subtask_index=None, taskmanager=None, host=None)
    return attempt


def subject_of(job: h.Job, topology: Topology) -> tuple[str, h.Subject | None]:
    """Return the only source by name and as a subject. For several sources, return their number as text and None."""
    sources = [task for task in topology.tasks if task in topology.sources]
    if len(sources) != 1:
        return f"{len(sources)} sources", None
    return h.fmt.shorten(sources[0]), h.Subject(
        kind="task",
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=sources[0],
        parallelism=topology.parallelism.get(sources[0]) or None,
    )


def shares_back_pressured(job: h.Job, topology: Topology) -> list[float]:
    """Return the share of time that each measured source subtask was back-pressured."""
    return [
        load.back_pressured
        for key, load in overall_view(job).loads.items()
        if key.task in topology.sources and load.wait_measured and load.back_pressured is not None
    ]


def share_if_calm(job: h.Job, topology: Topology, limit: float) -> float | None:
    """Return the highest back-pressured share of the sources.

    The result is None if the share is unknown. It is also None if back pressure, the sources' own work or garbage
    collection takes `limit` of the time, which explains why they begin late.
    """
    loads, shares = overall_view(job).loads, shares_back_pressured(job, topology)
    busy = [load.busy or 0.0 for key, load in loads.items() if key.task in topology.sources]
    if not shares or max(*shares, *busy) >= limit:
        return None
    collects = any(g.gc_ms >= limit * g.span_ms for g in job.garbage)
    return None if collects else max(shares)
