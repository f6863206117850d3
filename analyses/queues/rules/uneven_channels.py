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
from flowdiag.analyses.queues.helpers import (
    Confidence,
    Evidence,
    Finding,
    Focus,
    GateQueue,
    Iterator,
    JobQueues,
    Limits,
    Rank,
    Rule,
    cite,
    focused,
    joined,
    limit,
    loads_in,
    measured,
    name_of,
    of_subtask,
    pressed_windows,
    records_of,
    samples_in,
)


class Uneven(Limits):
    """What BP204 compares with."""

    longest: float = limit(5, "buffers", "shorter queues come and go between two samples")
    ratio: float = limit(4, "ratio", "of the longest channel to the mean of its gate")
    least_mean: float = limit(0.5, "buffers", "anything is a multiple of an empty gate's mean")
    floating: float = limit(FULL, "share", "of the floating buffers: they went where backlog is")
    exclusive: float = limit(0.3, "share", "of the exclusive buffers: most channels have theirs")
    samples: float = limit(5, "samples", "single ones are racy")


def judge(job: JobQueues, limits: Uneven) -> Iterator[Finding]:
    """One remark per job."""
    uneven = [gate for gate in job.gates if _is_uneven(gate, limits)]
    if uneven:
        yield _by_gates(job, uneven)
    elif not job.gates:
        yield from _by_pools(job, limits)


def _is_uneven(gate: GateQueue, limits: Uneven) -> bool:
    if gate.longest is None or gate.mean is None or gate.samples < limits.samples:
        return False
    mean = max(gate.mean, limits.least_mean)
    return gate.longest >= limits.longest and gate.longest >= limits.ratio * mean


def _told(gate: GateQueue) -> Evidence | None:
    names = (f"{group}.Input.{gate.gate}.maxQueueLen" for group in ("Shuffle.Netty", "Network"))
    return focused(
        gate.ref,
        Focus(
            metrics=tuple((name, gate.longest) for name in names),
            task=gate.key.task,
            subtask_index=gate.key.subtask_index,
        ),
    )


def _by_gates(job: JobQueues, uneven: list[GateQueue]) -> Finding:
    worst = max(uneven, key=lambda gate: (gate.longest or 0.0, gate.key))
    longest, mean = worst.longest or 0.0, worst.mean or 0.0
    return of_subtask(
        job,
        worst.key,
        next((s.taskmanager for s in job.samples.get(worst.key, ())), None),
        title=f"One channel of {name_of(job, worst.key)} holds {longest:.0f} buffers, the mean is "
        f"{mean:.1f}",
        confidence=Confidence.MEDIUM,
        rank=Rank.SYMPTOM,
        count=len(uneven),
        explain="Detailed metrics tell channels apart: one sender waits, the others do not.",
        measurements=(
            measured("longest-channel", round(longest, 2), "buffers"),
            measured("mean-channel", round(mean, 2), "buffers"),
        ),
        evidence=cite((_told(gate), None) for gate in uneven),
        ranked=True,
    )


def _by_pools(job: JobQueues, limits: Uneven) -> Iterator[Finding]:
    """Flink's table: floating buffers gone, exclusive ones free, somebody upstream waits."""
    windows = pressed_windows(job)
    if not windows or (job.version or (9, 0)) < (1, 9):
        return
    loads = loads_in(job, windows)
    waiting = {load.key.task for load in loads.values() if load.waits and load.wait_measured}
    for key, each in samples_in(job, windows).items():
        floating = joined(sample.gauges.get("floating") for sample in each)
        exclusive = joined(sample.gauges.get("exclusive") for sample in each)
        if floating is None or exclusive is None or floating.n < limits.samples:
            continue
        if floating.mean < limits.floating or exclusive.mean > limits.exclusive:
            continue
        if not waiting.intersection(job.topology.upstream.get(key.task, ())):
            continue
        yield of_subtask(
            job,
            key,
            each[-1].taskmanager,
            title=f"Some channels of {name_of(job, key)} are full, the others are not",
            confidence=Confidence.LOW,
            rank=Rank.SYMPTOM,
            explain="Floating buffers go where the backlog is: they are gone while most channels "
            "still have their own. taskmanager.network.detailed-metrics would say which channel.",
            measurements=(
                measured("floating-in-use", round(floating.mean, 4), "share"),
                measured("exclusive-in-use", round(exclusive.mean, 4), "share"),
            ),
            evidence=records_of(each, "floating", "exclusive", key=key),
        )
        return


RULE: Final = Rule("BP204", judge, Uneven)
