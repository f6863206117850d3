"""Back pressure starts at subtasks with more data than their siblings.

What it reports
---------------
The subtask with a hot key or partition, the ratio of its records or bytes to those of its siblings, and the
tasks that wait for this subtask.

Why it matters
--------------
Higher parallelism does not help: the hot key stays on one subtask while the others are idle.

How it decides
--------------
flowdiag finds the task where back pressure starts as described for `slow-operator`. While back pressure lasts, its
busy subtasks receive at least twice as many records or bytes as their siblings on average. Lower ratios prove
nothing, because key groups alone cause a ratio of up to 1.5. The busy subtasks must not take longer per record than
their siblings. All rules report the same ratio of a subtask: it covers the windows in which the subtask received at
least twice its siblings' data. If checkpoints failed, only the windows of that time count.

What to do
----------
Find the hot key. Salt it, aggregate in two stages, or filter out bad keys (null or default values).

False alarms
------------
None known. Skew without back pressure is harmless, and `uneven-load` reports it as a note.
"""

from flowdiag.analyses.flink.suspects.signals import SIGNALS
from flowdiag.analyses.queues import helpers as h


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task and spell."""
    for spell in h.spells_of(job, "data-skew"):
        if h.waits_for_response(job, spell):
            continue
        numbers = spell.culprit.numbers
        ratio = max(numbers.get("records-ratio", 0.0), numbers.get("bytes-ratio", 0.0))
        gets = (
            "each get {:.1f} times their"
            if len(spell.culprit_loads) > 1
            else "gets {:.1f} times its"
        )
        title = (
            f"{h.culprit_text(job, spell)} {gets.format(ratio)} siblings' data and cannot keep up"
        )
        yield h.spell_finding(job, spell, title)


RULE = h.Rule(
    "SK101",
    judge,
    signals=SIGNALS,
    causes=("data-skew",),
    needs="task-metrics",
    severity=h.Severity.CRITICAL,
)
