"""A job runs for a long time with fewer slots than it requests.

What it reports
---------------
The rule reports how many slots a job with the adaptive scheduler requests and uses, and how long the numbers
have differed.

Why it matters
--------------
The adaptive scheduler starts a job with the available slots, and waits for more without a warning. The job runs,
but more slowly than its configured parallelism suggests. The autoscaler's forecasts are wrong too.

How it decides
--------------
The requested slots are in the declared requirements (the ResourceManager's log or the REST response
`resource-requirements`). The number of used slots is the parallelism of the widest task in the current run,
provided that this many slots were allocated. The rule reports a difference that lasts at least `duration`.

False alarms
------------
In reactive mode a job requests as many slots as its maximum parallelism allows. The rule then does not apply.
"""

from typing import Final

from flowdiag.analyses.flink.settings import is_reactive
from flowdiag.analyses.startup import autoscaling
from flowdiag.analyses.startup import helpers as h


class Limits(h.Limits):
    duration: float = h.limit(
        60, "s", "minimum time with too few slots; TaskManagers may take this long to start"
    )


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each job that uses fewer slots than it requests."""
    usage = job.usage
    if usage is None or usage.used >= usage.desired:
        return
    if is_reactive(job.job):
        return
    lasts_ms = usage.lasts_ms
    if lasts_ms is None or lasts_ms < limits.duration * 1000:
        return
    reports = autoscaling.events_of(job.cluster, job).get("report", [])
    by = "the autoscaler requests" if reports else "the job requests"
    yield h.start_finding(
        job,
        ongoing=True,
        severity=h.Severity.WARNING,
        title=f"The job has run with {usage.used} of {usage.desired} requested slots "
        f"for {h.fmt.duration(lasts_ms)}",
        why=f"{by} {usage.desired} slots, but the job uses {usage.used}",
        cause="not-enough-slots",
        rank=h.Rank.ROOT_CAUSE,
        option="taskmanager.numberOfTaskSlots",
        first_us=usage.since_us,
        last_us=usage.last_us,
        count=1,
        explain="The adaptive scheduler runs the job with the available slots, and waits for more.",
        measurements=(
            h.measurement("requested-slots", usage.desired, "slots"),
            h.measurement("used-slots", usage.used, "slots", usage.desired),
            h.measurement("duration", lasts_ms, "ms", limits.duration * 1000),
        ),
        evidence=h.cite([(usage.ref, usage.since_us)]),
        actions=h.remedies("not-enough-slots", job.job, "taskmanagers", "slots"),
    )


RULE: Final = h.Rule("ST402", judge, Limits, causes=("not-enough-slots",), needs="rescales")
