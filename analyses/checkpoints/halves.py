"""Finds the slow part of checkpoints: waiting for barriers, the synchronous part, or the asynchronous part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.checkpoints.culprit import episode_culprits
from flowdiag.analyses.flink import helpers as h

_ANSWERS: Final = 10  # number of the last spells of failed checkpoints that are examined
_SLOWEST: Final = 10  # number of completed checkpoints that are examined if none expired
MOST: Final = 0.5  # minimum share of the longest part, so that fixing it is worthwhile
HALVES: Final = {
    "barrier": "waiting for barriers",
    "sync": "in the synchronous part",
    "async": "in the asynchronous part",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long the last subtask of each checkpoint spent on each part, in milliseconds.

    Args:
        sums: the total of all checkpoints, by part.
        worst: the subtask with the longest time from trigger to acknowledgement.
        checkpoints: the number of checkpoints with per-subtask durations.
    """

    sums: dict[str, float]
    worst: h.SubtaskCheckpoint
    checkpoints: int

    @property
    def longest(self) -> str:
        """The part that takes the most time."""
        return max(sorted(self.sums), key=lambda name: self.sums[name])

    def share(self, half: str) -> float:
        return self.sums[half] / max(1.0, sum(self.sums.values()))


def slowest_checkpoints(job: h.Job) -> list[h.Checkpoint]:
    """Return the slowest completed checkpoints, in order."""
    steady = [c for stretch in h.steady_checkpoints(job, h.WARM_UP) for c in stretch]
    found = sorted(steady, key=lambda c: -(c.duration_ms or 0))[:_SLOWEST]
    return sorted(found, key=lambda c: (c.triggered_us or 0, c.run, c.id))


def times_by_half(job: h.Job, delayed: Sequence[h.Checkpoint]) -> Times | None:
    """Return the durations that the last subtask of each checkpoint measured, or None if there are none."""
    last = _last_subtasks(job, {c.id for c in delayed})
    # In a failed checkpoint, only subtasks that acknowledged have durations. The last one counts if it was
    # late.
    expired = {c.id: c.duration_ms or 0 for c in reversed(delayed) if c.status is h.Status.EXPIRED}
    late = [row for row in last if (row.end_to_end_ms or 0) >= expired.get(row.checkpoint, 0)]
    sums = dict.fromkeys(HALVES, 0.0)
    for row in late:
        own = {"sync": row.sync_ms or 0, "async": row.async_ms or 0}
        sums["barrier"] += max(0, (row.end_to_end_ms or 0) - sum(own.values()))
        for half, spent in own.items():
            sums[half] += spent
    if not any(sums.values()):
        return None
    worst = max(late, key=lambda row: row.end_to_end_ms or 0)
    return Times(sums=sums, worst=worst, checkpoints=len(last))


def measured_half(job: h.Job) -> str | None:
    """Return the part in which the slowest completed checkpoints spend most of their time, if it is known."""
    times = times_by_half(job, slowest_checkpoints(job))
    known = times is not None and times.share(times.longest) >= MOST
    return times.longest if times is not None and known else None


def remedies_for_half(job: h.Job, half: str | None) -> tuple[h.Action, ...]:
    """Return the remedies for a slow part of checkpoints, without a culprit."""
    if half == "sync":
        return h.remedies("slow-sync-snapshot", job, "thread")
    if half == "async":
        storage = h.remedies("slow-async-snapshot", job, "storage")
        return (*storage, *h.shared_remedies(job, "incremental"))
    return h.shared_remedies(job, "find-barriers", "overtake-if-it-works")


def _last_subtasks(job: h.Job, numbers: Collection[int]) -> list[h.SubtaskCheckpoint]:
    """Return the row of the last subtask of each checkpoint with durations."""
    rows: defaultdict[int, list[h.SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.checkpoint in numbers and row.sync_ms is not None and row.end_to_end_ms is not None:
            rows[row.checkpoint].append(row)
    return [
        max(members, key=lambda row: (row.end_to_end_ms or 0, row.subtask_index))
        for members in rows.values()
    ]


def half_by_shape(job: h.Job) -> str | None:
    """Return the slow part according to which acknowledgements the latest conclusive spell lacks."""
    found = (answer.culprit for answer in reversed(episode_culprits(job)[-_ANSWERS:]))
    return next(
        (
            one.half
            for one in found
            if one is not None and one.half in HALVES and one.confidence is not h.Confidence.LOW
        ),
        None,
    )


def delayed_barriers(job: h.Job, delayed: Sequence[h.Checkpoint]) -> list[h.Incident]:
    """Return the warnings of tasks that began a checkpoint at least 30 s after all its barriers arrived (1.12+)."""
    numbers = {c.id for c in delayed}
    low = min((c.triggered_us for c in delayed if c.triggered_us is not None), default=None)
    return [
        i
        for i in h.incidents(job, "barrier-delayed")
        if i.checkpoint in numbers
        or (i.checkpoint is None and low is not None and (i.time_us or 0) >= low)
    ]
