"""A job waited for one TaskManager.

What it reports
---------------
The TaskManager that came last while a start waited for slots, and how much later than the others.

Why it matters
--------------
A job starts when the last slot is there: one slow node holds all.

How it decides
--------------
Registrations within the wait for slots of one start; the last one against the median of the others.

What to do
----------
Look at that node: image pull, disk, DNS, a busy machine.

False alarms
------------
Workers that were asked for later come later: with an active resource manager the time from the request
counts where it is known.
"""

from __future__ import annotations

import statistics
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
from flowdiag.analyses.startup.facts import JobStarting, Worker
from flowdiag.analyses.startup.words import step_of


class LateTaskmanagerLimits(Limits):
    """What ST203 compares with."""

    late: float = limit(15, "s", "processes of one cluster start within some seconds of each other")


def judge(job: JobStarting, limits: LateTaskmanagerLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per start that waited."""
    for start in job.starts:
        step = step_of(start, "slots")
        if step is None or step.started_us is None or step.ended_us is None:
            continue
        came = sorted(
            (
                w
                for w in job.cluster.workers
                if w.registered_us and w.registered_us <= step.ended_us
            ),
            key=lambda w: w.registered_us or 0,
        )
        if len(came) < 2 or (came[-1].registered_us or 0) < step.started_us:
            continue
        late = _late_ms(came)
        if late >= limits.late * 1000:
            yield _finding(job.job.key, job.job.name, came[-1], late, start.started_us)


def _late_ms(came: list[Worker]) -> float:
    """How much later the last one was than the median of the others, from its request if known."""

    def took(worker: Worker) -> float:
        return ((worker.registered_us or 0) - (worker.requested_us or 0)) / 1000

    last, others = came[-1], came[:-1]
    if all(worker.requested_us for worker in came):
        return took(last) - statistics.median(took(worker) for worker in others)
    return (
        (last.registered_us or 0) - statistics.median(w.registered_us or 0 for w in others)
    ) / 1000


def _finding(key: JobKey, name: str | None, worker: Worker, late: float, begun: int) -> Finding:
    return Finding(
        job=key,
        severity=Severity.INFO,
        state=State.RECOVERED,
        subject=Subject(
            kind="taskmanager", job_name=name, taskmanager=worker.name, host=worker.host
        ),
        title=f"{j.place_text(worker.name, worker.host)} registered {j.duration_text(late)} after the "
        "others, and the job waited",
        why=f"{worker.name} came {j.duration_text(late)} after the others",
        cause="late-taskmanager",
        rank=Rank.MECHANISM,
        first_us=begun,
        last_us=worker.registered_us,
        explain="The tasks are deployed when the last slot is offered.",
        measurements=(Measurement(name="late", value=round(late), unit="ms"),),
        evidence=cite([(worker.ref, worker.registered_us)]),
        actions=(Action(text="Look at that node: image pull, disk, name resolution, load"),),
    )


RULE: Final = Rule("ST203", judge, LateTaskmanagerLimits)
