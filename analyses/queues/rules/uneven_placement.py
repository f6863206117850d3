"""One TaskManager runs too much of the job.

What it reports
---------------
The TaskManager that runs twice its share of the job's working subtasks, with its processor at the limit.

Why it matters
--------------
Subtasks compete for the same cores; the machine looks slow and is only crowded.

How it decides
--------------
Subtasks that work (10 % of the time and more) per TaskManager against the mean of the others, and
`Status.JVM.CPU.Load` of 90 % there while the others have 60 % or less. Five samples at least.

What to do
----------
Spread the slots: `cluster.evenly-spread-out-slots`, or slots of equal size per TaskManager.

False alarms
------------
TaskManagers of different size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES, WORKING, median
from flowdiag.analyses.queues.facts import JobQueues, joined
from flowdiag.analyses.queues.judging import host_of, machine
from flowdiag.analyses.queues.root import loads_in
from flowdiag.analyses.rule import Limits, Rule, limit


class UnevenPlacementLimits(Limits):
    """What SK105 compares with."""

    ratio: float = limit(2, "ratio", "of the mean of the other TaskManagers")
    cpu: float = limit(0.9, "share", "of the machine's processors: nothing is left")
    others_cpu: float = limit(0.6, "share", "others have room")


def judge(job: JobQueues, limits: UnevenPlacementLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    working = Counter(
        load.taskmanager
        for load in loads_in(job).values()
        if load.taskmanager is not None and load.measured and (load.busy or 0) >= WORKING
    )
    cpu = {
        name: gauge.mean
        for name, each in job.machines.items()
        if (gauge := joined(m.gauges.get("cpu") for m in each)) is not None
        and gauge.n >= ENOUGH_SAMPLES
    }
    for name, count in working.most_common(1):
        others = [working.get(other, 0) for other in cpu if other != name]
        rest = median(load for other, load in cpu.items() if other != name)
        if not others or rest is None or name not in cpu:
            continue
        mean = sum(others) / len(others)
        if (
            count >= limits.ratio * max(mean, 1.0)
            and cpu[name] >= limits.cpu
            and rest <= limits.others_cpu
        ):
            yield _finding(job, name, count, mean, cpu[name], rest, limits)


def _finding(
    job: JobQueues,
    name: str,
    count: int,
    mean: float,
    cpu: float,
    rest: float,
    limits: UnevenPlacementLimits,
) -> Finding:
    place = j.place_text(name, host_of(job, name))
    waits = any(load.waits and load.wait_measured for load in loads_in(job).values())
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING if waits else Severity.INFO,
        state=State.ONGOING,
        subject=machine(job, name),
        title=f"{place} runs {count} working subtasks, the others {mean:.1f} on average",
        why=f"{place}: {count} working subtasks against {mean:.1f}, processor load {100 * cpu:.0f} % "
        f"against {100 * rest:.0f} %",
        cause="slow-taskmanager",
        confidence=Confidence.MEDIUM,
        rank=Rank.MECHANISM,
        explain="Its subtasks compete for the same cores while other TaskManagers have room.",
        measurements=(
            Measurement(
                name="working-subtasks",
                value=count,
                unit="subtasks",
                threshold=round(limits.ratio * mean, 1),
            ),
            Measurement(name="cpu-load", value=round(cpu, 3), unit="share", threshold=limits.cpu),
        ),
        evidence=cite((m.ref, m.first_us) for m in job.machines[name][-1:]),
        actions=(
            Action(
                text="Spread slots evenly over the TaskManagers",
                option="cluster.evenly-spread-out-slots"
                if at_least(job.job.version, 1, 10) is not False
                else None,
                proposed="true" if at_least(job.job.version, 1, 10) is not False else None,
                restart_needed=True,
            ),
        ),
    )


RULE: Final = Rule("SK105", judge, UnevenPlacementLimits)
