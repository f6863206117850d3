"""Back pressure starts at a task that is slow in all its subtasks.

What it reports
---------------
The task at which back pressure starts, where its subtasks are all as busy: it is the operator, not the
data or a machine.

Why it matters
--------------
The job cannot go faster than this task; everything before it waits.

How it decides
--------------
Each window of the metrics is walked from the sources down to the tasks that are busy (60% of the time and
more), not back-pressured, and right behind one that waits (50% and more). Two thirds of the subtasks or
more must be among them, none with twice its share of the records or bytes. Samples of several windows
convict, five at least. Before 1.13 the usage of buffers stands in for the times, and weighs less. Who is
named, and why, is decided as `checkpoint-culprit` decides it: the same signals, the same order of questions;
here somebody of the task where the back pressure ends.

What to do
----------
Make a record cheaper (batch, cache, call asynchronously), or give the task more subtasks. A flame graph
shows what it does.

False alarms
------------
A job that works off a backlog runs like this until it is done: after a restore or a rescaling that is
said and weighs as information, and so does a backlog that shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Finding, Inconclusive
from flowdiag.analyses.model.rule import Limits, Rule
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import finding, of_the_whole
from flowdiag.analyses.queues.root import find_spells


def judge(job: JobQueues, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per task and spell."""
    for spell in find_spells(job):
        if not of_the_whole(spell):
            continue
        title = f"{fmt.shorten(spell.task)} is too slow for its input"
        if spell.cause == "slow-sync-snapshot":
            title += ": its synchronous snapshots take up much of the time"
        yield finding(job, spell, title)


RULE: Final = Rule("BP102", judge, signals=SIGNALS, causes=("slow-operator", "slow-sync-snapshot"))
