"""A slow subtask may block other subtasks on the same connection.

What it reports
---------------
A slow subtask that may block unrelated subtasks, because Flink is version 1.4 or earlier or credit-based
flow control is off.

Why it matters
--------------
Without credits, all subtasks of two TaskManagers share one TCP connection. If one input gate has no free
buffer, Flink reads nothing from the connection, barriers included. A waiting subtask may therefore be the
victim of an unrelated subtask.

How it decides
--------------
The rule uses the Flink version or `taskmanager.network.credit-model`, and requires a source of back
pressure. The placement of the subtasks shows which channels share a connection. No metric shows which of
them blocks it, so the confidence is low.

What to do
----------
Enable credit-based flow control, or upgrade to a version that has it (1.5 and later).

False alarms
------------
None known. The slow subtask needs a fix in any case.
"""

from flowdiag.analyses.flink.tasks.buffers import Settings
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.facts import options_of

SWITCH = "taskmanager.network.credit-model"


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield at most one note per job."""
    spells = h.serious_spells(job)
    if job.version is None or not spells:
        return
    if Settings.of(options_of(job.job), job.version).credit:
        return
    action = h.Action(text="Upgrade to a version with credit-based flow control (1.5 and later)")
    if job.version >= (1, 5):
        action = h.Action(
            text="Enable credit-based flow control",
            option=SWITCH,
            proposed=h.write(SWITCH, True),
            restart_needed=True,
        )
    culprit = h.culprit_text(job, spells[0])
    yield h.job_finding(
        job,
        state=spells[0].state,
        title=f"Without credit-based flow control, {culprit} may block all channels on its "
        "connections",
        confidence=h.Confidence.LOW,
        rank=h.Rank.CONSEQUENCE,
        first_us=spells[0].first_us,
        last_us=spells[0].last_us,
        explain="All channels between two TaskManagers share one TCP connection. An input gate without "
        "free buffers blocks this connection. Tasks that send nothing to the slow subtask may "
        "have to wait as well.",
        evidence=h.evidence_of(job, spells[0]),
        actions=(action,),
    )


RULE = h.Rule("BP203", judge, needs="task-metrics")
