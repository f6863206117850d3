"""The input of a subtask is full.

What it reports
---------------
The subtasks whose exclusive and floating buffers are spent in half of the samples or more.

Why it matters
--------------
A sender without credit keeps its buffers, runs out of them and waits; a barrier behind a full queue waits
for all of it.

How it decides
--------------
Flink exposes no credits. All exclusive buffers of the remote channels in use and the floating pool empty
(95 %) mean that no channel can announce any. Without these gauges (up to 1.8) the queue length against
what fits in: `C * 2 + 8` up to 1.4, exclusive and floating buffers of the remote channels from 1.5.
From 1.9 on `inputQueueLength` counts what waits at local producers too, so it convicts nobody by itself.
Samples are racy: five at least.

What to do
----------
Nothing about the buffers: more of them hold more data and no more throughput. Look at who does not empty
them.

False alarms
------------
Up to 1.8 a buffer that was not flushed counted as backlog, and full pools were usual: information only.
While a barrier is aligned, channels that had theirs are not read and fill up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import serious, subtask
from flowdiag.analyses.queues.root import name_of
from flowdiag.analyses.queues.saturation import OLD_POOL, Full, full_inputs
from flowdiag.analyses.rule import Limits, Rule, limit


class SaturatedInputQueueLimits(Limits):
    """What BP103 compares with."""

    share: float = limit(0.5, "share", "of the samples; single ones are racy and bursts are usual")


def judge(job: JobQueues, limits: SaturatedInputQueueLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    full = full_inputs(job, limits.share)
    if full:
        yield _finding(job, full, limits.share)


def _finding(job: JobQueues, full: list[Full], share: float) -> Finding:
    spells = serious(job)
    guilty = {load.key for spell in spells for load in spell.convicted}
    ranked = sorted(full, key=lambda f: (f.key not in guilty, f.waits, -f.share, f.key))
    first = ranked[0]
    old = job.version is not None and job.version < OLD_POOL
    known = bool(spells) and not old
    more = f" and {len(full) - 1} more" if len(full) > 1 else ""
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING if known else Severity.INFO,
        state=State.ONGOING if not spells else spells[0].state,
        subject=subtask(job, first.key, first.taskmanager),
        title=f"The input of {name_of(job, first.key)}{more} is full "
        f"{100 * first.share:.0f} % of the time",
        confidence=Confidence.LOW if old else Confidence.MEDIUM,
        rank=Rank.SYMPTOM,
        first_us=spells[0].first_us if spells else None,
        last_us=spells[0].last_us if spells else None,
        count=len(full),
        explain="Its exclusive and floating buffers are in use: its senders have no credit left."
        + ("" if first.upstream else " Nobody waits for it yet; that may come."),
        measurements=tuple(_measured(job, item, share) for item in ranked[:8]),
        evidence=cite((item.ref, None) for item in ranked),
        ranked=True,
    )


def _measured(job: JobQueues, item: Full, share: float) -> Measurement:
    return Measurement(
        name="saturated-share",
        value=round(item.share, 4),
        unit="share",
        threshold=share,
        population=_population(job, item.key, item),
    )


def _population(job: JobQueues, key: SubtaskKey, item: Full) -> str:
    text = f"{item.samples} samples of {name_of(job, key)}"
    if item.queue is not None and item.capacity is not None:
        text += f"; {item.queue:.0f} of {item.capacity} wait on average"
    return text


RULE: Final = Rule("BP103", judge, SaturatedInputQueueLimits)
