"""One TaskManager runs most of the tasks.

What it reports
---------------
The rule reports a TaskManager that runs several times as many tasks as it would with an even distribution.

Why it matters
--------------
More tasks share the CPU cores, memory and network buffers of this TaskManager than of the others.

How it decides
--------------
The rule evaluates the last start that reached RUNNING. A TaskManager is crowded if it runs at least `ratio`
times the even share of tasks, and at least `tasks` tasks. The rule skips clusters with fewer than
`taskmanagers` TaskManagers, because Flink fills slots in the order in which TaskManagers offer them.

What to do
----------
Spread the tasks evenly over all TaskManagers.

False alarms
------------
If TaskManagers have different numbers of slots, those with more slots also run more tasks.
"""

from collections import Counter
from typing import Final

from flowdiag.analyses.flink.options import is_at_least
from flowdiag.analyses.startup import helpers as h


class Limits(h.Limits):
    ratio: float = h.limit(
        2, "ratio", "minimum ratio of tasks to the even share; Flink does not balance by default"
    )
    taskmanagers: float = h.limit(
        4, "TaskManagers", "minimum number of TaskManagers; fewer often run twice the even share"
    )
    tasks: float = h.limit(4, "tasks", "minimum number of tasks; two or three are normal")


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each job whose tasks are spread unevenly."""
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
    balanced = is_at_least(job.job.version, 1, 19)
    option = "taskmanager.load-balance.mode" if balanced else "cluster.evenly-spread-out-slots"
    yield h.start_finding(
        job,
        ongoing=True,
        severity=h.Severity.INFO,
        subject=h.job_subject(job, "taskmanager", taskmanager=name),
        title=f"{name} runs {most} of {sum(counts.values())} tasks; an even share would be {even:.1f}",
        rank=h.Rank.MECHANISM,
        option=option,
        first_us=start.started_us,
        explain="By default, Flink fills slots in the order in which TaskManagers offer them.",
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


RULE: Final = h.Rule("ST303", judge, Limits, needs="starts", severity=h.Severity.INFO)
