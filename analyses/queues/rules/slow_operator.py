"""Back pressure starts at a task whose subtasks are all slow.

What it reports
---------------
The task at which back pressure starts, where all its subtasks are busy. The cause is the operator, not the
data or a host.

Why it matters
--------------
The job cannot be faster than this task. All tasks upstream wait for it.

How it decides
--------------
Each window of the metrics is searched from the sources down. The source of back pressure is a task that is
busy (at least 60% of the time), not back-pressured, and right behind a task that waits (at least 50%). At least two thirds of the
subtasks must be among them, none with twice its share of the records or bytes. The evidence must cover several windows with at least
five samples. Before 1.13 buffer usage replaces the times and weighs less. The culprit and its cause
are determined as in `checkpoint-culprit`, with the same signals in the same order. Here the candidates are
the subtasks of the task where the back pressure starts.

What to do
----------
Make each record cheaper (batch, cache, call asynchronously), or add subtasks. A flame graph shows where the
time goes.

False alarms
------------
A job that works off a backlog looks like this until it has caught up. After a restore or a rescaling it is
marked as such and counts as information. The same holds for a backlog that shrinks.
"""

from __future__ import annotations

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per task and spell."""
    for spell in filter(h.is_whole_task, h.find_spells(job)):
        title = f"{h.fmt.shorten(spell.task)} is too slow for its input"
        if spell.cause == "slow-sync-snapshot":
            title += ": its synchronous snapshots take up much of the time"
        yield h.spell_finding(job, spell, title)


RULE = h.Rule("BP102", judge, signals=SIGNALS, causes=("slow-operator", "slow-sync-snapshot"))
