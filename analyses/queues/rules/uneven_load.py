"""One subtask receives far more records than its siblings.

What it reports
---------------
The subtask that receives most records, how many times the mean of its siblings, and Flink's skew score.

Why it matters
--------------
It is the first subtask to fall behind when the load grows.

How it decides
--------------
Records in over all of the input: at least `ratio` times the mean of the siblings and at least `records`, in a
job without a slow task. A subtask that is known to be busy for less than `idle` is not reported. The score is
the one in Flink's Web UI (1.19 and later).

What to do
----------
Check the keys, or how partitions are assigned. It is not urgent.

False alarms
------------
Few records, few keys.
"""

from __future__ import annotations

from flowdiag.analyses.flink.tasks.pressure import IDLE, records_ratio
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.skew import skew_score


class Uneven(h.Limits):
    """Thresholds of SK103."""

    ratio: float = h.limit(
        3, "ratio", "of the mean of its siblings; key groups alone cause up to 1.5"
    )
    records: float = h.limit(1000, "records", "a ratio of fewer records means nothing")
    idle: float = h.limit(IDLE, "share", "of the time; a subtask less busy than this is idle")


CHECKPOINTS = h.Action(
    text="If this subtask delays checkpoints, run `flowdiag checkpoints` for stopgaps",
    command="checkpoints",
)
AWAITED = (
    "Tasks upstream wait, so the subtask has no headroom. There are too few samples, or not all its "
    "subtasks have any, to determine whether they wait for this subtask."
)


def judge(job: h.JobQueues, limits: Uneven) -> h.Iterator[h.Finding]:
    """One note per task of a job without a slow task."""
    if h.find_spells(job):
        return  # the unevenness follows from the slow task, or is reported with it
    for task, members in h.by_task(h.loads_in(job)).items():
        worst = max(members, key=lambda load: (load.records or 0.0, load.key))
        size = max(job.topology.parallelism.get(task, 0), len(members))
        ratio = records_ratio(worst, members, size)
        if ratio is None or ratio < limits.ratio or (worst.records or 0.0) < limits.records:
            continue
        if worst.busy is not None and worst.measured and worst.busy < limits.idle:
            continue
        score = skew_score(load.records for load in members if load.records is not None)
        yield h.subtask_finding(
            job,
            worst.key,
            worst.taskmanager,
            title=f"{h.subtask_name(job, worst.key)} receives {ratio:.1f} times the records of its siblings",
            cause="data-skew",
            actions=(*h.remedies("data-skew", job.job, "key"), CHECKPOINTS),
            rank=h.Rank.SYMPTOM,
            explain=AWAITED
            if _is_awaited(job, task)
            else "No task waits for it yet. It is the first to fall behind when the load grows.",
            measurements=(
                h.measurement("records-ratio", round(ratio, 2), "ratio", limits.ratio),
                h.measurement(
                    "skew-score",
                    None if score is None else round(score, 1),
                    "percent",
                    over="Flink's score: 0 is even, 100 the maximum",
                ),
            ),
            evidence=h.cite([(worst.work, None)]),
        )


def _is_awaited(job: h.JobQueues, task: str) -> bool:
    """Return whether a task directly upstream waits in any window."""
    upstream = job.topology.upstream.get(task, ())
    return any(
        load.waits and load.key.task in upstream
        for window in job.windows
        for load in h.loads_in(job, [window]).values()
    )


RULE = h.Rule("SK103", judge, Uneven, causes=("data-skew",))
