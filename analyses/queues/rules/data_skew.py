"""Back pressure starts at subtasks that get more data than their siblings.

What it reports
---------------
The subtask with a hot key or partition, how many times its siblings' records or bytes it takes in, and who
waits for it.

Why it matters
--------------
More subtasks do not help: the hot key stays where it is, and the others stay idle.

How it decides
--------------
The end of back pressure as for `slow-operator`; its busy subtasks take in at least twice the records or
bytes of the mean of their siblings (key groups alone give up to 1.5 times), over the time that they
are the end, and a record costs them no more than others.

What to do
----------
Find the key; salt it, aggregate in two steps, or filter what should not be there (null, default values).

False alarms
------------
Skew without back pressure is a remark of `uneven-load`, not this.
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
    """One finding per task and spell."""
    for spell in spells_of(job, "data-skew"):
        numbers = spell.conviction.numbers
        ratio = max(numbers.get("records-ratio", 0.0), numbers.get("bytes-ratio", 0.0))
        gets, whose = ("each get", "their") if len(spell.convicted) > 1 else ("gets", "its")
        title = (
            f"{who(job, spell)} {gets} {ratio:.1f} times {whose} siblings' data and cannot keep up"
        )
        yield finding(job, spell, title)


RULE: Final = Rule("SK101", judge, signals=SIGNALS, causes=("data-skew",))
