"""Whether inputs are full: usage of the buffers first, queue length against capacity where it may convict.

Flink exposes no credits. What stands for them: all exclusive buffers of the remote channels in use and the
floating pool empty means that a sender gets no credit; the channels that it waits for are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import ENOUGH_SAMPLES
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.queues.facts import JobQueues, Sample, joined
from flowdiag.analyses.queues.proof import told_in
from flowdiag.analyses.queues.root import find_spells, loads_in, samples_in

SPENT: Final = 0.95
"""Of exclusive and of floating buffers: rounding and races leave it below one."""
NEARLY: Final = 0.9
"""Of the capacity: the last buffers come and go."""
OLD_POOL: Final = (1, 9)
"""Before, a buffer that was not flushed yet counted as backlog, and full pools were usual."""


def saturated_share(job: JobQueues, key: SubtaskKey, each: Sequence[Sample]) -> float | None:
    """About which share of the samples shows a full input; None where nothing can tell.

    Up to 1.8, and where no producer is local, the queue length against the capacity; from 1.9 on the usage
    of exclusive and floating buffers, which know the remote channels only.
    """
    capacity = job.capacity.get(key)
    floating = joined(sample.gauges.get("floating") for sample in each)
    exclusive = joined(sample.gauges.get("exclusive") for sample in each)
    if floating is not None and exclusive is not None:
        if capacity is not None and not capacity.remote:
            return None  # every producer is local: these two are always 0
        return min(floating.share_above(SPENT), exclusive.share_above(SPENT))
    queue = joined(sample.gauges.get("input_queue") for sample in each)
    if queue is not None and capacity is not None and capacity.buffers and capacity.convicts:
        return queue.share_above(NEARLY * capacity.buffers)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """A subtask whose input is full in much of the time.

    Args:
        share: of the samples, about.
        samples: how many there are.
        waits: whether the subtask itself waits for those downstream.
        upstream: whether somebody before it has no output buffers left or waits.
        told: the last report of it.
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
    told: Evidence | None


def full_inputs(job: JobQueues, least: float) -> list[Full]:
    """The subtasks whose input is full in at least such a share of the samples, of five and more."""
    spells = [spell for spell in find_spells(job) if not spell.ordinary]
    windows = spells[0].windows if spells and spells[0].windows else None
    loads = loads_in(job, windows)
    found = []
    for key, each in samples_in(job, windows).items():
        share = saturated_share(job, key, each)
        gauge = joined(
            sample.gauges.get("floating") or sample.gauges.get("input_queue") for sample in each
        )
        if share is None or share < least or gauge is None or gauge.n < ENOUGH_SAMPLES:
            continue
        queue = joined(sample.gauges.get("input_queue") for sample in each)
        capacity = job.capacity.get(key)
        load = loads[key]
        before = job.topology.upstream.get(key.task, ())
        found.append(
            Full(
                key=key,
                taskmanager=each[-1].taskmanager,
                host=each[-1].host,
                share=share,
                samples=gauge.n,
                queue=None if queue is None else queue.mean,
                capacity=None if capacity is None else capacity.total,
                waits=load.waits,
                upstream=any(other.waits for other in loads.values() if other.key.task in before),
                told=told_in(each[-1], ("floating", "input_queue", "in_pool"), key),
            )
        )
    return found
