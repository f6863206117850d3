"""Checkpoints that sources do not acknowledge, or acknowledge only after most of their duration."""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.topology import Topology


def silent_checkpoints(job: h.Job, topology: Topology) -> tuple[list[h.Checkpoint], int]:
    """Return expired checkpoints without an acknowledgement by a source, and how many show sources."""
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
    """Return the reports of source subtasks that began late with slow checkpoints, and those with reports of sources.

    Args:
        job: its completed checkpoints.
        topology: its sources.
        limit_ms: completed checkpoints count as slow from this duration.
        share: of the duration of a checkpoint that passes before a late subtask begins with it.
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
    """Return how long after the trigger the subtask began its snapshot."""
    return (row.end_to_end_ms or 0) - (row.sync_ms or 0) - (row.async_ms or 0)
