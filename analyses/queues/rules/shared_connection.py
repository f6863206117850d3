"""A slow subtask may block others on the same connection.

What it reports
---------------
That a slow subtask of Flink 1.4 or earlier, or with credits switched off, may hold up subtasks that have
nothing to do with it.

Why it matters
--------------
All subtasks of two TaskManagers share one TCP connection there: when one gate has no buffer left, nothing
is read from the connection, barriers included. Who waits may be a victim of a neighbour.

How it decides
--------------
The version or `taskmanager.network.credit-model`, and an end of back pressure. Which channels share a
connection follows from the places; which of them blocks it no metric says: low confidence.

What to do
----------
Turn credit-based flow control on, or move to a version that has it (1.5 and later).

False alarms
------------
The slow subtask is to blame either way.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.buffers import Settings
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.facts import options_of
from flowdiag.analyses.queues.judging import evidence

_SWITCH: Final = "taskmanager.network.credit-model"


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One remark per job."""
    spells = h.serious(job)
    if job.version is None or not spells:
        return
    if Settings.of(options_of(job.job), job.version).credit:
        return
    switch = h.Action(
        text="Turn credit-based flow control on",
        option=_SWITCH,
        proposed=h.write(_SWITCH, True),
        restart_needed=True,
    )
    move = h.Action(text="Move to a version with credit-based flow control (1.5 and later)")
    yield h.job_finding(
        job,
        state=spells[0].state,
        title=f"Without credits {h.who(job, spells[0])} may block all that shares its connections",
        confidence=h.Confidence.LOW,
        rank=h.Rank.CONSEQUENCE,
        first_us=spells[0].first_us,
        last_us=spells[0].last_us,
        explain="One TCP connection per pair of TaskManagers carries all their channels; a gate "
        "without buffers stops it. Waiting tasks may be victims that send nothing to the slow one.",
        evidence=evidence(job, spells[0]),
        actions=(switch if job.version >= (1, 5) else move,),
    )


RULE: Final = h.Rule("BP203", judge)
