"""One TaskManager runs too many of the job's subtasks.

What it reports
---------------
A TaskManager with a saturated CPU that runs several times as many working subtasks of the job as the others.

Why it matters
--------------
The subtasks compete for the same cores. The host looks slow but is only overloaded.

How it decides
--------------
flowdiag counts the subtasks on each TaskManager that work for at least `working` of the time. One TaskManager must
have at least `ratio` times the mean of the others. In addition, its CPU load (`Status.JVM.CPU.Load`) must be at
least `cpu`, and the median of the others at most `others-cpu`, each over at least `samples` samples.

What to do
----------
Spread the slots evenly: set `cluster.evenly-spread-out-slots`, or use slots of equal size on all
TaskManagers.

False alarms
------------
A larger TaskManager runs more subtasks by design.
"""

from collections import Counter

from flowdiag.analyses.flink.options import is_at_least
from flowdiag.analyses.flink.tasks.pressure import WORKING
from flowdiag.analyses.queues import helpers as h

SPREAD = "cluster.evenly-spread-out-slots"


class Limits(h.Limits):
    ratio: float = h.limit(
        2, "ratio", "minimum number of subtasks, as a multiple of the other TaskManagers' mean"
    )
    cpu: float = h.limit(0.9, "share", "minimum CPU load; above it, almost no CPU is left")
    others_cpu: float = h.limit(
        0.6, "share", "maximum CPU load of the other TaskManagers; below it, CPU is left there"
    )
    working: float = h.limit(WORKING, "share", "minimum share of time that a counted subtask works")
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    working, cpu = _working_subtasks(job, limits), _cpu_loads(job, limits)
    for name, count in working.most_common(1):
        others = [working.get(other, 0) for other in cpu if other != name]
        rest = h.median(load for other, load in cpu.items() if other != name)
        if not others or rest is None or name not in cpu:
            return
        mean = sum(others) / len(others)
        crowded = count >= limits.ratio * max(mean, 1.0)
        if crowded and cpu[name] >= limits.cpu and rest <= limits.others_cpu:
            yield _finding(job, name, (count, mean), (cpu[name], rest), limits)


def _working_subtasks(job: h.JobQueues, limits: Limits) -> Counter[str]:
    """Count the working subtasks on each TaskManager."""
    return Counter(
        load.taskmanager
        for load in h.loads_in(job).values()
        if load.taskmanager is not None and load.measured and (load.busy or 0) >= limits.working
    )


def _cpu_loads(job: h.JobQueues, limits: Limits) -> dict[str, float]:
    """Return the mean CPU load of each TaskManager with enough samples."""
    gauges = {name: h.merged_gauge(reports, "cpu") for name, reports in job.taskmanagers.items()}
    return {name: g.mean for name, g in gauges.items() if g is not None and g.n >= limits.samples}


def _finding(
    job: h.JobQueues,
    name: str,
    working: tuple[int, float],
    cpu: tuple[float, float],
    limits: Limits,
) -> h.Finding:
    """Return the finding. `working` and `cpu` contain the value of this TaskManager and the average of the others."""
    (count, mean), (load, rest) = working, cpu
    place = h.place_of(job, name)
    spread = is_at_least(job.job.version, 1, 10) is not False
    return h.taskmanager_finding(
        job,
        name,
        severity=h.Severity.WARNING if h.tasks_wait(job) else h.Severity.INFO,
        title=f"{place} runs {count} working subtasks, the others {mean:.1f} on average",
        why=f"{place}: {count} working subtasks compared with {mean:.1f}, CPU load "
        f"{h.fmt.percent(load)} compared with {h.fmt.percent(rest)}",
        cause="slow-taskmanager",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.MECHANISM,
        explain="Its subtasks compete for the same cores while other TaskManagers have CPU to spare.",
        measurements=(
            h.measurement("working-subtasks", count, "subtasks", round(limits.ratio * mean, 1)),
            h.measurement("cpu-load", round(load, 3), "share", limits.cpu),
        ),
        evidence=h.records_of(job.taskmanagers[name], "cpu"),
        actions=(
            h.Action(
                text="Spread slots evenly over the TaskManagers",
                option=SPREAD if spread else None,
                proposed=h.write(SPREAD, True) if spread else None,
                restart_needed=True,
            ),
        ),
    )


RULE = h.Rule("SK105", judge, Limits, causes=("slow-taskmanager",), needs="task-metrics")
