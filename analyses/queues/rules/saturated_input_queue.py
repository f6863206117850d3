"""The input buffers of a subtask are full.

What it reports
---------------
The subtasks whose exclusive and floating input buffers are in use most of the time.

Why it matters
--------------
A sender may only send a buffer if the receiver has announced a free one (a credit). Without credit, the sender
fills its own output buffers and then waits. A barrier behind a full queue waits until the subtask has processed
the queue.

How it decides
--------------
Flink has no metric for credits. If 95% of the exclusive buffers of the remote channels are in use and the
floating pool is empty, no channel can announce credit.

Without these gauges (up to 1.8), the rule compares the queue length with the capacity of the remote channels. Up
to Flink 1.4, the capacity is `C*2+8` buffers per gate with `C` channels. Since Flink 1.5, it is the sum of
exclusive and floating buffers. Since Flink 1.9, `inputQueueLength` includes data from local producers, so on its
own it is not enough to blame a subtask.

Queue lengths change quickly. The queue must therefore be full in at least `share` of the samples, and at least
five samples are required.

What to do
----------
Do not add buffers: they hold more data but do not raise the throughput. Find out why the subtask does not empty
its buffers.

False alarms
------------
Up to Flink 1.8, a buffer that was not flushed counted as backlog, and full pools were normal. For these versions,
the finding is only a note. During alignment, channels whose barrier has arrived are not read and fill up.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.saturation import OLD_POOL, FullInput, full_inputs


class Limits(h.Limits):
    share: float = h.limit(
        0.5, "share", "minimum share of samples with full buffers; short bursts are normal"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    spells = h.serious_spells(job)
    guilty = {load.key for spell in spells for load in spell.culprit_loads}
    ranked = sorted(
        full_inputs(job, limits.share),
        key=lambda f: (f.key not in guilty, f.waits, -f.share, f.key),
    )
    if not ranked:
        return
    worst = ranked[0]
    name, share = h.subtask_name(job, worst.key), h.fmt.percent(worst.share)
    title = f"The input of {name} is full {share} of the time"
    if len(ranked) > 1:
        others = h.fmt.plural(len(ranked) - 1, "other subtask")
        title = f"The inputs of {name} and of {others} are full up to {share} of the time"
    note = "" if worst.upstream else " No task waits for this subtask yet."
    old = job.version is not None and job.version < OLD_POOL
    yield h.subtask_finding(
        job,
        worst.key,
        worst.taskmanager,
        severity=h.Severity.WARNING if spells and not old else h.Severity.INFO,
        state=spells[0].state if spells else h.State.ONGOING,
        title=title,
        confidence=h.Confidence.LOW if old else h.Confidence.MEDIUM,
        rank=h.Rank.SYMPTOM,
        first_us=spells[0].first_us if spells else None,
        last_us=spells[0].last_us if spells else None,
        count=len(ranked),
        explain="Its exclusive and floating buffers are in use: its senders have no credit left."
        + note,
        measurements=tuple(_full_share(job, full, limits.share) for full in ranked[:8]),
        evidence=h.cite((full.evidence, None) for full in ranked),
        ranked=True,
    )


def _full_share(job: h.JobQueues, full: FullInput, share: float) -> h.Measurement:
    over = f"{full.samples} samples of {h.subtask_name(job, full.key)}"
    if full.queue is not None and full.capacity is not None:
        over += f"; on average, {full.queue:.0f} of {full.capacity} buffers are queued"
    return h.measurement("saturated-share", round(full.share, 4), "share", share, over=over)


RULE = h.Rule("BP103", judge, Limits, needs="task-metrics")
