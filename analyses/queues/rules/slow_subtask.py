"""Back pressure starts at single subtasks that get no more data.

What it reports
---------------
The subtask, and what ails it where that shows: it hangs (`task-hangs`), its synchronous snapshots take up
its time (`slow-sync-snapshot`), its state takes long to write (`slow-async-snapshot`), or each record costs
it more (`slow-subtask`).

Why it matters
--------------
One subtask is enough: those before it deal out records to all and wait for the slowest.

How it decides
--------------
The end of back pressure as for `slow-operator`, where fewer than two thirds of the subtasks are busy and
none of them gets twice its share. Or, before anybody waits: one subtask is busy among idle siblings, and
its queue is long (three times its siblings', a quarter of what fits in), or its snapshots take 30% of
the time. Being busy alone convicts nobody. What ails it is asked in the order of `checkpoint-culprit`:
snapshots that lasted long or made it late alone come first, then being busy without taking in records (a
hang), then time per record against siblings on other TaskManagers (three times).

What to do
----------
A thread dump of its TaskManager for a hang; its keys, its state and what it calls otherwise.

False alarms
------------
A whole machine can be slow: that is looked for first, and needs two tasks to show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model.finding import Finding, Inconclusive
from flowdiag.analyses.model.rule import Limits, Rule
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import finding, of_the_whole, spells_of, who


def judge(job: JobQueues, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per task and spell."""
    for spell in spells_of(job, *_TITLES):
        if not of_the_whole(spell) and not spell.taskmanager:
            yield finding(job, spell, _TITLES[spell.cause].format(who(job, spell)))


_TITLES: Final = {
    "task-hangs": "{} takes in nothing and holds up those before it",
    "slow-sync-snapshot": "{} spends its time in synchronous snapshots",
    "slow-async-snapshot": "{} takes long to write its state",
    "garbage-collection": "{} does not keep up: its TaskManager collects garbage",
    "slow-subtask": "{} needs far longer per record than its siblings",
    None: "{} does not keep up while its siblings do",
}

RULE: Final = Rule(
    "BP104", judge, signals=SIGNALS, causes=tuple(cause for cause in _TITLES if cause)
)
