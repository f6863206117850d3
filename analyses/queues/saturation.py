"""Finds full inputs by buffer usage, or by queue length and capacity if the Flink version allows it.

Flink has no metric for credits. If all exclusive buffers of the remote channels are in use and the floating pool is
empty, a sender gets no credit. The gauges do not show which channels are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import ENOUGH_SAMPLES
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.queues.facts import JobQueues, Sample, merge_gauges
from flowdiag.analyses.queues.loads import loads_in, samples_in
from flowdiag.analyses.queues.proof import evidence_in
from flowdiag.analyses.queues.root import notable_spells

SPENT: Final = 0.95
"""Minimum share of exclusive and of floating buffers in use: rounding and races keep full pools below 1."""
NEARLY: Final = 0.9
"""Minimum share of the capacity in use. A full queue repeatedly releases its last buffers for a moment."""
OLD_POOL: Final = (1, 9)
"""The first version that does not count an unflushed buffer as backlog. In earlier versions, full pools are normal.
"""


def saturated_share(job: JobQueues, key: SubtaskKey, samples: Sequence[Sample]) -> float | None:
    """Return the approximate share of the samples with a full input, or None if unknown.

    Up to Flink 1.8 without local producers, this compares the queue length with the capacity. From Flink 1.9 on, it
    uses the usage of exclusive and floating buffers, which covers remote channels only.
    """
    capacity = job.capacity.get(key)
    floating = merge_gauges(sample.gauges.get("floating") for sample in samples)
    exclusive = merge_gauges(sample.gauges.get("exclusive") for sample in samples)
    if floating is not None and exclusive is not None:
        if capacity is not None and not capacity.remote:
            return None  # if all producers are local, both gauges are always 0
        return min(floating.share_above(SPENT), exclusive.share_above(SPENT))
    queue = merge_gauges(sample.gauges.get("input_queue") for sample in samples)
    if (
        queue is not None
        and capacity is not None
        and capacity.buffers
        and capacity.has_only_own_buffers
    ):
        return queue.share_above(NEARLY * capacity.buffers)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FullInput:
    """A subtask whose input is full much of the time.

    Args:
        share: approximate share of the samples with a full input.
        samples: number of samples.
        waits: whether the subtask itself waits for downstream tasks.
        upstream: whether an upstream task waits.
        evidence: the subtask's last report.
    """

    key: SubtaskKey
    taskmanager: str | None
    host: str | None
    share: float
    samples: int
    queue: float | None
    capacity: int | None
    waits: bool
    upstream: bool
    evidence: Evidence | None


def full_inputs(job: JobQueues, least: float) -> list[FullInput]:
    """Return the subtasks with at least five samples whose input is full in at least the share `least` of them."""
    _, windows = notable_spells(job)
    loads = loads_in(job, windows)
    found = []
    for key, samples in samples_in(job, windows).items():
        share = saturated_share(job, key, samples)
        gauge = merge_gauges(
            s.gauges.get("floating") or s.gauges.get("input_queue") for s in samples
        )
        if share is None or share < least or gauge is None or gauge.n < ENOUGH_SAMPLES:
            continue
        queue = merge_gauges(sample.gauges.get("input_queue") for sample in samples)
        capacity = job.capacity.get(key)
        before = job.topology.upstream.get(key.task, ())
        found.append(
            FullInput(
                key=key,
                taskmanager=samples[-1].taskmanager,
                host=samples[-1].host,
                share=share,
                samples=gauge.n,
                queue=None if queue is None else queue.mean,
                capacity=None if capacity is None else capacity.total,
                waits=loads[key].waits,
                upstream=any(load.waits for load in loads.values() if load.key.task in before),
                evidence=evidence_in(samples[-1], ("floating", "input_queue", "in_pool"), key),
            )
        )
    return found
