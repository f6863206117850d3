"""Back pressure starts at individual subtasks with the same load as their siblings.

What it reports
---------------
The slow subtask and, if the logs and metrics show the cause, its problem. The subtask may hang (`task-hangs`),
spend its time in synchronous snapshots (`slow-sync-snapshot`), write its state slowly (`slow-async-snapshot`), or
take longer per record (`slow-subtask`).

Why it matters
--------------
One slow subtask is enough: the tasks upstream distribute records to all subtasks and wait for the slowest.

How it decides
--------------
flowdiag finds the source of back pressure as described for `slow-operator`. This rule applies if fewer than two
thirds of the subtasks are busy, and no subtask has twice its share of the records or bytes.

If no task waits, a busy subtask among idle siblings also counts, but high busy time alone is not enough to blame
it. The subtask must also have a long queue (three times its siblings' and a quarter of the capacity), or snapshots
that take 30% of the time.

The causes are checked in the order of `checkpoint-culprit`. The first check covers snapshots that take a long time
or are the only reason why the subtask is late. The second looks for a busy subtask that receives no records (a
hang). The last looks for a time per record of at least three times that of the siblings on other TaskManagers.

What to do
----------
If the subtask hangs, take a thread dump of its TaskManager. Otherwise, check its keys, its state, and its
external calls.

False alarms
------------
A slow TaskManager looks similar. flowdiag checks for it first, and requires two slow tasks as evidence.
"""

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h

TITLES: dict[str | None, str] = {
    "task-hangs": "{} receives nothing and blocks its upstream tasks",
    "slow-sync-snapshot": "{} spends its time in synchronous snapshots",
    "slow-async-snapshot": "{} is slow to write its state",
    "garbage-collection": "{} does not keep up: its TaskManager is busy with garbage collection",
    "slow-subtask": "{} takes far longer per record than its siblings",
    None: "{} does not keep up while its siblings do",
}


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task and spell."""
    for spell in h.spells_of(job, *TITLES):
        if h.waits_for_response(job, spell):
            continue
        if not h.is_whole_task(spell) and not spell.taskmanager:
            title = TITLES[spell.cause].format(h.culprit_text(job, spell))
            yield h.spell_finding(job, spell, title)


RULE = h.Rule(
    "BP104",
    judge,
    signals=SIGNALS,
    causes=tuple(filter(None, TITLES)),
    needs="task-metrics",
    severity=h.Severity.CRITICAL,
)
