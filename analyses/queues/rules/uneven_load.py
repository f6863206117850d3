"""One subtask takes in far more records than its siblings.

What it reports
---------------
The subtask that takes in most, how many times the mean of its siblings, and Flink's own score of skew.

Why it matters
--------------
It is the first that will not keep up when the load grows.

How it decides
--------------
Records in over all of the input: three times the mean of the siblings and more, and a busy time or a share
of the work that makes it worth a word. The score is the one of Flink's web interface (1.19 and later).

What to do
----------
Look at the keys, or at how partitions are assigned; nothing urgent.

False alarms
------------
Few records, few keys: below a thousand records nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink.pressure import IDLE, Load, by_task, records_ratio
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import subtask
from flowdiag.analyses.queues.root import find_spells, loads_in, name_of
from flowdiag.analyses.queues.skew import skew_score
from flowdiag.analyses.rule import Limits, Rule, limit


class UnevenLoadLimits(Limits):
    """What SK103 compares with."""

    ratio: float = limit(3, "ratio", "of the mean of its siblings; key groups alone give up to 1.5")
    records: float = limit(1000, "records", "fewer say nothing about a ratio")


def judge(job: JobQueues, limits: UnevenLoadLimits) -> Iterator[Finding | Inconclusive]:
    """One remark per task of a job in which nobody is slow."""
    if find_spells(job):
        return  # what is uneven there follows from it, or is said with it
    for task, members in by_task(loads_in(job)).items():
        worst = max(members, key=lambda load: (load.records or 0.0, load.key))
        size = max(job.topology.parallelism.get(task, 0), len(members))
        ratio = records_ratio(worst, members, size)
        if ratio is None or ratio < limits.ratio:
            continue
        if (worst.records or 0.0) < limits.records:
            continue
        if worst.busy is not None and worst.measured and worst.busy < IDLE:
            continue
        yield _finding(job, worst, members, ratio, limits.ratio)


def _finding(
    job: JobQueues, worst: Load, members: list[Load], ratio: float, limit: float
) -> Finding:
    score = skew_score(load.records for load in members if load.records is not None)
    return Finding(
        job=job.job.key,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=subtask(job, worst.key, worst.taskmanager),
        title=f"{name_of(job, worst.key)} takes in {ratio:.1f} times the records of its siblings",
        cause="data-skew",
        confidence=Confidence.HIGH,
        rank=Rank.SYMPTOM,
        explain="Nobody waits for it yet: it has room. More data, and it is the first to be too slow.",
        measurements=(
            Measurement(name="records-ratio", value=round(ratio, 2), unit="ratio", threshold=limit),
            Measurement(
                name="skew-score",
                value=None if score is None else round(score, 1),
                unit="percent",
                population="Flink's own: 0 is even, 100 the most",
            ),
        ),
        evidence=cite([(worst.ref, None)]),
    )


RULE: Final = Rule("SK103", judge, UnevenLoadLimits)
