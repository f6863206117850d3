"""Back pressure starts at a task whose subtasks are all slow.

What it reports
---------------
The task where back pressure starts, if all its subtasks are busy. The cause is the operator, not the data
or a host.

Why it matters
--------------
The job cannot be faster than this task. All tasks upstream wait for it.

How it decides
--------------
flowdiag searches each window of the metrics from the sources downstream. Back pressure starts at a task that is
busy at least 60% of the time, is not back-pressured, and directly follows a task that waits at least 50% of the time. At
least two thirds of its subtasks must be busy, and no subtask may have twice its share of the records or bytes. The
evidence must cover several windows with at least five samples. Flink before 1.13 does not report busy or
back-pressured times. The rule then uses buffer usage and gives it less weight.

A task also counts if all its subtasks are busy at least 90% of the time. In addition, upstream tasks must wait at
least 10% of the time, or most of its inputs must be half full on average. If its inputs are three quarters full on
average, it only needs to be busy at least 60% of the time.

The suspect and the cause are determined as in `checkpoint-culprit`, with the same signals in the same
order. Here, the candidates are the subtasks of the task where the back pressure starts.

In a job with a single task, no task can wait for another. If all its subtasks are busy all the time, the task is
the culprit in two cases: it waits instead of computing, or none of its operators emits a record. Otherwise the
rule is inconclusive, unless the lag shows that the job keeps up. The rule is also inconclusive if the metrics do
not show the task's busy time, because legacy sources do not report it.
A task may also be busy at least 97% of the time although no task waits for it, for example because of its timers.
The rule is then inconclusive too. But if the sources are idle at least half of the time, the job has no backlog to
read, and the task is the culprit even if it computes.

If the input has thread dumps, the finding also names the line of code, as `slow-code` explains. Without dumps, the
CPU load of the TaskManagers shows whether busy subtasks compute or wait. They wait if the processes use at most
0.3 CPU seconds per busy second of their subtasks.

What to do
----------
Change the line of code that the finding names. Without thread dumps, a flame graph shows where the time
goes. Otherwise, reduce the cost per record (batch, cache, or call external systems asynchronously), or
increase the parallelism.

False alarms
------------
A job that reads a backlog shows the same pattern until it has caught up. After a restore or a rescaling, or
while the backlog shrinks, the finding mentions the backlog and is only a note. It is also a note if a known lag
stays below ten seconds and does not grow: the job keeps up, but has no spare capacity.
"""

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.loads import loads_in
from flowdiag.analyses.queues.root import saturated_without_waiters, unmeasured_chain


def judge(job: h.JobQueues, limits: h.Limits) -> h.Results:
    """Yield one finding per task and spell, or an inconclusive result about a job with a single task."""
    for spell in filter(h.is_whole_task, h.find_spells(job)):
        if h.waits_for_database(job, spell.task) or h.waits_for_response(job, spell):
            continue
        title = f"{h.fmt.shorten(spell.task)} is too slow for its input"
        if spell.blocks_no_task:
            title = (
                f"{h.fmt.shorten(spell.task)} is busy all the time, although no task waits for it"
            )
        if spell.cause == "task-hangs":
            title = f"{h.fmt.shorten(spell.task)} is busy but emits no records"
        if spell.cause == "slow-sync-snapshot":
            title += ": its synchronous snapshots take up much of the time"
        yield h.spell_finding(job, spell, title)
    if h.find_spells(job):
        return
    loads = loads_in(job)
    for members, why in (
        *((busy, "is busy all the time") for busy in saturated_without_waiters(job, loads)),
        (unmeasured_chain(job, loads), "is the only task of the job, and reports no busy time"),
    ):
        if members:
            name = h.fmt.shorten(members[0].key.task)
            yield h.Inconclusive(
                reason=f"{name} {why}: no input shows whether it keeps up",
                checks=("consumer-lag", "thread-dump"),
                job=job.job.key,
            )


RULE = h.Rule(
    "BP102",
    judge,
    core=True,
    signals=SIGNALS,
    causes=("slow-operator", "slow-sync-snapshot", "task-hangs"),
    needs="task-metrics",
    severity=h.Severity.CRITICAL,
)
