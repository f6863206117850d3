"""A job waited for one TaskManager.

What it reports
---------------
The TaskManager that came last while a start waited for slots, and how much later than the others.

Why it matters
--------------
A job starts when the last slot is there: one slow node holds all.

How it decides
--------------
Registrations within the wait for slots of one start; the last one came `late` or more after the median of
the others.

What to do
----------
Look at that node: image pull, disk, DNS, a busy machine.

False alarms
------------
Workers that were asked for later come later: with an active resource manager the time from the request
counts where it is known. A wait within which the JobManager's log is silent for ten minutes or more is left out.
"""

from __future__ import annotations

import statistics
from typing import Final

from flowdiag.analyses.flink.silences import heard_until
from flowdiag.analyses.startup import helpers as h


class Late(h.Limits):
    """What ST203 compares with."""

    late: float = h.limit(
        15, "s", "processes of one cluster start within some seconds of each other"
    )


def judge(job: h.JobStarting, limits: Late) -> h.Iterator[h.Finding]:
    """One finding per start that waited."""
    for start in job.starts:
        step = start.step("slots")
        if step is None or step.started_us is None or step.ended_us is None:
            continue
        if heard_until(job.cluster.common, step.started_us, step.ended_us) < step.ended_us:
            continue  # the TaskManagers may have come to different starts
        came = [
            w for w in job.cluster.workers if w.registered_us and w.registered_us <= step.ended_us
        ]
        came.sort(key=_registered)
        if len(came) < 2 or _registered(came[-1]) < step.started_us:
            continue
        late = _late_ms(came)
        if late >= limits.late * 1000:
            yield _finding(job, came[-1], late, start.started_us)


def _registered(worker: h.Worker) -> int:
    return worker.registered_us or 0


def _late_ms(came: list[h.Worker]) -> float:
    """How much later the last one was than the median of the others, from its request if known."""
    asked = all(worker.requested_us for worker in came)
    *others, last = (_registered(w) - (w.requested_us or 0 if asked else 0) for w in came)
    return (last - statistics.median(others)) / 1000


def _finding(job: h.JobStarting, worker: h.Worker, late: float, begun: int) -> h.Finding:
    after = h.fmt.duration(late)
    place = h.fmt.place(worker.name, worker.host)
    return h.of_start(
        job,
        ongoing=False,
        severity=h.Severity.INFO,
        subject=h.Subject(
            kind="taskmanager", job_name=job.job.name, taskmanager=worker.name, host=worker.host
        ),
        title=f"{place} registered {after} after the others, and the job waited",
        why=f"{worker.name} came {after} after the others",
        cause="late-taskmanager",
        rank=h.Rank.MECHANISM,
        first_us=begun,
        last_us=worker.registered_us,
        measurements=(h.measurement("late", round(late), "ms"),),
        evidence=h.cite([(worker.ref, worker.registered_us)]),
        actions=h.remedies("late-taskmanager", job.job),
    )


RULE: Final = h.Rule("ST203", judge, Late, causes=("late-taskmanager",))
