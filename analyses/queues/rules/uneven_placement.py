"""One TaskManager runs too much of the job.

What it reports
---------------
The TaskManager that runs a multiple of its share of the job's working subtasks, with its processor at the limit.

Why it matters
--------------
Subtasks compete for the same cores; the machine looks slow and is only crowded.

How it decides
--------------
Subtasks `working` for some of the time per TaskManager: `ratio` times the mean of the others, and
`Status.JVM.CPU.Load` of `cpu` there while the others have `others-cpu` or less, on `samples` at least.

What to do
----------
Spread the slots: `cluster.evenly-spread-out-slots`, or slots of equal size per TaskManager.

False alarms
------------
TaskManagers of different size.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.pressure import WORKING
from flowdiag.analyses.queues import helpers as h

_SPREAD: Final = "cluster.evenly-spread-out-slots"


class Uneven(h.Limits):
    """What SK105 compares with."""

    ratio: float = h.limit(2, "ratio", "of the mean of the other TaskManagers")
    cpu: float = h.limit(0.9, "share", "of the machine's processors: nothing is left")
    others_cpu: float = h.limit(0.6, "share", "others have room")
    working: float = h.limit(WORKING, "share", "of the time: less is no work worth comparing")
    samples: float = h.limit(5, "samples", "single ones are racy")


def judge(job: h.JobQueues, limits: Uneven) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    working = Counter(
        load.taskmanager
        for load in h.loads_in(job).values()
        if load.taskmanager is not None and load.measured and (load.busy or 0) >= limits.working
    )
    cpu = {
        name: gauge.mean
        for name, each in job.machines.items()
        if (gauge := h.joined(m.gauges.get("cpu") for m in each)) is not None
        and gauge.n >= limits.samples
    }
    for name, count in working.most_common(1):
        others = [working.get(other, 0) for other in cpu if other != name]
        rest = h.median(load for other, load in cpu.items() if other != name)
        if not others or rest is None or name not in cpu:
            return
        mean = sum(others) / len(others)
        crowded = count >= limits.ratio * max(mean, 1.0)
        if crowded and cpu[name] >= limits.cpu and rest <= limits.others_cpu:
            yield _finding(job, name, (count, mean), (cpu[name], rest), limits)


def _finding(
    job: h.JobQueues,
    name: str,
    working: tuple[int, float],
    cpu: tuple[float, float],
    limits: Uneven,
) -> h.Finding:
    """Working subtasks and processor load are given there, and of the others."""
    place = h.place_of(job, name)
    spread = at_least(job.job.version, 1, 10) is not False
    return h.taskmanager_finding(
        job,
        name,
        severity=h.Severity.WARNING if h.tasks_wait(job) else h.Severity.INFO,
        title=f"{place} runs {working[0]} working subtasks, the others {working[1]:.1f} on average",
        why=f"{place}: {working[0]} working subtasks against {working[1]:.1f}, processor load "
        f"{h.fmt.percent(cpu[0])} against {h.fmt.percent(cpu[1])}",
        cause="slow-taskmanager",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.MECHANISM,
        explain="Its subtasks compete for the same cores while other TaskManagers have room.",
        measurements=(
            h.measurement(
                "working-subtasks", working[0], "subtasks", round(limits.ratio * working[1], 1)
            ),
            h.measurement("cpu-load", round(cpu[0], 3), "share", limits.cpu),
        ),
        evidence=h.records_of(job.machines[name], "cpu"),
        actions=(
            h.Action(
                text="Spread slots evenly over the TaskManagers",
                option=_SPREAD if spread else None,
                proposed=h.write(_SPREAD, True) if spread else None,
                restart_needed=True,
            ),
        ),
    )


RULE: Final = h.Rule("SK105", judge, Uneven, causes=("slow-taskmanager",))
