"""One TaskManager runs most of the tasks.

What it reports
---------------
A TaskManager with at least twice the tasks that an even spread would give it.

Why it matters
--------------
Its processors, memory and network buffers serve more tasks than those of the others.

How it decides
--------------
By the last start that ran; a cluster with two or three TaskManagers is left alone, since slots are filled as
they come.

What to do
----------
Spread tasks over all TaskManagers.

False alarms
------------
TaskManagers with different numbers of slots.
"""

from __future__ import annotations

from collections import Counter
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
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.analyses.startup.facts import StartupFacts


class CrowdedTaskmanagerLimits(Limits):
    """What ST303 compares with."""

    ratio: float = limit(
        2, "ratio", "twice its share; slots are filled in no order, so less is chance"
    )
    taskmanagers: float = limit(4, "TaskManagers", "with fewer, twice the share is common")


def judge(
    facts: StartupFacts, limits: CrowdedTaskmanagerLimits
) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    known = {worker.name for worker in facts.workers if worker.registered_us}
    for job in facts.jobs:
        start = next((s for s in reversed(job.starts) if s.running_us is not None), None)
        if start is None:
            continue
        counts = Counter(task.taskmanager for task in start.tasks if task.taskmanager)
        places = known | set(counts)
        if len(places) < limits.taskmanagers or not counts:
            continue
        name, most = counts.most_common(1)[0]
        even = sum(counts.values()) / len(places)
        if most < limits.ratio * even or most < 4:
            continue
        option = (
            "taskmanager.load-balance.mode"
            if at_least(job.job.version, 1, 19)
            else "cluster.evenly-spread-out-slots"
        )
        yield Finding(
            job=job.job.key,
            severity=Severity.INFO,
            state=State.ONGOING,
            subject=Subject(
                kind="taskmanager",
                job_id=job.job.key.job_id or None,
                job_name=job.job.name,
                taskmanager=name,
            ),
            title=f"{name} runs {most} of {sum(counts.values())} tasks, {even:.1f} would be even",
            rank=Rank.MECHANISM,
            option=option,
            first_us=start.started_us,
            explain="Slots are taken as they are offered.",
            measurements=(
                Measurement(name="tasks", value=most, unit="tasks", threshold=round(even, 1)),
            ),
            evidence=cite((t.ref, None) for t in start.tasks if t.taskmanager == name)[:3],
            actions=(
                Action(
                    text="Spread tasks over all TaskManagers",
                    option=option,
                    proposed="SLOTS" if option.endswith("mode") else "true",
                    restart_needed=True,
                ),
            ),
        )


RULE: Final = Rule("ST303", judge, CrowdedTaskmanagerLimits, whole=True)
