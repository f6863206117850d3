"""The input of a subtask is full.

What it reports
---------------
The subtasks whose exclusive and floating buffers are spent most of the time.

Why it matters
--------------
A sender without credit keeps its buffers, runs out of them and waits; a barrier behind a full queue waits
for all of it.

How it decides
--------------
Flink exposes no credits. All exclusive buffers of the remote channels in use and the floating pool empty
(95%) mean that no channel can announce any. Without these gauges (up to 1.8) the queue length against
what fits in: `C * 2 + 8` up to 1.4, exclusive and floating buffers of the remote channels from 1.5.
From 1.9 on `inputQueueLength` counts what waits at local producers too, so it convicts nobody by itself.
Samples are racy: `share` of them, five at least.

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

from typing import Final

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.saturation import OLD_POOL, Full, full_inputs

_MOST_SHOWN: Final = 8


class Saturated(h.Limits):
    """What BP103 compares with."""

    share: float = h.limit(
        0.5, "share", "of the samples; single ones are racy and bursts are usual"
    )


def judge(job: h.JobQueues, limits: Saturated) -> h.Iterator[h.Finding]:
    """One finding per job."""
    full = full_inputs(job, limits.share)
    if full:
        yield _finding(job, full, limits.share)


def _finding(job: h.JobQueues, full: list[Full], share: float) -> h.Finding:
    spells = h.serious(job)
    guilty = {load.key for spell in spells for load in spell.convicted}
    ranked = sorted(full, key=lambda f: (f.key not in guilty, f.waits, -f.share, f.key))
    first = ranked[0]
    old = job.version is not None and job.version < OLD_POOL
    more = len(full) - 1
    inputs = "The inputs" if more else "The input"
    full_ones = (
        f"and of {h.fmt.plural(more, 'other subtask')} are full up to" if more else "is full"
    )
    return h.subtask_finding(
        job,
        first.key,
        first.taskmanager,
        severity=h.Severity.WARNING if spells and not old else h.Severity.INFO,
        state=spells[0].state if spells else h.State.ONGOING,
        title=f"{inputs} of {h.subtask_name(job, first.key)} {full_ones} {h.fmt.percent(first.share)} of the time",
        confidence=h.Confidence.LOW if old else h.Confidence.MEDIUM,
        rank=h.Rank.SYMPTOM,
        first_us=spells[0].first_us if spells else None,
        last_us=spells[0].last_us if spells else None,
        count=len(full),
        explain="Its exclusive and floating buffers are in use: its senders have no credit left."
        + ("" if first.upstream else " Nobody waits for it yet; that may come."),
        measurements=tuple(_measured(job, item, share) for item in ranked[:_MOST_SHOWN]),
        evidence=h.cite((item.told, None) for item in ranked),
        ranked=True,
    )


def _measured(job: h.JobQueues, item: Full, share: float) -> h.Measurement:
    over = f"{item.samples} samples of {h.subtask_name(job, item.key)}"
    if item.queue is not None and item.capacity is not None:
        over += f"; {item.queue:.0f} of {item.capacity} wait on average"
    return h.measurement("saturated-share", round(item.share, 4), "share", share, over=over)


RULE: Final = h.Rule("BP103", judge, Saturated)
