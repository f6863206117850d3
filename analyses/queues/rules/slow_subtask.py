"""Back pressure starts at single subtasks that get no more data.

What it reports
---------------
The subtask, and what ails it where that shows: it hangs (`task-hangs`), its synchronous snapshots take up
its time (`slow-sync-snapshot`), or each record costs it more (`slow-subtask`).

Why it matters
--------------
One subtask is enough: those before it deal out records to all and wait for the slowest.

How it decides
--------------
The end of back pressure as for `slow-operator`, where fewer than two thirds of the subtasks are busy and
none of them gets twice its share. Or, before anybody waits: one subtask is busy among idle siblings, and
its queue is long (three times its siblings', a quarter of what fits in), or its snapshots take 30 % of
the time. Being busy alone convicts nobody. Busy without taking in records is a hang; time per
record against siblings on other TaskManagers (three times) a slow subtask.

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

from flowdiag.analyses.finding import Action, Finding, Inconclusive
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import barriers_meanwhile, finding, host_of, spells_of, who
from flowdiag.analyses.queues.root import SIGNALS, Spell
from flowdiag.analyses.rule import Limits, Rule, Signal


def judge(job: JobQueues, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per task and spell."""
    for spell in spells_of(job, "task-hangs", "slow-sync-snapshot", "slow-subtask", None):
        if not spell.whole:
            yield _finding(job, spell)


_TITLE: Final = {
    "task-hangs": "{} takes in nothing and holds up those before it",
    "slow-sync-snapshot": "{} spends its time in synchronous snapshots",
    "slow-subtask": "{} needs far longer per record than its siblings",
    None: "{} does not keep up while its siblings do",
}
_EXPLAIN: Final = {
    "task-hangs": "It is busy without taking in records: stuck in user code or in a call that never returns.",
    "slow-sync-snapshot": "The synchronous part of a snapshot runs in the task's thread: no record is "
    "processed meanwhile, and the queue before it grows.",
    "slow-subtask": "It gets no more records than its siblings and needs much longer for each: its keys, "
    "its disk, or what it calls.",
    None: "It is the end of the back pressure; the metrics do not tell whether its data, its machine or "
    "its work is to blame.",
}


def _finding(job: JobQueues, spell: Spell) -> Finding:
    place = spell.convicted[0].taskmanager if spell.convicted else None
    where = j.place_text(place, host_of(job, place))
    if spell.cause == "slow-sync-snapshot":
        actions = [
            Action(
                text="Look at what runs in the task's thread at a snapshot: flushing in snapshotState or "
                "preCommit, timers on the heap, many small states",
                verify="the synchronous duration of this subtask falls to its siblings'",
            )
        ]
    else:
        actions = [
            Action(
                text=f"Take a thread dump of the TaskManager ({where}) and look for this task's thread",
                verify="the thread is no longer in the same method every time",
            ),
            Action(text="Give blocking calls a time-out, or make them asynchronous"),
        ]
    return finding(
        job,
        spell,
        title=_TITLE.get(spell.cause, _TITLE[None]).format(who(job, spell)),
        explain=_EXPLAIN.get(spell.cause, _EXPLAIN[None]),
        actions=(*actions, *barriers_meanwhile(job)),
    )


RULE: Final = Rule("BP104", judge, signals=tuple(Signal(*signal) for signal in SIGNALS))
