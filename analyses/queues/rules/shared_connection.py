"""A slow subtask may block other subtasks on the same connection.

What it reports
---------------
A slow subtask that may block unrelated subtasks, in Flink 1.4 or earlier or with credits switched off.

Why it matters
--------------
Without credits, all subtasks of two TaskManagers share one TCP connection. When one gate has no buffer left,
nothing is read from the connection, barriers included. A waiting subtask may be the victim of a neighbour.

How it decides
--------------
The version or `taskmanager.network.credit-model`, and a source of back pressure. The placement shows which
channels share a connection. No metric shows which of them blocks it, so the confidence is low.

What to do
----------
Turn on credit-based flow control, or move to a version that has it (1.5 and later).

False alarms
------------
The slow subtask is to blame either way.
"""

from __future__ import annotations

from flowdiag.analyses.flink.tasks.buffers import Settings
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.facts import options_of

SWITCH = "taskmanager.network.credit-model"


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One note per job."""
    spells = h.serious_spells(job)
    if job.version is None or not spells:
        return
    if Settings.of(options_of(job.job), job.version).credit:
        return
    action = h.Action(text="Move to a version with credit-based flow control (1.5 and later)")
    if job.version >= (1, 5):
        action = h.Action(
            text="Turn on credit-based flow control",
            option=SWITCH,
            proposed=h.write(SWITCH, True),
            restart_needed=True,
        )
    culprit = h.culprit_text(job, spells[0])
    yield h.job_finding(
        job,
        state=spells[0].state,
        title=f"Without credits {culprit} may block all channels on its connections",
        confidence=h.Confidence.LOW,
        rank=h.Rank.CONSEQUENCE,
        first_us=spells[0].first_us,
        last_us=spells[0].last_us,
        explain="One TCP connection per pair of TaskManagers carries all their channels. A gate without "
        "buffers stops it. Waiting tasks may be victims that send nothing to the slow subtask.",
        evidence=h.evidence_of(job, spells[0]),
        actions=(action,),
    )


RULE = h.Rule("BP203", judge)
