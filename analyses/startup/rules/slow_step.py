"""A step of the start takes long.

What it reports
---------------
The allocation of the cluster, RPC, REST, leadership, submission, registration or deployment, where one of
them takes long.

Why it matters
--------------
Each of them stands between the user and a running job, in every restart too.

How it decides
--------------
By its duration; slots and initialisation have rules of their own.

What to do
----------
RPC and REST: name resolution. Leadership: ZooKeeper or the Kubernetes API. Submission: main() of the job,
fetching its jar, restoring the checkpoint store. Deployment: jars fetched by TaskManagers.

False alarms
------------
In a session cluster the gap between two steps may be idle time; only steps that follow each other directly
are timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.keys import JobKey
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.analyses.startup.facts import StartupFacts, Step
from flowdiag.analyses.startup.words import STEP_WORDS

_JUDGED: Final = ("submission", "resource-manager", "deployment")
_ADVICE: Final = {
    "operator": "See the events of its pods (kubectl describe pod): image pull, quota, scheduling",
    "client": "Look at main() of the job and at what it connects to, and at the size of the jars",
    "registration": "Look at name resolution and the network between TaskManagers and JobManager",
    "cluster-allocation": "Ask YARN or Kubernetes why: queue, quota, image pull",
    "rpc": "Look at name resolution and at the load of the JobManager's machine",
    "rest": "Look at name resolution and at the ports of the JobManager's machine",
    "leadership": "Look at ZooKeeper or the Kubernetes API server: leaders are elected there",
    "submission": "Look at main() of the job, at its jars, and at the checkpoint store that is recovered",
    "resource-manager": "Look at leader changes and at the network between the components",
    "deployment": "Look at the transfer of jars (BLOB server) and at class loading on the TaskManagers",
}


class SlowStepLimits(Limits):
    """What ST302 compares with."""

    slow: float = limit(
        30, "s", "every one of these steps is a matter of seconds on a quiet cluster"
    )


def judge(facts: StartupFacts, limits: SlowStepLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and step, the longest of all starts."""
    longest = limits.slow * 1000
    for step in facts.cluster_steps:
        if (_took(step) or 0) >= longest:
            yield _finding(None, None, step, longest)
    for job in facts.jobs:
        for name in _JUDGED:
            steps = [
                step
                for start in job.starts
                for step in start.steps
                if step.name == name and (step.duration_ms or 0) >= longest
            ]
            if steps:
                worst = max(steps, key=lambda step: step.duration_ms or 0)
                yield _finding(job.job.key, job.job.name, worst, longest)


def _took(step: Step) -> int | None:
    """How long it took; TaskManagers are started one after the other, so that the slowest counts."""
    if step.name == "registration" and step.spread is not None:
        return step.spread.max_ms
    return step.duration_ms


def _finding(key: JobKey | None, name: str | None, step: Step, longest: float) -> Finding:
    words = STEP_WORDS[step.name]
    return Finding(
        job=key,
        severity=Severity.WARNING,
        state=State.ONGOING if step.ended_us is None else State.RECOVERED,
        subject=Subject(
            kind="job" if key else "process",
            job_id=key.job_id if key else None,
            job_name=name,
            task=step.task,
            subtask_index=step.subtask_index,
            taskmanager=step.taskmanager,
        ),
        title=f"{words[:1].upper()}{words[1:]} takes {j.duration_text(_took(step))}",
        cause="slow-start",
        rank=Rank.MECHANISM,
        first_us=step.started_us,
        last_us=step.ended_us,
        explain="It is a matter of seconds where nothing is wrong.",
        measurements=(
            Measurement(
                name=f"{step.name}", value=_took(step), unit="ms", threshold=round(longest)
            ),
        ),
        evidence=cite((ref, None) for ref in step.refs),
        actions=(Action(text=_ADVICE[step.name]),),
    )


RULE: Final = Rule("ST302", judge, SlowStepLimits, whole=True)
