"""One input channel is full and the others are not.

What it reports
---------------
Subtasks whose longest remote channel holds several times what its channels hold on average.

Why it matters
--------------
A full channel stops its sender even where the others are empty; alignment waits for it.

How it decides
--------------
Queue lengths per gate, which exist with `taskmanager.network.detailed-metrics` only and for remote channels
only: the `longest` channel at some buffers and a `ratio` to the mean, which counts as `least-mean` where it is
less. Without them, Flink's table (1.9 and later): `floating` buffers spent, no more than `exclusive` of the
others in use, and a sender that waits. With less than `samples` it says nothing.

What to do
----------
Look at what the sender of that channel sends: skew upstream, or a sender that catches up.

False alarms
------------
During alignment the channels that had their barrier fill up. A remark, not more.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.pressure import FULL
from flowdiag.analyses.queues import helpers as h


class Uneven(h.Limits):
    """What BP204 compares with."""

    longest: float = h.limit(5, "buffers", "shorter queues come and go between two samples")
    ratio: float = h.limit(4, "ratio", "of the longest channel to the mean of its gate")
    least_mean: float = h.limit(0.5, "buffers", "anything is a multiple of an empty gate's mean")
    floating: float = h.limit(FULL, "share", "of the floating buffers: they went where backlog is")
    exclusive: float = h.limit(0.3, "share", "of the exclusive buffers: most channels have theirs")
    samples: float = h.limit(5, "samples", "single ones are racy")


def judge(job: h.JobQueues, limits: Uneven) -> h.Iterator[h.Finding]:
    """One remark per job."""
    uneven = [gate for gate in job.gates if _is_uneven(gate, limits)]
    if uneven:
        yield _by_gates(job, uneven)
    elif not job.gates:
        yield from _by_pools(job, limits)


def _is_uneven(gate: h.GateQueue, limits: Uneven) -> bool:
    if gate.longest is None or gate.mean is None or gate.samples < limits.samples:
        return False
    mean = max(gate.mean, limits.least_mean)
    return gate.longest >= limits.longest and gate.longest >= limits.ratio * mean


def _told(gate: h.GateQueue) -> h.Evidence | None:
    names = (f"{group}.Input.{gate.gate}.maxQueueLen" for group in ("Shuffle.Netty", "Network"))
    return h.focused(
        gate.ref,
        h.Focus(
            metrics=tuple((name, gate.longest) for name in names),
            task=gate.key.task,
            subtask_index=gate.key.subtask_index,
        ),
    )


def _by_gates(job: h.JobQueues, uneven: list[h.GateQueue]) -> h.Finding:
    worst = max(uneven, key=lambda gate: (gate.longest or 0.0, gate.key))
    longest, mean = worst.longest or 0.0, worst.mean or 0.0
    return h.subtask_finding(
        job,
        worst.key,
        next((s.taskmanager for s in job.samples.get(worst.key, ())), None),
        title=f"One channel of {h.subtask_name(job, worst.key)} holds {longest:.0f} buffers, the mean is "
        f"{mean:.1f}",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.SYMPTOM,
        count=len(uneven),
        explain="Detailed metrics tell channels apart: one sender waits, the others do not.",
        measurements=(
            h.measurement("longest-channel", round(longest, 2), "buffers"),
            h.measurement("mean-channel", round(mean, 2), "buffers"),
        ),
        evidence=h.cite((_told(gate), None) for gate in uneven),
        ranked=True,
    )


def _by_pools(job: h.JobQueues, limits: Uneven) -> h.Iterator[h.Finding]:
    """Flink's table: floating buffers gone, exclusive ones free, somebody upstream waits."""
    windows = h.pressed_windows(job)
    if not windows or (job.version or (9, 0)) < (1, 9):
        return
    loads = h.loads_in(job, windows)
    waiting = {load.key.task for load in loads.values() if load.waits and load.wait_measured}
    for key, each in h.samples_in(job, windows).items():
        floating = h.joined(sample.gauges.get("floating") for sample in each)
        exclusive = h.joined(sample.gauges.get("exclusive") for sample in each)
        if floating is None or exclusive is None or floating.n < limits.samples:
            continue
        if floating.mean < limits.floating or exclusive.mean > limits.exclusive:
            continue
        if not waiting.intersection(job.topology.upstream.get(key.task, ())):
            continue
        yield h.subtask_finding(
            job,
            key,
            each[-1].taskmanager,
            title=f"Some channels of {h.subtask_name(job, key)} are full, the others are not",
            confidence=h.Confidence.LOW,
            rank=h.Rank.SYMPTOM,
            explain="Floating buffers go where the backlog is: they are gone while most channels "
            "still have their own. taskmanager.network.detailed-metrics would say which channel.",
            measurements=(
                h.measurement("floating-in-use", round(floating.mean, 4), "share"),
                h.measurement("exclusive-in-use", round(exclusive.mean, 4), "share"),
            ),
            evidence=h.records_of(each, "floating", "exclusive", key=key),
        )
        return


RULE: Final = h.Rule("BP204", judge, Uneven)
