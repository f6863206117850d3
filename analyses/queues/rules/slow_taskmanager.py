"""Everything on one TaskManager is slow.

What it reports
---------------
The TaskManager whose subtasks need several times as long per record as their siblings elsewhere.

Why it matters
--------------
Every task that has a subtask there is as slow as that subtask.

How it decides
--------------
Busy time per record of its subtasks against the siblings on other TaskManagers: three times and more, in
two tasks at least and in two thirds of those compared; or twice in several subtasks of the task where the
back pressure ends, while those elsewhere are alike. Where nothing tells the time per record: the busy
subtasks at the end of the back pressure are all that the TaskManager runs of that task, with no more data
than their siblings, and those of another task lag there too or several do. One that spends 40% of its time
and twice that of the others collecting garbage is called that.

What to do
----------
Look at the machine: CPU steal, throttling, disk, neighbours, garbage collection; take it out of service.

False alarms
------------
Where a TaskManager runs a single task nothing tells the machine from the subtask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.model.finding import Finding, Inconclusive
from flowdiag.analyses.model.rule import Limits, Rule
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import finding, spells_of, who


def judge(job: JobQueues, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per TaskManager."""
    for spell in spells_of(job, *_TITLES):
        if spell.taskmanager:
            yield finding(job, spell, _TITLES[spell.cause or ""].format(who(job, spell)))


_TITLES: Final = {
    "slow-taskmanager": "{} is slow at everything it runs",
    "garbage-collection": "{} collects garbage and is slow at everything it runs",
}

RULE: Final = Rule("SK102", judge, signals=SIGNALS, causes=tuple(_TITLES))
