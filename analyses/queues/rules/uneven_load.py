"""One subtask takes in far more records than its siblings.

What it reports
---------------
The subtask that takes in most, how many times the mean of its siblings, and Flink's own score of skew.

Why it matters
--------------
It is the first that will not keep up when the load grows.

How it decides
--------------
Records in over all of the input: `ratio` times the mean of the siblings and more, at least `records`, in a job
in which nobody is slow; a subtask that is known to be busy for less than `idle` is not worth a word. The score is
the one of Flink's web interface (1.19 and later).

What to do
----------
Look at the keys, or at how partitions are assigned; nothing urgent.

False alarms
------------
Few records, few keys.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.pressure import IDLE, records_ratio
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.skew import skew_score


class Uneven(h.Limits):
    """What SK103 compares with."""

    ratio: float = h.limit(
        3, "ratio", "of the mean of its siblings; key groups alone give up to 1.5"
    )
    records: float = h.limit(1000, "records", "fewer say nothing about a ratio")
    idle: float = h.limit(IDLE, "share", "of the time; who is busy for less has nothing to do")


_CHECKPOINTS: Final = h.Action(
    text="If checkpoints are late for it: flowdiag checkpoints says what helps meanwhile",
    command="checkpoints",
)


def judge(job: h.JobQueues, limits: Uneven) -> h.Iterator[h.Finding]:
    """One remark per task of a job in which nobody is slow."""
    if h.find_spells(job):
        return  # what is uneven there follows from it, or is said with it
    for task, members in h.by_task(h.loads_in(job)).items():
        worst = max(members, key=lambda load: (load.records or 0.0, load.key))
        size = max(job.topology.parallelism.get(task, 0), len(members))
        ratio = records_ratio(worst, members, size)
        if ratio is None or ratio < limits.ratio or (worst.records or 0.0) < limits.records:
            continue
        if worst.busy is not None and worst.measured and worst.busy < limits.idle:
            continue
        yield _finding(job, worst, members, ratio, limits.ratio)


def _awaited(job: h.JobQueues, load: h.Load) -> bool:
    """Whether any task right before a subtask waits in any window."""
    before = job.topology.upstream.get(load.key.task, ())
    return any(
        other.waits and other.key.task in before
        for window in job.windows
        for other in h.loads_in(job, [window]).values()
    )


def _finding(
    job: h.JobQueues, worst: h.Load, members: list[h.Load], ratio: float, most: float
) -> h.Finding:
    score = skew_score(load.records for load in members if load.records is not None)
    return h.subtask_finding(
        job,
        worst.key,
        worst.taskmanager,
        title=f"{h.subtask_name(job, worst.key)} takes in {ratio:.1f} times the records of its siblings",
        cause="data-skew",
        actions=(*h.remedies("data-skew", job.job, "key"), _CHECKPOINTS),
        rank=h.Rank.SYMPTOM,
        explain="Those before it wait, so it has no room; too few samples, or none of all its subtasks, "
        "tell whether they wait for it."
        if _awaited(job, worst)
        else "Nobody waits for it yet: it has room. More data, and it is the first to be too slow.",
        measurements=(
            h.measurement("records-ratio", round(ratio, 2), "ratio", most),
            h.measurement(
                "skew-score",
                None if score is None else round(score, 1),
                "percent",
                over="Flink's own: 0 is even, 100 the most",
            ),
        ),
        evidence=h.cite([(worst.work, None)]),
    )


RULE: Final = h.Rule("SK103", judge, Uneven, causes=("data-skew",))
