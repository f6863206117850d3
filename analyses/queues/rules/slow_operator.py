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
Each window of the metrics is walked from the sources down to the tasks that are busy (60 % of the time and
more), not back-pressured, and right behind one that waits (50 % and more). Two thirds of the subtasks or
more must be among them, none with twice its share of the records. Samples of several windows convict,
five at least. Before 1.13 the usage of buffers stands in for the times, and weighs less.

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

from flowdiag.analyses.finding import Action, Finding, Inconclusive
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import barriers_meanwhile, finding
from flowdiag.analyses.queues.root import SIGNALS, Spell, find_spells
from flowdiag.analyses.rule import Limits, Rule, Signal


def judge(job: JobQueues, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per task and spell."""
    for spell in find_spells(job):
        if spell.whole and spell.taskmanager is None:
            yield _finding(job, spell)


def _finding(job: JobQueues, spell: Spell) -> Finding:
    name = j.shorten(spell.task)
    actions = [
        Action(
            text=f"Give {name} more subtasks than its {spell.parallelism}, or make its work per record "
            "cheaper: batches, caches, asynchronous calls",
            restart_needed=True,
            verify="busy time of its subtasks falls below 80 %, and nobody waits for it",
        )
    ]
    if at_least(job.job.version, 1, 13):
        actions.insert(
            0,
            Action(
                text="See what its threads do: the flame graph of this task in the web interface",
                option="rest.flamegraph.enabled",
                proposed="true",
                restart_needed=True,
            ),
        )
    if " -> " in spell.task:
        actions.append(
            Action(
                text="Several operators are chained in this task, and metrics do not tell them apart: "
                "break the chain (disableChaining) for a while to see which one is slow",
                restart_needed=True,
            )
        )
    snapshots = spell.cause == "slow-sync-snapshot"
    return finding(
        job,
        spell,
        title=f"{name} is too slow for its input"
        + (": its synchronous snapshots take up much of the time" if snapshots else ""),
        explain="All its subtasks are busy while those before wait: the task itself limits the job.",
        actions=(*actions, *barriers_meanwhile(job)),
    )


RULE: Final = Rule("BP102", judge, signals=tuple(Signal(*signal) for signal in SIGNALS))
