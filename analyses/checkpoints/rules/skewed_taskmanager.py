"""Late subtasks cluster on one TaskManager.

What it reports
---------------
A TaskManager with more late or missing subtasks than expected from the number of its subtasks. The finding shows
how many were late, how many were expected, their ratio, and a p-value. The rule distinguishes three patterns: one
hot subtask (skewed data), a slow TaskManager (all its subtasks), or late subtasks spread across the job.

Why it matters
--------------
Engineers often blame the host with the most late messages, and are often wrong. A TaskManager also has more late
messages if it runs more subtasks of the affected tasks, or the victims downstream.

How it decides
--------------
In each series of expired checkpoints, every subtask that was late or missing counts once. The rule permutes the
late subtasks within each vertex, so that neither the placement nor victims downstream distort the result. The
p-value is exact and corrected for the number of TaskManagers. The rule reports a TaskManager if the ratio reaches
`ratio`, the p-value is at most `p`, and all informative late subtasks run there. A late subtask is informative if
other subtasks of its vertex were on time.

With few TaskManagers the p-value cannot be small. The distribution is then shown only in the report's table,
and the vote in CP201 uses the pattern instead of the p-value.

What to do
----------
Check the host's CPU, throttling, disk, garbage collection, network and noisy neighbors. Compare its subtasks
with subtasks of the same tasks on other TaskManagers.

False alarms
------------
None known. This rule never reports a single hot subtask, however often it is late.
"""

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.placement import (
    Pattern,
    Placement,
    Share,
    place_all,
    subtask_key,
)


class Limits(h.Limits):
    ratio: float = h.limit(1.5, "ratio", "minimum multiple of the expected number of late subtasks")
    p: float = h.limit(
        0.05, "probability", "maximum probability that this many subtasks are late by chance"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    placed = place_all(job)
    if placed.pattern is not Pattern.ONE_TASKMANAGER:
        return
    share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
    if share.ratio is None or share.p_value is None:
        return
    if share.ratio >= limits.ratio and share.p_value <= limits.p:
        yield _finding(job, placed, share, limits)


def _finding(job: h.Job, placed: Placement, share: Share, limits: Limits) -> h.Finding:
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    where = h.fmt.place(share.taskmanager, share.host)
    votes = h.votes_for(
        {
            "placement-p-value": f"{share.late} late, {h.fmt.number(share.expected or 0)} expected:"
            f" {h.fmt.chance(share.p_value or 0.0)}",
            "all-its-subtasks": f"all late subtasks whose siblings were on time run on {share.taskmanager}",
        },
        RULE.signals,
    )
    return h.episode_finding(
        job,
        series,
        sum(e.count(h.Status.EXPIRED) for e in series),
        subject=h.taskmanager_subject(job, share.taskmanager, share.host),
        title=f"{share.late} late subtasks on {where}, {h.fmt.number(share.expected or 0)} expected",
        why=f"{where}: {share.ratio} times as many late subtasks as expected;"
        f" {h.fmt.chance(share.p_value or 0.0)}",
        cause="slow-taskmanager",
        confidence=h.weigh(votes),
        rank=h.Rank.PLACE,
        count=share.late,
        explain=f"{placed.distinct} distinct subtasks were late. If only some subtasks of a task were late, all of "
        "them run there.",
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
    "CP202", judge, Limits, causes=("slow-taskmanager",), needs="ended-checkpoints"
)
