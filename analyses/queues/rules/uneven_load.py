"""One subtask receives far more records than its siblings.

What it reports
---------------
The subtask that receives the most records, the ratio to the mean of its siblings, and Flink's skew score.

Why it matters
--------------
This subtask is the first to fall behind when the load grows.

How it decides
--------------
Over the whole input, the subtask receives at least `records`, and at least `ratio` times as many as its siblings
on average. The reported ratio covers only the windows in which the subtask received at least twice as many. The
rule only applies to jobs without a slow task. If the busy time of the subtask is known, it must be
at least `idle`. The score is the same as in Flink's Web UI (1.19 and later).

What to do
----------
Check the keys, or how the partitions are assigned. This is not urgent.

False alarms
------------
With few records or few keys, an uneven distribution is normal.
"""

from flowdiag.analyses.flink.tasks.pressure import IDLE, Load, records_ratio
from flowdiag.analyses.flink.tasks.shares import data_share
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.skew import skew_score


class Limits(h.Limits):
    ratio: float = h.limit(
        3, "ratio", "minimum ratio of records to the siblings' mean; key groups cause up to 1.5"
    )
    records: float = h.limit(1000, "records", "minimum number of records for a meaningful ratio")
    idle: float = h.limit(
        IDLE, "share", "minimum share of time that a subtask is busy; below it, the subtask is idle"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one note per task of a job without a slow task."""
    if h.find_spells(job):
        return  # the unevenness follows from the slow task, or is reported with it
    for task, members in h.by_task(h.loads_in(job)).items():
        worst = max(members, key=lambda load: (load.records or 0.0, load.key))
        size = max(job.topology.parallelism.get(task, 0), len(members))
        if not _is_uneven(worst, members, size, limits):
            continue
        share = data_share(h.task_windows(job, task), worst, members, size, "")
        score = skew_score(load.records for load in members if load.records is not None)
        yield h.subtask_finding(
            job,
            worst.key,
            worst.taskmanager,
            title=f"{h.subtask_name(job, worst.key)} receives {share.text}",
            cause="data-skew",
            actions=(
                *h.remedies("data-skew", job.job, "key"),
                *h.shared_remedies(job.job, "stopgaps"),
            ),
            rank=h.Rank.SYMPTOM,
            explain=h.text("SK103.awaited")
            if _is_awaited(job, task)
            else "No task waits for it yet. It is the first to fall behind when the load grows.",
            measurements=(
                h.measurement("records-ratio", round(share.ratio, 2), "ratio", limits.ratio),
                h.measurement(
                    "skew-score",
                    None if score is None else round(score, 1),
                    "percent",
                    over="Flink's score: 0 is even, 100 the maximum",
                ),
            ),
            evidence=h.cite([(worst.work, None)]),
        )


def _is_uneven(worst: Load, members: h.Sequence[Load], size: int, limits: Limits) -> bool:
    """Return whether a subtask receives far more records than its siblings, and is not idle."""
    ratio = records_ratio(worst, members, size)
    if ratio is None or ratio < limits.ratio or (worst.records or 0.0) < limits.records:
        return False
    return worst.busy is None or not worst.measured or worst.busy >= limits.idle


def _is_awaited(job: h.JobQueues, task: str) -> bool:
    """Return whether a task directly upstream waits in any window."""
    upstream = job.topology.upstream.get(task, ())
    return any(
        load.waits and load.key.task in upstream
        for window in job.windows
        for load in h.loads_in(job, [window]).values()
    )


RULE = h.Rule("SK103", judge, Limits, causes=("data-skew",), needs="task-metrics")
