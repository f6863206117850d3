"""A startup step is slow.

What it reports
---------------
The rule reports slow startup steps: cluster allocation, RPC, REST, leader election, submission,
registration and deployment.

Why it matters
--------------
A slow step delays the start of the job and every restart.

How it decides
--------------
A step is slow if it takes at least `duration`. Other rules cover the wait for slots and the initialization.

What to do
----------
For RPC and REST, check name resolution. For leader election, check ZooKeeper or the Kubernetes API. For the
submission, check the job's main(), the download of its JAR, and the recovery of the checkpoint store. For
the deployment, check how long the TaskManagers take to download the JAR files.

False alarms
------------
In a session cluster, the gap between two steps may be idle time. The rule therefore only times steps that
follow each other directly. It skips a step during which the JobManager's log is silent for ten minutes or more,
because log lines are probably missing. If only a TaskManager's log shows the deployments, and there are
several rounds, the rule times the last round.
"""

from typing import Final

from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until, logged_until
from flowdiag.analyses.startup import helpers as h

_JUDGED: Final = ("submission", "resource-manager", "deployment")


class Limits(h.Limits):
    duration: float = h.limit(
        30, "s", "minimum duration of a step; on an idle cluster, steps take seconds"
    )


def judge(facts: h.StartupFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each slow step of the cluster, and for each job and step the slowest start."""
    longest = limits.duration * 1000
    for step in facts.cluster_steps:
        if _took_ms(step) >= longest and not _has_hole(facts, step):
            yield _finding(None, step, longest)
    for job in facts.jobs:
        for name in _JUDGED:
            found = filter(None, (start.step(name) for start in job.starts))
            steps = (step for step in found if not _has_hole(facts, step))
            worst = max(steps, key=_took_ms, default=None)
            if worst is not None and _took_ms(worst) >= longest:
                yield _finding(job, worst, longest)


def _has_hole(facts: h.StartupFacts, step: h.Step) -> bool:
    """Return whether log lines are missing within a step, so that its start and end may belong to different starts."""
    if step.started_us is None or step.ended_us is None:
        return False
    begun, ended = step.started_us, step.ended_us
    by_jobmanager = jobmanager_logged_until(facts.common, begun, ended)
    return min(by_jobmanager, logged_until(facts.common, step.taskmanager, begun, ended)) < ended


def _took_ms(step: h.Step) -> int:
    """Return the duration of a step in ms. For registrations, that of the slowest TaskManager."""
    if step.name == "registration" and step.spread is not None:
        return step.spread.max_ms
    return step.duration_ms or 0


def _finding(job: h.JobStarts | None, step: h.Step, longest: float) -> h.Finding:
    took, of = _took_ms(step), job.job if job is not None else h.UNKNOWN_JOB
    return h.start_finding(
        job,
        ongoing=step.ended_us is None,
        severity=h.Severity.WARNING,
        subject=h.job_subject(
            job,
            "job" if job is not None else "process",
            task=step.task,
            subtask_index=step.subtask_index,
            taskmanager=step.taskmanager,
        ),
        title=f"{h.fmt.capital(h.STEP_WORDS[step.name])} takes {h.fmt.duration(took)}",
        cause="slow-start",
        rank=h.Rank.MECHANISM,
        first_us=step.started_us,
        last_us=step.ended_us,
        measurements=(h.measurement(step.name, took, "ms", round(longest)),),
        evidence=h.cite((ref, None) for ref in step.refs),
        actions=h.remedies("slow-start", of, step.name),
    )


RULE: Final = h.Rule("ST302", judge, Limits, whole=True, causes=("slow-start",), needs="starts")
