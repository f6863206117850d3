"""The cluster has fewer slots than the job requires.

What it reports
---------------
The rule reports how many slots the job requires and how many it received, from how many TaskManagers. It also
names the setting to change.

Why it matters
--------------
On a standalone cluster, a start with too few slots fails within seconds. On YARN and Kubernetes, and with
the adaptive scheduler, the job waits. No log line shows both the required and the offered slots.

How it decides
--------------
The rule compares the declared requirements (before Flink 1.13, the slot requests) with the allocated slots
and the message about acquired slots. If another failure came first, such as a lost TaskManager, the missing
slots are a consequence and rank lower.

What to do
----------
Configure more slots per TaskManager, start more TaskManagers, or reduce the parallelism. With slot
sharing, a job needs as many slots as its widest vertex has subtasks.

False alarms
------------
Some TaskManagers may just be slow to register. ST203 reports late TaskManagers.
"""

from typing import Final

from flowdiag.analyses.flink.failures.crises import crises
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.slots import is_short, slot_numbers, slots_each
from flowdiag.parsers.flink.failures import failure_kind


def judge(job: h.JobStarting, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each job with too few slots."""
    refusals = [
        incident
        for incident in job.job.incidents
        if "no-resource" in (incident.kind, failure_kind(incident.cause or ""))
    ]
    times = sorted(i.time_us for i in refusals if i.time_us)
    short = [start for start in job.starts if is_short(start, times)]
    if short:
        yield _finding(job, short, refusals)


def _finding(job: h.JobStarting, short: list[h.Start], refusals: list[h.Incident]) -> h.Finding:
    required, acquired = slot_numbers(job, short)
    taskmanagers = sum(bool(w.registered_us) for w in job.cluster.workers) or None
    roots = {crisis.root.kind for crisis in crises(job.job, job.cluster.common)}
    missing = "fewer" if acquired is None else acquired
    numbers = f"{required or '?'} required, {missing} acquired"
    title = f"Not enough slots: {numbers}"
    if taskmanagers:
        title += f", {h.fmt.plural(taskmanagers, 'TaskManager')} registered"
    numbered = [(start.slots.ref, None) for start in short if start.slots]
    refused = [(i.ref, i.time_us) for i in refusals]
    return h.start_finding(
        job,
        ongoing=short[-1] is next((s for s in reversed(job.starts) if s.tasks), None),
        title=title,
        why=f"slots: {numbers}",
        cause="not-enough-slots",
        # If another failure came first, it is the reason why slots are missing.
        rank=h.Rank.REPETITION if roots - {"no-resource", "unknown"} else h.Rank.ROOT_CAUSE,
        option="taskmanager.numberOfTaskSlots",
        first_us=short[0].started_us,
        last_us=short[-1].started_us,
        count=len(short),
        explain="With slot sharing, a job needs as many slots as its widest vertex has subtasks.",
        measurements=(
            h.measurement("required-slots", required, "slots"),
            h.measurement("acquired-slots", acquired, "slots", required),
            h.measurement("taskmanagers", taskmanagers, "TaskManagers"),
        ),
        # Cite the numbers first, then the failures.
        evidence=h.cite([*numbered[:2], *refused[:6]]),
        evidence_total=len(h.cite([*numbered, *refused])),
        actions=h.remedies(
            "not-enough-slots",
            job.job,
            "slots",
            "taskmanagers",
            proposed={"slots": slots_each(job, required, acquired, taskmanagers)},
        ),
    )


RULE: Final = h.Rule(
    "ST201", judge, causes=("not-enough-slots",), needs="starts", severity=h.Severity.CRITICAL
)
