"""The JobManager stood still.

What it reports
---------------
Moments at which the heartbeats of most TaskManagers lapsed together, although the TaskManagers were
well, or at which a checkpoint expired long after its timeout was over.

Why it matters
--------------
A JobManager that pauses (garbage collection, a full disk, slow high-availability storage, a frozen
virtual machine) looks like many TaskManagers lost at once and like checkpoints that expire everywhere.
The machines that are blamed are innocent.

How it decides
--------------
At least `taskmanagers` of the TaskManagers, and at least `share` of them, lose their heartbeat within
`together`; a TaskManager that registers again under the same id was never gone, which raises the
confidence. Or a checkpoint expires `overdue` (and `overdue-share` of the timeout) too late: the timer
runs in the JobManager itself, and nobody else can hold it up. Or, after a pause of `made-up-gap` intervals without a
checkpoint in progress, `made-up` of the checkpoints that were due meanwhile are triggered within a single
interval: the timer of triggers keeps to its rate, and makes up for what it missed while it stood still.
Pauses of `gap` intervals between checkpoints,
without a restart and without a checkpoint in progress, are a hint beside one of these, since sources
that read a backlog may ask for them.

What to do
----------
Look at the JobManager: its garbage collection log, its memory, its host, the latency of the
high-availability and checkpoint storage.

False alarms
------------
A network partition between the JobManager and its TaskManagers looks the same from its log; the
TaskManagers' logs tell the two apart.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.episodes import beginnings
from flowdiag.analyses.flink.judging import INTERVAL_KEYS, setting, trigger_gaps_ms
from flowdiag.analyses.flink.pressure import median
from flowdiag.analyses.flink.silences import jobmanager_logged_until
from flowdiag.analyses.model.derived import once


class Stalled(h.Limits):
    """What CP305 compares with."""

    taskmanagers: float = h.limit(3, "taskmanagers", "two can fail together by chance or by a rack")
    share: float = h.limit(0.6, "share", "most of the cluster")
    together: float = h.limit(10_000.0, "ms", "the heartbeat interval: one round of heartbeats")
    overdue: float = h.limit(
        10_000.0,
        "ms",
        "timers of a healthy JobManager are late by milliseconds, in a long collection by seconds",
    )
    overdue_share: float = h.limit(
        0.25, "share", "of the timeout: what is observed of long ones is less exact"
    )
    made_up: float = h.limit(
        0.5,
        "share",
        "of the triggers that were due in the pause, and two at least: one follows by chance",
    )
    made_up_gap: float = h.limit(
        3.0, "intervals", "a collection, or a pause between checkpoints, stretches a gap to two"
    )
    gap: float = h.limit(
        10.0, "intervals", "a pause between checkpoints stretches a gap to two or three intervals"
    )


def judge(job: h.Job, limits: Stalled) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    lapses = _lapses(job, limits)
    overdue = _overdue(job, limits)
    made_up = _made_up(job, limits)
    if lapses or overdue or made_up:
        yield _finding(job, lapses, overdue, _gaps(job, limits), made_up, limits)


def _taskmanagers(job: h.Job) -> int:
    """How many are known."""
    known = {a.taskmanager for a in job.attempts if a.taskmanager}
    others = _strangers(job.cluster).known
    return len(others) + len((known | _seen(job.incidents)) - others)


def _seen(records: h.Sequence[h.Incident]) -> set[str]:
    """TaskManagers that registered or were lost."""
    return {
        i.taskmanager
        for i in records
        if i.kind in ("taskmanager-registered", "taskmanager-lost") and i.taskmanager
    }


def _lost(records: h.Sequence[h.Incident]) -> list[h.Incident]:
    """Heartbeats that lapsed."""
    return [
        i
        for i in records
        if i.kind == "taskmanager-lost"
        and i.taskmanager
        and i.time_us is not None
        and "heartbeat" in (i.cause or "").lower()
    ]


@dataclass(frozen=True, slots=True)
class Strangers:
    """What of TaskManagers no record ties to a job: read once, however many jobs there are."""

    known: frozenset[str]
    lost: tuple[h.Incident, ...]
    registered: tuple[h.Incident, ...]


@once
def _strangers(facts: h.ClusterFacts) -> Strangers:
    return Strangers(
        frozenset(_seen(facts.incidents)),
        tuple(_lost(facts.incidents)),
        tuple(i for i in facts.incidents if i.kind == "taskmanager-registered"),
    )


def _lapses(job: h.Job, limits: Stalled) -> list[list[h.Incident]]:
    """Groups of heartbeats that lapsed together."""
    strangers = _strangers(job.cluster).lost
    lost = sorted([*_lost(job.incidents), *strangers], key=lambda i: i.time_us or 0)
    if len(lost) < limits.taskmanagers:
        return []
    found: list[list[h.Incident]] = []
    for incident in lost:
        since = (incident.time_us or 0) - (found[-1][0].time_us or 0) if found else None
        if since is not None and since <= limits.together * 1000:
            found[-1].append(incident)
        else:
            found.append([incident])
    enough = max(limits.taskmanagers, limits.share * _taskmanagers(job))
    return [group for group in found if len({i.taskmanager for i in group}) >= enough]


def _overdue(job: h.Job, limits: Stalled) -> list[h.Checkpoint]:
    """Checkpoints that expired too late."""
    timeout = job.timeout_ms
    if timeout is None:
        return []
    latest = timeout + max(limits.overdue, timeout * limits.overdue_share)
    return [
        c
        for c in job.in_order
        if c.status is h.Status.EXPIRED
        and c.ended_us is not None
        and c.triggered_us is not None
        and _took_ms(c) > latest
    ]


def _took_ms(checkpoint: h.Checkpoint) -> float:
    return ((checkpoint.ended_us or 0) - (checkpoint.triggered_us or 0)) / 1000


_EXCUSES: Final = frozenset(
    {"task-failure", "job-failing", "not-triggered", "cancelled", "savepoint", "suspended"}
)


def _gaps(job: h.Job, limits: Stalled) -> list[tuple[h.Checkpoint, h.Checkpoint]]:
    """Pairs of checkpoints with an unexplained pause between."""
    if not job.interval_ms:
        return []
    excuses = [i.time_us for i in job.incidents if i.kind in _EXCUSES and i.time_us is not None]
    breaks = sorted([*beginnings(job), *excuses])
    found = []
    for before, after in pairwise(c for c in job.in_order if c.triggered_us is not None):
        if before.run != after.run or after.id != before.id + 1:
            continue
        if before.status is not h.Status.COMPLETED:
            continue
        if _pause_ms(before, after) < limits.gap * job.interval_ms:
            continue
        low, high = before.ended_us or before.triggered_us or 0, after.triggered_us or 0
        if jobmanager_logged_until(job.cluster, low, high) < high:
            continue  # lines are missing
        if bisect_left(breaks, low) >= bisect(breaks, high):
            found.append((before, after))
    return found


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A pause, and how many triggers followed it at once."""

    before: h.Checkpoint
    after: h.Checkpoint
    triggers: int


def _rate_ms(job: h.Job) -> float | None:
    """The interval as configured, else the usual gap: the short ones are those that are in question."""
    known = setting(job, *INTERVAL_KEYS)
    if known is not None and known.source != "observed":
        return job.interval_ms
    return median(trigger_gaps_ms(job.checkpoints)) or None


def _made_up(job: h.Job, limits: Stalled) -> list[MadeUp]:
    """Pauses after which missed triggers were made up for."""
    interval = _rate_ms(job)
    if not interval:
        return []
    periodic = [c for c in job.in_order if c.triggered_us is not None and not c.is_savepoint]
    found = []
    for place, (before, after) in enumerate(pairwise(periodic), 1):
        if before.run != after.run or after.id != before.id + 1:
            continue
        pause = _pause_ms(before, after)
        if before.ended_us is None or pause < limits.made_up_gap * interval:
            continue
        due = pause / interval
        soon = (after.triggered_us or 0) + interval * 1000
        at_once = 0
        for follower in periodic[place + 1 : place + 2 + int(due)]:
            if follower.run != after.run or (follower.triggered_us or 0) >= soon:
                break
            at_once += 1
        if at_once >= max(2, limits.made_up * (due - 1)):
            found.append(MadeUp(before, after, at_once + 1))
    return found


def _pause_ms(before: h.Checkpoint, after: h.Checkpoint) -> float:
    return ((after.triggered_us or 0) - (before.ended_us or before.triggered_us or 0)) / 1000


def _finding(
    job: h.Job,
    lapses: list[list[h.Incident]],
    overdue: list[h.Checkpoint],
    gaps: list[tuple[h.Checkpoint, h.Checkpoint]],
    made_up: list[MadeUp],
    limits: Stalled,
) -> h.Finding:
    votes = _votes(job, lapses, overdue, gaps, made_up, limits)
    moments = [i.time_us for group in lapses for i in group if i.time_us is not None]
    moments += [c.ended_us for c in overdue if c.ended_us is not None]
    moments += [one.before.ended_us or 0 for one in made_up]
    moments += [one.after.triggered_us or 0 for one in made_up]
    recovered = job.completed_after(max(moments, default=0))
    state = h.State.RECOVERED if recovered else h.State.ONGOING
    times = len(lapses) + len(overdue) + len(made_up)
    return h.job_finding(
        job,
        subject=h.Subject(kind="process", job_id=job.key.job_id or None, job_name=job.name),
        state=state,
        severity=h.grade(state=state, share=times / max(1, len(job.checkpoints))),
        title=f"The JobManager stood still: {votes[0].text}",
        why=f"the JobManager: {votes[0].text}",
        cause="jobmanager-stalled",
        confidence=h.weigh(votes),
        rank=h.Rank.STANDSTILL,
        first_us=min(moments, default=None),
        last_us=max(moments, default=None),
        count=times,
        explain="When most heartbeats lapse in the same round, it is the one who listens that stood "
        "still, or the network to it."
        if lapses
        else "The timers of checkpoints run in the JobManager: that they fired so late is its own doing.",
        measurements=(
            h.measurement(
                "heartbeats-together",
                max((len(group) for group in lapses), default=0),
                "taskmanagers",
                limits.taskmanagers,
                over=f"{_taskmanagers(job)} TaskManagers",
            ),
            h.measurement("unexplained-gaps", len(gaps), "gaps"),
        ),
        evidence=h.cite(
            [(i.ref, i.time_us) for group in lapses for i in group]
            + [(c.end_ref, c.ended_us) for c in overdue]
            + [(c.end_ref or c.trigger_ref, c.ended_us) for c in (one.before for one in made_up)]
            + [(c.trigger_ref, c.triggered_us) for c in (one.after for one in made_up)]
            + [(c.trigger_ref, c.triggered_us) for pair in gaps for c in pair]
        ),
        ranked=True,
        actions=h.remedies("jobmanager-stalled", job),
        votes=votes,
    )


def _votes(
    job: h.Job,
    lapses: list[list[h.Incident]],
    overdue: list[h.Checkpoint],
    gaps: list[tuple[h.Checkpoint, h.Checkpoint]],
    made_up: list[MadeUp],
    limits: Stalled,
) -> tuple[h.Vote, ...]:
    longest = max(made_up, key=lambda one: _pause_ms(one.before, one.after), default=None)
    return h.votes_for(
        {
            "heartbeats-together": f"{len({i.taskmanager for i in lapses[-1]})} heartbeats lapsed "
            f"within {limits.together / 1000:.0f} s"
            if lapses
            else None,
            "registered-again": _registered_again(job, lapses[-1]) if lapses else None,
            "expiry-overdue": "a checkpoint expired after "
            f"{h.fmt.duration(max(_took_ms(c) for c in overdue))}, with a timeout of "
            f"{h.fmt.duration(job.timeout_ms)}"
            if overdue
            else None,
            "triggers-made-up": "nothing was triggered for "
            f"{h.fmt.duration(_pause_ms(longest.before, longest.after))}, then {longest.triggers} "
            f"checkpoints within an interval of {h.fmt.duration(_rate_ms(job))}"
            if longest is not None
            else None,
            "gap-in-triggers": "nothing was triggered for "
            f"{h.fmt.duration(max(_pause_ms(*pair) for pair in gaps))} ({len(gaps)}×)"
            if gaps
            else None,
        },
        RULE.signals,
    )


def _registered_again(job: h.Job, group: list[h.Incident]) -> str | None:
    """What says that those whose heartbeats lapsed were never gone."""
    strangers = _strangers(job.cluster).registered
    again = {
        i.taskmanager
        for i in (*h.incidents(job, "taskmanager-registered"), *strangers)
        if i.time_us is not None and i.time_us > (group[0].time_us or 0)
    } & {i.taskmanager for i in group}
    return f"{len(again)} of them registered again" if again else None


RULE: Final = h.Rule(
    "CP305",
    judge,
    Stalled,
    signals=(
        h.Signal("heartbeats-together", 2, "most heartbeats lapse within one round"),
        h.Signal("registered-again", 1, "the same TaskManagers register again soon after"),
        h.Signal(
            "expiry-overdue", 2, "a checkpoint expired long after its timeout: its timer came late"
        ),
        h.Signal(
            "triggers-made-up",
            3,
            "the triggers that were due in a pause follow all at once: the timer itself stood still",
        ),
        h.Signal(
            "gap-in-triggers", 1, "no checkpoint was triggered for many intervals, without cause"
        ),
    ),
    causes=("jobmanager-stalled",),
)
