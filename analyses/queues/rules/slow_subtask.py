"""Back pressure starts at single subtasks with the same load as their siblings.

What it reports
---------------
The subtask and its problem, where the input shows it. The subtask hangs (`task-hangs`), its synchronous
snapshots take up its time (`slow-sync-snapshot`), its state is slow to write (`slow-async-snapshot`), or each
record takes longer (`slow-subtask`).

Why it matters
--------------
One slow subtask is enough: the tasks upstream distribute records to all subtasks and wait for the slowest.

How it decides
--------------
The source of back pressure is found as in `slow-operator`, with less than two thirds of the subtasks busy
and none with twice its share. Even if no task waits, a busy subtask among idle siblings counts. It needs a long
queue (three times its siblings', a quarter of the capacity), or snapshots that take 30% of the time. High busy time alone is not enough to blame a subtask. The causes are checked in the order of `checkpoint-culprit`.
Snapshots that are long, or the only reason why the subtask is late, come first. A busy subtask that receives
no records (a hang) comes next, then time per record against siblings on other TaskManagers (three times).

What to do
----------
Take a thread dump of its TaskManager if it hangs. Otherwise check its keys, its state and its external calls.

False alarms
------------
A whole TaskManager can be slow. That is checked first, and needs two slow tasks as proof.
"""

from __future__ import annotations

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h

TITLES: dict[str | None, str] = {
    "task-hangs": "{} receives nothing and blocks the tasks upstream",
    "slow-sync-snapshot": "{} spends its time in synchronous snapshots",
    "slow-async-snapshot": "{} is slow to write its state",
    "garbage-collection": "{} does not keep up: its TaskManager is busy with garbage collection",
    "slow-subtask": "{} needs far longer per record than its siblings",
    None: "{} does not keep up while its siblings do",
}


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per task and spell."""
    for spell in h.spells_of(job, *TITLES):
        if not h.is_whole_task(spell) and not spell.taskmanager:
            yield h.spell_finding(
                job, spell, TITLES[spell.cause].format(h.culprit_text(job, spell))
            )


RULE = h.Rule("BP104", judge, signals=SIGNALS, causes=tuple(filter(None, TITLES)))
