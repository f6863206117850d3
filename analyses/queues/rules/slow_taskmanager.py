"""All subtasks on one TaskManager are slow.

What it reports
---------------
A TaskManager whose subtasks take several times as long per record as their siblings elsewhere.

Why it matters
--------------
A task is only as fast as its slowest subtask. One slow TaskManager therefore slows down every task that has a
subtask there.

How it decides
--------------
With times per record: flowdiag compares the busy time per record of the subtasks on the TaskManager with that of
their siblings elsewhere. It must be at least three times as long in two tasks, and in two thirds of the compared
tasks. For several subtasks of the task where back pressure starts, twice as long is enough if the siblings
elsewhere take similar times.

Without times per record: all subtasks on the TaskManager that belong to the task where back pressure starts must
be busy, with the same load as their siblings elsewhere. In addition, several of them, or subtasks of another task
there, must lag.

The cause is garbage collection if the TaskManager spends 40% of its time on it, and twice as much as the other
TaskManagers.

What to do
----------
Check the host for CPU steal, throttling, slow disks, other busy processes, and garbage collection. If the
host is slow, take it out of service.

False alarms
------------
If a TaskManager runs a single subtask, the metrics do not distinguish a slow host from a slow subtask.
"""

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h

TITLES = {
    "slow-taskmanager": "All subtasks on {} are slow",
    "garbage-collection": "All subtasks on {} are slow during garbage collection",
}


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per TaskManager and spell."""
    for spell in h.spells_of(job, *TITLES):
        if spell.taskmanager:
            title = TITLES[spell.cause or ""].format(h.culprit_text(job, spell))
            yield h.spell_finding(job, spell, title)


RULE = h.Rule(
    "SK102",
    judge,
    signals=SIGNALS,
    causes=tuple(TITLES),
    needs="task-metrics",
    severity=h.Severity.CRITICAL,
)
