"""One TaskManager runs most of the tasks.

What it reports
---------------
A TaskManager with a multiple of the tasks that an even distribution would assign to it.

Why it matters
--------------
Its CPU cores, memory and network buffers serve more tasks than those of the others.

How it decides
--------------
By the last start that ran: `ratio` times the even share, and at least `tasks`. Clusters with fewer than
`taskmanagers` TaskManagers are skipped, because slots are filled in the order in which they register.

What to do
----------
Spread tasks over all TaskManagers.

False alarms
------------
TaskManagers with different numbers of slots.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.startup import helpers as h


class Crowded(h.Limits):
    """Thresholds of ST303."""

    ratio: float = h.limit(
        2, "ratio", "twice its share; slots are filled in no particular order, so less is chance"
    )
    taskmanagers: float = h.limit(4, "TaskManagers", "with fewer, twice the share is common")
    tasks: float = h.limit(4, "tasks", "two or three tasks on one TaskManager are normal")


def judge(job: h.JobStarting, limits: Crowded) -> h.Iterator[h.Finding]:
    """One finding per job."""
    start = next((s for s in reversed(job.starts) if s.running_us is not None), None)
    if start is None:
        return
    counts = Counter(task.taskmanager for task in start.tasks if task.taskmanager)
    places = {w.name for w in job.cluster.workers if w.registered_us} | set(counts)
    if len(places) < limits.taskmanagers or not counts:
        return
    name, most = counts.most_common(1)[0]
    even = sum(counts.values()) / len(places)
    if most < max(limits.ratio * even, limits.tasks):
        return
    balanced = at_least(job.job.version, 1, 19)
    option = "taskmanager.load-balance.mode" if balanced else "cluster.evenly-spread-out-slots"
    yield h.start_finding(
        job,
        ongoing=True,
        severity=h.Severity.INFO,
        subject=h.job_subject(job, "taskmanager", taskmanager=name),
        title=f"{name} runs {most} of {sum(counts.values())} tasks, {even:.1f} would be even",
        rank=h.Rank.MECHANISM,
        option=option,
        first_us=start.started_us,
        explain="By default Flink takes slots in the order in which TaskManagers offer them.",
        measurements=(h.measurement("tasks", most, "tasks", round(even, 1)),),
        evidence=h.cite((t.ref, None) for t in start.tasks if t.taskmanager == name),
        actions=(
            h.Action(
                text="Spread tasks over all TaskManagers",
                option=option,
                proposed=h.write(option, "SLOTS" if balanced else True),
                restart_needed=True,
            ),
        ),
    )


RULE: Final = h.Rule("ST303", judge, Crowded)
