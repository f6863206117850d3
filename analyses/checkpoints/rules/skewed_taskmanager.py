"""Late subtasks gather on one TaskManager.

What it reports
---------------
A TaskManager that has more late or missing subtasks than the number of its subtasks explains: how
many, how many were expected, their ratio, and a p-value. It also says which of three pictures it is:
one hot subtask (skewed data), a slow machine (all its subtasks), or lateness spread over the job.

Why it matters
--------------
"Most late messages come from one machine" is how people find a slow machine by hand, and how they
are misled: a TaskManager that runs more of the sick tasks has more late messages, and so has the one
with the victims downstream.

How it decides
--------------
One observation is one distinct subtask that was late or missing in one episode. Within each vertex
the late ones are permuted over its subtasks; that keeps placement and downstream victims out. The
p-value is exact and corrected for the number of TaskManagers. It is reported when the ratio reaches
`ratio`, the p-value `p`, and the late subtasks that tell anything sit on that TaskManager alone. With
few TaskManagers p cannot be small: then the table in the report is all there is, and the vote of
CP201 uses the picture, not the p-value.

What to do
----------
Look at the machine: CPU, throttling, disk, garbage collection, network, neighbours. Compare the same
tasks' subtasks elsewhere.

False alarms
------------
One hot subtask is never reported here, however often it is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Subject,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded, episodes
from flowdiag.analyses.flink.job import JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.placement import Pattern, Placement, Share, place_all, subtask_key
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class SkewedTaskmanagerLimits(Limits):
    """What CP202 compares with."""

    ratio: float = limit(1.5, "ratio", "half as many again as its share of the subtasks explains")
    p: float = limit(
        0.05, "probability", "one in twenty healthy jobs at most, corrected for the table"
    )


def judge(job: Job, limits: SkewedTaskmanagerLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    placed = place_all(job)
    if placed.pattern is not Pattern.ONE_TASKMANAGER:
        return
    share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
    if (
        share.ratio is not None
        and share.ratio >= limits.ratio
        and share.p_value is not None
        and share.p_value <= limits.p
    ):
        yield _finding(job, placed, share, limits)


def _finding(
    job: JobFacts, placed: Placement, share: Share, limits: SkewedTaskmanagerLimits
) -> Finding:
    series = [e for e in episodes(job) if e.count(Status.EXPIRED)]
    expired = sum(e.count(Status.EXPIRED) for e in series)
    votes = (
        Vote(
            signal="placement-p-value",
            says=f"{share.late} late, {share.expected} expected: p = {share.p_value}",
            weight=2,
        ),
        Vote(
            signal="all-its-subtasks",
            says=f"the late subtasks that stand out all run on {share.taskmanager}",
            weight=1,
        ),
    )
    late = [
        item
        for item in job.late
        if item.expired
        and subtask_key(item.attempt) is not None
        and (item.attempt.taskmanager or item.attempt.host) == share.taskmanager
    ]
    cited = cite((item.ref, item.received_us) for item in late)
    where = j.place_text(share.taskmanager, share.host)
    return Finding(
        job=job.key,
        severity=j.severity_of(job, series, expired, len(concluded(job))),
        state=j.state_of(series),
        subject=Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=share.taskmanager,
            host=share.host,
        ),
        title=f"{share.late} late subtasks on {where}, {share.expected} expected",
        why=f"{where}: {share.ratio} times the late subtasks its share explains (p = {share.p_value})",
        cause="slow-taskmanager",
        confidence=weigh(votes),
        rank=Rank.PLACE,
        first_us=series[0].first_us if series else None,
        last_us=series[-1].last_us if series else None,
        count=share.late,
        explain=(
            f"All late subtasks that tell anything run there, of {placed.distinct} distinct late "
            "ones. Subtasks of the same tasks on other TaskManagers were in time."
        ),
        measurements=(
            Measurement(name="late-subtasks", value=share.late, unit="subtasks"),
            Measurement(name="expected-late-subtasks", value=share.expected, unit="subtasks"),
            Measurement(
                name="late-ratio",
                value=share.ratio,
                unit="ratio",
                threshold=limits.ratio,
                population="late subtasks permuted within each vertex",
            ),
            Measurement(
                name="p-value",
                value=share.p_value,
                unit="probability",
                threshold=limits.p,
                population=f"{len(placed.shares)} TaskManagers",
            ),
        ),
        evidence=cited,
        actions=(
            Action(
                text=f"Look at the machine ({where}): CPU, throttling, disk, garbage collection, "
                "network, neighbours; then take it out of service",
                risk="its subtasks are restarted elsewhere",
                restart_needed=True,
                verify="the same subtasks are in time on another machine",
            ),
        ),
        votes=votes,
    )


RULE: Final = Rule(
    "CP202",
    judge,
    SkewedTaskmanagerLimits,
    signals=(
        Signal("placement-p-value", 2, "the exact p-value is below the threshold"),
        Signal("all-its-subtasks", 1, "(nearly) all subtasks of the vertices there are late"),
    ),
)
