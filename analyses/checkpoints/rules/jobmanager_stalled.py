"""The JobManager stood still.

What it reports
---------------
Moments at which the heartbeats of most TaskManagers lapsed together, although the TaskManagers were
well, or at which a checkpoint expired long after its time-out was over.

Why it matters
--------------
A JobManager that pauses (garbage collection, a full disk, slow high-availability storage, a frozen
virtual machine) looks like many TaskManagers lost at once and like checkpoints that expire everywhere.
The machines that are blamed are innocent.

How it decides
--------------
At least `taskmanagers` of the TaskManagers, and at least `share` of them, lose their heartbeat within
`together`; a TaskManager that registers again under the same id was never gone, which raises the
confidence. Or a checkpoint expires `overdue` (and a quarter of the time-out) too late: the timer runs in
the JobManager itself, and nobody else can hold it up. Pauses of `gap` intervals between checkpoints,
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.derived import once
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import beginnings, in_order, incidents
from flowdiag.analyses.flink.job import Checkpoint, ClusterFacts, Incident, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class JobmanagerStalledLimits(Limits):
    """What CP305 compares with."""

    taskmanagers: float = limit(3, "taskmanagers", "two can fail together by chance or by a rack")
    share: float = limit(0.6, "share", "most of the cluster")
    together: float = limit(10_000.0, "ms", "the heartbeat interval: one round of heartbeats")
    overdue: float = limit(
        10_000.0,
        "ms",
        "timers of a healthy JobManager are late by milliseconds, in a long collection by seconds",
    )
    gap: float = limit(
        10.0, "intervals", "a pause between checkpoints stretches a gap to two or three intervals"
    )


def judge(job: Job, limits: JobmanagerStalledLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    lapses = _lapses(job, job.cluster, limits)
    overdue = _overdue(job, limits)
    if lapses or overdue:
        gaps = _gaps(job, limits)
        yield _finding(job, job.cluster, lapses, overdue, gaps, limits)


def _taskmanagers(job: JobFacts, facts: ClusterFacts) -> int:
    """How many are known."""
    known = {a.taskmanager for a in job.attempts if a.taskmanager}
    others = _strangers(facts).known
    return len(others) + len((known | _seen(job.incidents)) - others)


def _seen(records: Iterable[Incident]) -> set[str]:
    """TaskManagers that registered or were lost."""
    return {
        i.taskmanager
        for i in records
        if i.kind in ("taskmanager-registered", "taskmanager-lost") and i.taskmanager
    }


def _lost(records: Iterable[Incident]) -> list[Incident]:
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
    lost: tuple[Incident, ...]
    registered: tuple[Incident, ...]


@once
def _strangers(facts: ClusterFacts) -> Strangers:
    return Strangers(
        frozenset(_seen(facts.incidents)),
        tuple(_lost(facts.incidents)),
        tuple(i for i in facts.incidents if i.kind == "taskmanager-registered"),
    )


def _lapses(
    job: JobFacts, facts: ClusterFacts, limits: JobmanagerStalledLimits
) -> list[list[Incident]]:
    """Groups of heartbeats that lapsed together."""
    lost = sorted([*_lost(job.incidents), *_strangers(facts).lost], key=lambda i: i.time_us or 0)
    if len(lost) < limits.taskmanagers:
        return []
    everybody = _taskmanagers(job, facts)
    found: list[list[Incident]] = []
    for incident in lost:
        if found and (incident.time_us or 0) - (found[-1][0].time_us or 0) <= (
            limits.together * 1000
        ):
            found[-1].append(incident)
        else:
            found.append([incident])
    return [
        group
        for group in found
        if len({i.taskmanager for i in group}) >= limits.taskmanagers
        and len({i.taskmanager for i in group}) >= limits.share * everybody
    ]


def _overdue(job: JobFacts, limits: JobmanagerStalledLimits) -> list[Checkpoint]:
    """Checkpoints that expired too late."""
    timeout = j.timeout_ms(job)
    if timeout is None:
        return []
    limit = timeout + max(limits.overdue, timeout / 4)
    return [
        c
        for c in in_order(job.checkpoints)
        if c.status is Status.EXPIRED
        and c.ended_us is not None
        and c.triggered_us is not None
        and (c.ended_us - c.triggered_us) / 1000 > limit
    ]


def _gaps(job: JobFacts, limits: JobmanagerStalledLimits) -> list[tuple[Checkpoint, Checkpoint]]:
    """Pairs of checkpoints with an unexplained pause between."""
    interval = j.interval_ms(job)
    if not interval:
        return []
    excuses = [i.time_us for i in job.incidents if i.kind in _EXCUSES and i.time_us is not None]
    breaks = sorted([*beginnings(job), *excuses])
    triggered = [c for c in in_order(job.checkpoints) if c.triggered_us is not None]
    found = []
    for before, after in pairwise(triggered):
        low = before.ended_us or before.triggered_us or 0
        high = after.triggered_us or 0
        if before.run != after.run or after.id != before.id + 1:
            continue
        if before.status is not Status.COMPLETED or (high - low) / 1000 < (limits.gap * interval):
            continue
        if bisect_left(breaks, low) >= bisect(breaks, high):
            found.append((before, after))
    return found


_EXCUSES: Final = frozenset(
    {"task-failure", "job-failing", "not-triggered", "cancelled", "savepoint", "suspended"}
)


def _finding(
    job: JobFacts,
    facts: ClusterFacts,
    lapses: Sequence[Sequence[Incident]],
    overdue: Sequence[Checkpoint],
    gaps: Sequence[tuple[Checkpoint, Checkpoint]],
    limits: JobmanagerStalledLimits,
) -> Finding:
    votes = []
    if lapses:
        count = len({i.taskmanager for i in lapses[-1]})
        votes.append(
            Vote(
                signal="heartbeats-together",
                says=f"{count} heartbeats lapsed within {limits.together / 1000:.0f} s",
                weight=2,
            )
        )
        again = {
            i.taskmanager
            for i in (*incidents(job, "taskmanager-registered"), *_strangers(facts).registered)
            if i.time_us is not None and i.time_us > (lapses[-1][0].time_us or 0)
        } & {i.taskmanager for i in lapses[-1]}
        if again:
            votes.append(
                Vote(
                    signal="registered-again",
                    says=f"{len(again)} of them registered again",
                    weight=1,
                )
            )
    if overdue:
        took = max(((c.ended_us or 0) - (c.triggered_us or 0)) / 1000 for c in overdue)
        votes.append(
            Vote(
                signal="expiry-overdue",
                says=f"a checkpoint expired after {j.duration_text(took)}, with a time-out of "
                f"{j.duration_text(j.timeout_ms(job))}",
                weight=2,
            )
        )
    if gaps:
        longest = max(
            ((b.triggered_us or 0) - (a.ended_us or a.triggered_us or 0)) / 1000 for a, b in gaps
        )
        votes.append(
            Vote(
                signal="gap-in-triggers",
                says=f"nothing was triggered for {j.duration_text(longest)} ({len(gaps)}×)",
                weight=1,
            )
        )
    moments = [i.time_us for group in lapses for i in group if i.time_us is not None]
    moments += [c.ended_us for c in overdue if c.ended_us is not None]
    last = max(moments, default=0)
    recovered = any(
        c.status is Status.COMPLETED and (c.ended_us or 0) > last for c in job.checkpoints
    )
    state = State.RECOVERED if recovered else State.ONGOING
    times = len(lapses) + len(overdue)
    cited = cite(
        [(i.ref, i.time_us) for group in lapses for i in group]
        + [(c.end_ref, c.ended_us) for c in overdue]
        + [(c.trigger_ref, c.triggered_us) for pair in gaps for c in pair]
    )
    heartbeat = option("heartbeat-timeout", job.version)
    return Finding(
        job=job.key,
        severity=grade(state=state, share=times / max(1, len(job.checkpoints))),
        state=state,
        subject=Subject(
            kind="process", job_id=job.key.job_id or None, job_name=job.name, operator=None
        ),
        title=f"The JobManager stood still: {votes[0].says}",
        why=f"the JobManager: {votes[0].says}",
        cause="jobmanager-stalled",
        confidence=weigh(votes),
        # Nearer to the root than the TaskManagers that seem to be lost.
        rank=Rank.STANDSTILL,
        first_us=min(moments, default=None),
        last_us=max(moments, default=None),
        count=times,
        explain=(
            "When most heartbeats lapse in the same round, it is the one who listens that stood still, or "
            "the network to it."
            if lapses
            else "The timer of a checkpoint runs in the JobManager: that it fired so late is its own doing."
        ),
        measurements=(
            Measurement(
                name="heartbeats-together",
                value=max((len(group) for group in lapses), default=0),
                unit="taskmanagers",
                threshold=limits.taskmanagers,
                population=f"{_taskmanagers(job, facts)} TaskManagers",
            ),
            Measurement(name="unexplained-gaps", value=len(gaps), unit="gaps"),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text="Look at the JobManager's pauses: garbage collection log, memory, host, storage of "
                "the high-availability service",
                option=option("jobmanager-memory", job.version),
                verify="no pause near the heartbeat time-out",
            ),
            Action(
                text="Only if the pauses cannot be avoided: a longer heartbeat time-out",
                option=heartbeat,
                current=j.configured(job, "heartbeat.timeout"),
                risk="a TaskManager that is really lost is noticed later",
                restart_needed=True,
            ),
        ),
        votes=tuple(votes),
    )


RULE: Final = Rule(
    "CP305",
    judge,
    JobmanagerStalledLimits,
    signals=(
        Signal("heartbeats-together", 2, "most heartbeats lapse within one round"),
        Signal("registered-again", 1, "the same TaskManagers register again soon after"),
        Signal(
            "gap-in-triggers", 1, "no checkpoint was triggered for many intervals, without cause"
        ),
    ),
)
