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

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.placement import Pattern, Placement, Share, place_all, subtask_key


class Skewed(h.Limits):
    """What CP202 compares with."""

    ratio: float = h.limit(1.5, "ratio", "half as many again as its share of the subtasks explains")
    p: float = h.limit(
        0.05, "probability", "one in twenty healthy jobs at most, corrected for the table"
    )


def judge(job: h.Job, limits: Skewed) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    placed = place_all(job)
    if placed.pattern is not Pattern.ONE_TASKMANAGER:
        return
    share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
    if share.ratio is None or share.p_value is None:
        return
    if share.ratio >= limits.ratio and share.p_value <= limits.p:
        yield _finding(job, placed, share, limits)


def _finding(job: h.Job, placed: Placement, share: Share, limits: Skewed) -> h.Finding:
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    where = h.fmt.place(share.taskmanager, share.host)
    votes = h.votes_for(
        {
            "placement-p-value": f"{share.late} late, {h.fmt.number(share.expected or 0)} expected:"
            f" {h.fmt.chance(share.p_value or 0.0)}",
            "all-its-subtasks": f"the late subtasks that stand out all run on {share.taskmanager}",
        },
        RULE.signals,
    )
    return h.episode_finding(
        job,
        series,
        sum(e.count(h.Status.EXPIRED) for e in series),
        subject=h.taskmanager_subject(job, share.taskmanager, share.host),
        title=f"{share.late} late subtasks on {where}, {h.fmt.number(share.expected or 0)} expected",
        why=f"{where}: {share.ratio} times the late subtasks its share explains;"
        f" {h.fmt.chance(share.p_value or 0.0)}",
        cause="slow-taskmanager",
        confidence=h.weigh(votes),
        rank=h.Rank.PLACE,
        count=share.late,
        explain=f"All late subtasks that tell anything run there, of {placed.distinct} distinct late "
        "ones. Subtasks of the same tasks on other TaskManagers were in time.",
        measurements=(
            h.measurement("late-subtasks", share.late, "subtasks"),
            h.measurement("expected-late-subtasks", share.expected, "subtasks"),
            h.measurement(
                "late-ratio",
                share.ratio,
                "ratio",
                limits.ratio,
                over="late subtasks permuted within each vertex",
            ),
            h.measurement(
                "p-value",
                share.p_value,
                "probability",
                limits.p,
                over=f"{len(placed.shares)} TaskManagers",
            ),
        ),
        evidence=h.cite(
            (item.ref, item.received_us)
            for item in job.late
            if item.expired
            and subtask_key(item.attempt) is not None
            and (item.attempt.taskmanager or item.attempt.host) == share.taskmanager
        ),
        actions=h.remedies("slow-taskmanager", job, "look-at-machine", place=where),
        votes=votes,
    )


RULE: Final = h.Rule(
    "CP202",
    judge,
    Skewed,
    signals=(
        h.Signal("placement-p-value", 2, "the exact p-value is below the threshold"),
        h.Signal("all-its-subtasks", 1, "(nearly) all subtasks of the vertices there are late"),
    ),
    causes=("slow-taskmanager",),
)
