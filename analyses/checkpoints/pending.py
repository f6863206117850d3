"""Judges a checkpoint that stays in progress.

With the default timeout, a checkpoint only fails ten minutes after a task hangs. The age of the checkpoint in progress
shows the hang much earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.judging import ended_or_last
from flowdiag.analyses.flink.suspects import NamedCulprit, find_culprit
from flowdiag.analyses.flink.suspects.case import Case
from flowdiag.analyses.flink.tasks.pressure import median, view_during
from flowdiag.analyses.flink.tasks.stall import job_stall
from flowdiag.analyses.model.derived import once

LEAST_MS: Final = 60_000.0
"""Minimum age. Shorter waits are common, for example with a large snapshot or a moment of back pressure."""
TIMES: Final = 3.0
"""Minimum age of an overdue checkpoint, as a multiple of the longest completed checkpoint or, if none completed, of
the interval.
"""
YOUNG_MS: Final = 10_000.0
"""Minimum age. A single checkpoint that is younger may simply be slow."""
SHORT: Final = 0.02
"""Maximum share of the interval that a short checkpoint takes."""
_ENDINGS: Final = (
    "cancelled",
    "finished",
    "job-failure",
    "coordinator-stopped",
    "restart",
    "restored",
    "leadership",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The checkpoint in progress at the end of the input.

    Args:
        checkpoint: the checkpoint.
        until_us: when the input last shows it in progress.
        reference_ms: the duration of the longest completed checkpoint, or else the interval.
        median_ms: the median duration of completed checkpoints.
    """

    checkpoint: h.Checkpoint
    until_us: int
    reference_ms: float | None
    median_ms: float | None = None

    @property
    def age_ms(self) -> float:
        return (self.until_us - (self.checkpoint.triggered_us or 0)) / 1000

    def limit_ms(self, times: float = TIMES, least_ms: float = LEAST_MS) -> float:
        """Return the age from which the checkpoint is overdue, in ms."""
        return max(least_ms, times * (self.reference_ms or 0.0))

    def may_hang(self, interval_ms: float | None, *, at_end_of_log: bool) -> bool:
        """Return whether the checkpoint may hang, because it is old or because the log ends while it is in progress.

        If checkpoints usually take a small part of the interval, a log rarely ends during one by chance.
        """
        reference = self.reference_ms or 0.0
        if self.age_ms >= max(YOUNG_MS, TIMES * reference):
            return True
        short = self.median_ms is not None and self.median_ms <= SHORT * (interval_ms or 0.0)
        return at_end_of_log and short and self.age_ms <= reference


@once
def pending(job: h.Job) -> Pending | None:
    """Return the last checkpoint if it is in progress and no event of the job ended it.

    The result is None if the JobManager's log has a gap after the trigger, because the missing lines may contain its
    end.
    """
    last = _last_in_progress(job)
    if last is None:
        return None
    since = last.triggered_us or 0
    until = _in_progress_until(job, since)
    if until < (job.last_us or since) and not job.cluster.has_rest:
        return None
    took = [ms for c in job.completed if not c.is_savepoint and (ms := h.elapsed_ms(c)) is not None]
    return Pending(
        checkpoint=last,
        until_us=until,
        reference_ms=max(took, default=job.interval_ms),
        median_ms=median(took),
    )


def _last_in_progress(job: h.Job) -> h.Checkpoint | None:
    waiting = [c for c in job.in_order if c.status is h.Status.IN_FLIGHT]
    last = waiting[-1] if waiting else None
    if last is None or last.triggered_us is None or job.last_us is None:
        return None
    since = last.triggered_us
    if any(i.time_us is None or i.time_us >= since for i in h.incidents(job, *_ENDINGS)):
        return None
    later = (c for c in job.checkpoints if (c.run, c.id) > (last.run, last.id))
    return None if any(c.status is not last.status for c in later) else last


def _in_progress_until(job: h.Job, since_us: int) -> int:
    """Return when the JobManager last reported the checkpoint as in progress.

    A collection does not store unchanged responses again, but it stores metrics at every tick.
    """
    # Other jobs of a session cluster may continue to write to the log.
    ends = [
        process.last_us
        for process in job.cluster.processes
        if process.role == "jobmanager" and process.last_us is not None
    ]
    end = max([job.last_us or since_us, *ends])
    until = jobmanager_logged_until(job.cluster, since_us, end)
    logs = {process.source for process in job.cluster.processes}
    collected = [
        load.last_us
        for load in job.loads
        if load.last_us is not None and load.ref is not None and load.ref.source not in logs
    ]
    return max([until, *collected]) if job.cluster.has_rest else until


@once
def culprit(job: h.Job) -> NamedCulprit | None:
    """Return the culprit of the overdue checkpoint, or None if no checkpoint is overdue or no culprit is known.

    The checkpoint is judged as if it had expired at the end of the input. If no record moves, only the metrics of that
    time count, because a subtask that hangs received records earlier.
    """
    found = pending(job)
    if found is None or found.age_ms < found.limit_ms():
        return None
    expired = replace(
        found.checkpoint,
        status=h.Status.EXPIRED,
        ended_us=found.until_us,
        duration_ms=round(found.age_ms),
    )
    episode = h.Episode(
        job=job.key,
        checkpoints=(expired,),
        recovered=None,
        warm_up=False,
        since_us=expired.triggered_us,
    )
    stall = job_stall(job)
    since = expired.triggered_us or 0
    since = since if stall is None else max(since, stall.since_us)
    return find_culprit(Case(job, episode, view_during(job, since, found.until_us), fewest=1))


def hours_without_checkpoint(job: h.Job) -> float | None:
    """Return how many hours tasks ran without a checkpoint. The result is None if there are checkpoints, or if
    the JobManager's log is missing.
    """
    deployed = [a.deployed_us for a in job.attempts if a.deployed_us is not None]
    end = ended_or_last(job)
    if job.checkpoints or not job.cluster.has_jobmanager_log or not deployed or end is None:
        return None
    begun = min(deployed)
    return (jobmanager_logged_until(job.cluster, begun, end) - begun) / 3_600_000_000
