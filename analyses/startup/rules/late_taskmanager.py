"""A job waited for one TaskManager.

What it reports
---------------
The rule names the last TaskManager that registered while the job waited for slots. It shows how much later
than the others this TaskManager registered.

Why it matters
--------------
A job starts only when its last slot is available, so one slow node delays the whole start.

How it decides
--------------
The rule compares the registrations up to the end of the wait for slots. The last TaskManager must register
during the wait, and at least `delay` after the median of the others.

False alarms
------------
TaskManagers that were requested later also register later. If the log shows every request, the rule
measures the time from each request instead. It skips a wait during which the JobManager's log is silent for
ten minutes or more.
"""

import statistics
from operator import itemgetter
from typing import Final

from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.startup import helpers as h


class Limits(h.Limits):
    delay: float = h.limit(
        15, "s", "minimum delay of a TaskManager; most start within a few seconds of each other"
    )


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each start that waited."""
    for start in job.starts:
        step = start.step("slots")
        if step is None or step.started_us is None or step.ended_us is None:
            continue
        begun, ended = step.started_us, step.ended_us
        if jobmanager_logged_until(job.cluster.common, begun, ended) < ended:
            continue  # the TaskManagers may belong to different starts
        registered = [
            (us, w) for w in job.cluster.workers if (us := w.registered_us) and us <= ended
        ]
        registered.sort(key=itemgetter(0))
        if len(registered) < 2 or registered[-1][0] < begun:
            continue
        late = _late_ms(registered)
        if late >= limits.delay * 1000:
            yield _finding(job, registered[-1][1], late, start.started_us)


def _late_ms(registered: list[tuple[int, h.Worker]]) -> float:
    """Return how much longer the last worker took than the median of the others, from its request if known."""
    by_request = all(worker.requested_us for _, worker in registered)
    *others, last = (us - (w.requested_us or 0 if by_request else 0) for us, w in registered)
    return (last - statistics.median(others)) / 1000


def _finding(job: h.JobStarting, worker: h.Worker, late: float, begun: int) -> h.Finding:
    after = h.fmt.duration(late)
    place = h.fmt.place(worker.name, worker.host)
    return h.start_finding(
        job,
        ongoing=False,
        severity=h.Severity.INFO,
        subject=h.Subject(
            kind="taskmanager", job_name=job.job.name, taskmanager=worker.name, host=worker.host
        ),
        title=f"{place} registered {after} after the others, and the job waited for it",
        why=f"{worker.name} registered {after} after the others",
        cause="late-taskmanager",
        rank=h.Rank.MECHANISM,
        first_us=begun,
        last_us=worker.registered_us,
        measurements=(h.measurement("delay", round(late), "ms"),),
        evidence=h.cite([(worker.ref, worker.registered_us)]),
        actions=h.remedies("late-taskmanager", job.job),
    )


RULE: Final = h.Rule(
    "ST203", judge, Limits, causes=("late-taskmanager",), needs="starts", severity=h.Severity.INFO
)
