"""Finds signs that the JobManager itself paused: heartbeat timeouts, late expiries, bursts of triggers, long gaps."""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.episodes import beginnings
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.settings import INTERVAL_KEYS, setting, trigger_gaps_ms
from flowdiag.analyses.flink.tasks.pressure import median
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.keys import Ref

# Incidents that explain a gap between checkpoints.
_EXCUSES: Final = frozenset(
    {"task-failure", "job-failing", "not-triggered", "cancelled", "savepoint", "suspended"}
)


@dataclass(frozen=True, slots=True)
class Gap:
    """A pause between two checkpoints. `caught_up` counts the triggers within one interval after the pause."""

    before: h.Checkpoint
    after: h.Checkpoint
    caught_up: int = 0

    @property
    def ms(self) -> float:
        """The time from the end of the first checkpoint to the next trigger."""
        begin = self.before.ended_us or self.before.triggered_us or 0
        return ((self.after.triggered_us or 0) - begin) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """The signs that the JobManager of a job paused.

    Args:
        lapses: groups of heartbeats that timed out together.
        overdue: checkpoints that expired too late.
        bursts: gaps after which the missed triggers followed.
        gaps: pauses without a known reason, which are only a hint in addition to the other signs.
    """

    lapses: list[list[h.Incident]]
    overdue: list[h.Checkpoint]
    bursts: list[Gap]
    gaps: list[Gap]

    @property
    def count(self) -> int:
        """The number of signs that prove a pause."""
        return len(self.lapses) + len(self.overdue) + len(self.bursts)

    @property
    def records(self) -> list[tuple[Ref | None, int | None]]:
        """The records of the signs that prove a pause, with their times."""
        return [
            *((i.ref, i.time_us) for group in self.lapses for i in group),
            *((c.end_ref, c.ended_us) for c in self.overdue),
            *((b.before.end_ref or b.before.trigger_ref, b.before.ended_us) for b in self.bursts),
            *((b.after.trigger_ref, b.after.triggered_us) for b in self.bursts),
        ]

    @property
    def gap_triggers(self) -> list[tuple[Ref | None, int | None]]:
        """The triggers before and after each gap."""
        return [(c.trigger_ref, c.triggered_us) for g in self.gaps for c in (g.before, g.after)]


@dataclass(frozen=True, slots=True)
class _UnassignedTaskManagers:
    """TaskManagers that no record assigns to a job, collected once for all jobs."""

    names: frozenset[str]
    lost: tuple[h.Incident, ...]
    registered: tuple[h.Incident, ...]


@once
def _unassigned(facts: h.ClusterFacts) -> _UnassignedTaskManagers:
    return _UnassignedTaskManagers(
        frozenset(_names_in(facts.incidents)),
        tuple(_lapsed_heartbeats(facts.incidents)),
        tuple(i for i in facts.incidents if i.kind == "taskmanager-registered"),
    )


def _names_in(incidents: Sequence[h.Incident]) -> set[str]:
    """Return the TaskManagers that registered or were lost."""
    kinds = ("taskmanager-registered", "taskmanager-lost")
    return {i.taskmanager for i in incidents if i.kind in kinds and i.taskmanager}


def _lapsed_heartbeats(incidents: Sequence[h.Incident]) -> list[h.Incident]:
    return [
        i
        for i in incidents
        if i.kind == "taskmanager-lost"
        and i.taskmanager
        and i.time_us is not None
        and "heartbeat" in (i.cause or "").lower()
    ]


def count_taskmanagers(job: h.Job) -> int:
    """Count all TaskManagers in the input."""
    placed = {attempt.taskmanager for attempt in job.attempts if attempt.taskmanager}
    return len(placed | _names_in(job.incidents) | _unassigned(job.cluster).names)


def lapse_groups(
    job: h.Job, *, taskmanagers: float, share: float, together_ms: float
) -> list[list[h.Incident]]:
    """Return groups of heartbeats that timed out within `together_ms`, each of enough TaskManagers.

    Args:
        job: the job and its cluster.
        taskmanagers, share: minimum number, and minimum share of all TaskManagers.
        together_ms: maximum time since the first timeout of the group.
    """
    lost = sorted(
        [*_lapsed_heartbeats(job.incidents), *_unassigned(job.cluster).lost],
        key=lambda incident: incident.time_us or 0,
    )
    if len(lost) < taskmanagers:
        return []
    groups: list[list[h.Incident]] = []
    for incident in lost:
        since = (incident.time_us or 0) - (groups[-1][0].time_us or 0) if groups else None
        if since is not None and since <= together_ms * 1000:
            groups[-1].append(incident)
        else:
            groups.append([incident])
    least = max(taskmanagers, share * count_taskmanagers(job))
    return [group for group in groups if len({i.taskmanager for i in group}) >= least]


def count_registered_again(job: h.Job, group: Sequence[h.Incident]) -> int:
    """Count the TaskManagers of a group that registered again, and so were never down."""
    registered = (
        *h.incidents(job, "taskmanager-registered"),
        *_unassigned(job.cluster).registered,
    )
    later = {
        i.taskmanager
        for i in registered
        if i.time_us is not None and i.time_us > (group[0].time_us or 0)
    }
    return len(later & {i.taskmanager for i in group})


def overdue_expiries(job: h.Job, *, overdue_ms: float, share: float) -> list[h.Checkpoint]:
    """Return the checkpoints that expired too late, by at least `overdue_ms` and by at least `share` of the timeout."""
    timeout = job.timeout_ms
    if timeout is None:
        return []
    latest = timeout + max(overdue_ms, timeout * share)
    return [
        c
        for c in job.in_order
        if c.status is h.Status.EXPIRED
        and c.ended_us is not None
        and c.triggered_us is not None
        and expired_after_ms(c) > latest
    ]


def expired_after_ms(checkpoint: h.Checkpoint) -> float:
    """Return the time from a checkpoint's trigger to its expiry."""
    return ((checkpoint.ended_us or 0) - (checkpoint.triggered_us or 0)) / 1000


def _gaps(checkpoints: Sequence[h.Checkpoint]) -> Iterator[Gap]:
    """Yield the gaps between consecutive checkpoints of the same run."""
    for before, after in pairwise(checkpoints):
        if before.run == after.run and after.id == before.id + 1:
            yield Gap(before, after)


def unexplained_gaps(job: h.Job, *, intervals: float) -> list[Gap]:
    """Return gaps of at least `intervals` after a completed checkpoint, without a restart or any other reason."""
    if not job.interval_ms:
        return []
    excuses = [i.time_us for i in job.incidents if i.kind in _EXCUSES and i.time_us is not None]
    breaks = sorted([*beginnings(job), *excuses])
    found = []
    for gap in _gaps([c for c in job.in_order if c.triggered_us is not None]):
        if gap.before.status is not h.Status.COMPLETED or gap.ms < intervals * job.interval_ms:
            continue
        low = gap.before.ended_us or gap.before.triggered_us or 0
        high = gap.after.triggered_us or 0
        if jobmanager_logged_until(job.cluster, low, high) < high:
            continue  # log lines are missing
        if bisect_left(breaks, low) >= bisect(breaks, high):
            found.append(gap)
    return found


def trigger_interval_ms(job: h.Job) -> float | None:
    """Return the configured interval or, if unknown, the median gap. Short gaps may belong to a burst of triggers."""
    known = setting(job, *INTERVAL_KEYS)
    if known is not None and known.source != "observed":
        return job.interval_ms
    return median(trigger_gaps_ms(job.checkpoints)) or None


def catch_up_bursts(job: h.Job, *, intervals: float, share: float) -> list[Gap]:
    """Return the gaps after which the missed triggers followed within one interval.

    Args:
        job: the job.
        intervals: minimum length of a gap.
        share: minimum share of the missed triggers that must follow right after the gap; at least two must follow.
    """
    interval = trigger_interval_ms(job)
    if not interval:
        return []
    periodic = [c for c in job.in_order if c.triggered_us is not None and not c.is_savepoint]
    places = {(c.run, c.id): place for place, c in enumerate(periodic)}
    found = []
    for gap in _gaps(periodic):
        if gap.before.ended_us is None or gap.ms < intervals * interval:
            continue
        due, after = gap.ms / interval, gap.after
        soon = (after.triggered_us or 0) + interval * 1000
        place = places[after.run, after.id]
        burst = 0
        for follower in periodic[place + 1 : place + 2 + int(due)]:
            if follower.run != after.run or (follower.triggered_us or 0) >= soon:
                break
            burst += 1
        if burst >= max(2, share * (due - 1)):
            found.append(Gap(gap.before, after, burst + 1))
    return found


def signal_texts(job: h.Job, found: Stalls, together_ms: float) -> dict[str, str | None]:
    """Return the text of each signal, in order."""
    texts: dict[str, str | None] = {}
    if found.lapses:
        last = found.lapses[-1]
        lost = len({i.taskmanager for i in last})
        texts["heartbeats-together"] = (
            f"{lost} heartbeats timed out within {together_ms / 1000:.0f} s"
        )
        if again := count_registered_again(job, last):
            texts["registered-again"] = f"{again} of them registered again"
    if found.overdue:
        took = h.fmt.duration(max(map(expired_after_ms, found.overdue)))
        texts["expiry-overdue"] = (
            f"a checkpoint expired after {took}, with a timeout of {h.fmt.duration(job.timeout_ms)}"
        )
    if found.bursts:
        longest = max(found.bursts, key=lambda burst: burst.ms)
        interval = h.fmt.duration(trigger_interval_ms(job))
        texts["triggers-caught-up"] = (
            f"no checkpoint was triggered for {h.fmt.duration(longest.ms)}, then "
            f"{longest.caught_up} within an interval of {interval}"
        )
    if found.gaps:
        pause = h.fmt.duration(max(gap.ms for gap in found.gaps))
        texts["gap-in-triggers"] = f"no checkpoint was triggered for {pause} ({len(found.gaps)}×)"
    return texts
