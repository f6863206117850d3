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
only: the longest channel at five buffers and four times the mean. Without them, Flink's table (1.9 and
later): floating buffers spent (85 %), exclusive ones mostly free (30 %), and a sender that waits.

What to do
----------
Look at what the sender of that channel sends: skew upstream, or a sender that catches up.

False alarms
------------
During alignment the channels that had their barrier fill up. A remark, not more.
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
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES, FULL
from flowdiag.analyses.queues.facts import GateQueue, JobQueues, joined
from flowdiag.analyses.queues.judging import subtask
from flowdiag.analyses.queues.root import (
    loads_in,
    name_of,
    pressed_windows,
    samples_in,
)
from flowdiag.analyses.rule import Limits, Rule, limit


class UnevenChannelsLimits(Limits):
    """What BP204 compares with."""

    longest: float = limit(5, "buffers", "shorter queues come and go between two samples")
    ratio: float = limit(4, "ratio", "of the longest channel to the mean of its gate")


def judge(job: JobQueues, limits: UnevenChannelsLimits) -> Iterator[Finding | Inconclusive]:
    """One remark per job."""
    uneven = [
        gate
        for gate in job.gates
        if gate.longest is not None
        and gate.mean is not None
        and gate.samples >= ENOUGH_SAMPLES
        and gate.longest >= limits.longest
        and gate.longest >= limits.ratio * max(gate.mean, 0.5)
    ]
    if uneven:
        yield _by_gates(job, uneven)
    elif not job.gates:
        yield from _by_pools(job)


def _by_gates(job: JobQueues, uneven: list[GateQueue]) -> Finding:
    worst = max(uneven, key=lambda gate: (gate.longest or 0.0, gate.key))
    place = next((s.taskmanager for s in job.samples.get(worst.key, ())), None)
    return Finding(
        job=job.job.key,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=subtask(job, worst.key, place),
        title=f"One channel of {name_of(job, worst.key)} holds {worst.longest:.0f} buffers, the mean is "
        f"{worst.mean:.1f}",
        confidence=Confidence.MEDIUM,
        rank=Rank.SYMPTOM,
        count=len(uneven),
        explain="Detailed metrics tell channels apart: one sender waits, the others do not.",
        measurements=(
            Measurement(name="longest-channel", value=round(worst.longest or 0, 2), unit="buffers"),
            Measurement(name="mean-channel", value=round(worst.mean or 0, 2), unit="buffers"),
        ),
        evidence=cite((gate.ref, None) for gate in uneven),
        ranked=True,
    )


def _by_pools(job: JobQueues) -> Iterator[Finding]:
    """Flink's table: floating buffers gone, exclusive ones free, somebody upstream waits."""
    if (job.version or (9, 0)) < (1, 9):
        return
    windows = pressed_windows(job)
    if not windows:
        return
    loads = loads_in(job, windows)
    waiting = {load.key.task for load in loads.values() if load.waits and load.wait_measured}
    for key, each in samples_in(job, windows).items():
        floating = joined(sample.gauges.get("floating") for sample in each)
        exclusive = joined(sample.gauges.get("exclusive") for sample in each)
        if floating is None or exclusive is None or floating.n < ENOUGH_SAMPLES:
            continue
        feeds = any(task in waiting for task in job.topology.upstream.get(key.task, ()))
        if feeds and floating.mean >= FULL and exclusive.mean <= 0.3:
            yield Finding(
                job=job.job.key,
                severity=Severity.INFO,
                state=State.ONGOING,
                subject=subtask(job, key, each[-1].taskmanager),
                title=f"Some channels of {name_of(job, key)} are full, the others are not",
                confidence=Confidence.LOW,
                rank=Rank.SYMPTOM,
                explain="Floating buffers go where the backlog is: they are gone while most channels "
                "still have their own. taskmanager.network.detailed-metrics would say which channel.",
                measurements=(
                    Measurement(
                        name="floating-in-use", value=round(floating.mean, 4), unit="share"
                    ),
                    Measurement(
                        name="exclusive-in-use", value=round(exclusive.mean, 4), unit="share"
                    ),
                ),
                evidence=cite([(each[-1].ref, each[-1].first_us)]),
            )
            return


RULE: Final = Rule("BP204", judge, UnevenChannelsLimits)
