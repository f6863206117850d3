"""One input channel is full while the others are not.

What it reports
---------------
Subtasks with one remote channel that queues several times the average of their channels.

Why it matters
--------------
A full channel blocks its sender even if the other channels are empty. Alignment also waits for that
channel.

How it decides
--------------
With `taskmanager.network.detailed-metrics`, the rule uses the queue lengths of each input gate, which cover remote
channels only. The longest channel must hold at least `longest` buffers, and at least `ratio` times the mean of its
gate. If the mean is lower than `min-mean`, the rule uses `min-mean` instead.

Without these metrics, the rule follows the Flink project's table for locating back pressure (1.9 and later). At
least `floating` of the floating buffers and at most `exclusive` of the exclusive buffers are in use, and a task
upstream waits. With fewer than `samples` samples, the rule reports nothing.

What to do
----------
Check the sender of that channel. It may send skewed data, or it may be catching up.

False alarms
------------
During alignment, channels whose barrier has arrived fill up. The finding is therefore only a note.
"""

from flowdiag.analyses.flink.tasks.pressure import FULL
from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    longest: float = h.limit(
        5, "buffers", "minimum queue length of the longest channel; shorter queues come and go"
    )
    ratio: float = h.limit(
        4, "ratio", "minimum ratio of the longest queue to the mean queue of its input gate"
    )
    min_mean: float = h.limit(
        0.5, "buffers", "minimum for the mean queue length of a gate; an empty gate has almost 0"
    )
    floating: float = h.limit(
        FULL, "share", "minimum share of floating buffers in use; slow channels receive them"
    )
    exclusive: float = h.limit(
        0.3, "share", "maximum share of exclusive buffers in use; most channels use few of them"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one note per job."""
    if not job.gates:
        yield from _by_pools(job, limits)
        return
    uneven = [
        (gate, gate.longest, gate.mean)
        for gate in job.gates
        if gate.longest is not None and gate.mean is not None and gate.samples >= limits.samples
        if gate.longest >= limits.longest
        and gate.longest >= limits.ratio * max(gate.mean, limits.min_mean)
    ]
    if not uneven:
        return
    worst, longest, mean = max(uneven, key=lambda gate: (gate[1], gate[0].key))
    yield h.subtask_finding(
        job,
        worst.key,
        next((s.taskmanager for s in job.samples.get(worst.key, ())), None),
        title=f"One channel of {h.subtask_name(job, worst.key)} holds {longest:.0f} buffers, compared with a "
        f"mean of {mean:.1f}",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.SYMPTOM,
        count=len(uneven),
        explain="The sender of this channel waits, but the others do not.",
        measurements=(
            h.measurement("longest-channel", round(longest, 2), "buffers"),
            h.measurement("mean-channel", round(mean, 2), "buffers"),
        ),
        evidence=h.cite((h.gate_evidence(gate), None) for gate, _, _ in uneven),
        ranked=True,
    )


def _by_pools(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Apply the Flink project's table: floating buffers in use, exclusive buffers free, an upstream task waits."""
    windows = h.pressed_windows(job)
    if not windows or (job.version or (9, 0)) < (1, 9):
        return
    loads = h.loads_in(job, windows).values()
    waiting = {load.key.task for load in loads if load.waits and load.wait_measured}
    for key, samples in h.samples_in(job, windows).items():
        floating = h.merged_gauge(samples, "floating")
        exclusive = h.merged_gauge(samples, "exclusive")
        if floating is None or exclusive is None or floating.n < limits.samples:
            continue
        if floating.mean < limits.floating or exclusive.mean > limits.exclusive:
            continue
        if not waiting.intersection(job.topology.upstream.get(key.task, ())):
            continue
        yield h.subtask_finding(
            job,
            key,
            samples[-1].taskmanager,
            title=f"Some channels of {h.subtask_name(job, key)} are full, but others are not",
            confidence=h.Confidence.LOW,
            rank=h.Rank.SYMPTOM,
            explain="Floating buffers go to channels with a backlog. They are used up, while most channels "
            "still have their exclusive buffers. taskmanager.network.detailed-metrics shows which channels these are.",
            measurements=(
                h.measurement("floating-in-use", round(floating.mean, 4), "share"),
                h.measurement("exclusive-in-use", round(exclusive.mean, 4), "share"),
            ),
            evidence=h.records_of(samples, "floating", "exclusive", key=key),
        )
        return


RULE = h.Rule("BP204", judge, Limits, needs="task-metrics")
