"""Expired checkpoints without an acknowledgement by any source."""

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
