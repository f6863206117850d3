"""From a job and its settings to the moving parts: subtasks, links, and how segments are shared out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Final

from flowdiag.analyses.queues.credits.job import Edge, Flow, Job, ModelError
from flowdiag.analyses.queues.credits.parts import Gate, Link, Partition, Subtask
from flowdiag.analyses.queues.credits.static import (
    consumers,
    flow_rates,
    is_source,
    limit,
    ordered,
    shares,
)

MOST_CHANNELS: Final = 10_000
MOST_PARCELS: Final = 200_000
ENDLESS: Final = 1e12
_CRUMBS: Final = 8  # parcels that a buffer should hold at least


def parcel(job: Job, flow: Flow, end_ms: float) -> int:
    """Records that move together: few enough for a smooth flow, enough for a quick answer."""
    rates = flow_rates(job)
    share = limit(job)
    processed = sum(rates.values()) * share * end_ms / 1000.0
    needed = math.ceil(processed / MOST_PARCELS)
    largest = max(task.record_bytes for task in job.tasks)
    size = flow.segment_bytes / (4 if flow.debloating is not None else 1)
    comfortable = max(1, int(size / largest / _CRUMBS))
    return max(needed, min(comfortable, max(1, math.ceil(processed / 60_000))))


def built(job: Job, flow: Flow) -> list[Subtask]:
    """The subtasks of a job, linked, with their buffers; ModelError where they are too many."""
    tasks = ordered(job)
    known: dict[tuple[str, int], Subtask] = {}
    for task in tasks:
        if not task.service_ms or any(not 0 <= s < ENDLESS for s in task.service_ms):
            raise ModelError(f"'{task.name}' needs a time per record for each subtask")
        if not 0 < task.record_bytes < ENDLESS:
            raise ModelError(f"'{task.name}': records need bytes")
        source = is_source(job, task)
        if source and min(task.service_ms) <= 0:
            raise ModelError(f"the source '{task.name}' needs a rate")
        for index, service in enumerate(task.service_ms):
            place = task.taskmanagers[index] if index < len(task.taskmanagers) else None
            known[task.name, index] = Subtask(
                task,
                index,
                source,
                service,
                place if place is not None else f"{task.name}/{index}",
            )
    if flow.per_channel < 0 or flow.floating < 0 or flow.per_channel + flow.floating < 1:
        raise ModelError("a channel needs a buffer: exclusive or floating")
    if flow.segment_bytes < 1:
        raise ModelError("a buffer needs bytes")
    channels = 0
    for task in tasks:
        for edge in (e for e in job.edges if e.upstream == task.name):
            down = next(t for t in tasks if t.name == edge.downstream)
            for index in range(task.parallelism):
                to = consumers(edge, task, down, index)
                channels += len(to)
                if channels > MOST_CHANNELS:
                    raise ModelError(f"more than {MOST_CHANNELS} channels")
                _connect(known[task.name, index], [known[down.name, i] for i in to], edge, flow, to)
    subtasks = list(known.values())
    for subtask in subtasks:
        gate = subtask.gate
        if gate is not None:
            remote = [link for link in gate.links if not link.local]
            gate.floating = gate.floating_free = flow.floating if remote else 0
            gate.own = len(remote) * flow.per_channel + gate.floating
            start = flow.debloating.start_bytes if flow.debloating is not None else None
            gate.size = gate.announced = float(start or flow.segment_bytes)
            for link in gate.links:
                link.size = min(gate.size, float(flow.segment_bytes))
    if flow.segments is not None:
        _share_out(subtasks, flow)
    return subtasks


def _connect(
    producer: Subtask, consumers: list[Subtask], edge: Edge, flow: Flow, indexes: list[int]
) -> None:
    partition = Partition(
        owner=producer,
        links=[],
        size=max(len(consumers) + 1, len(consumers) * flow.per_channel + flow.floating),
        most=flow.most_per_channel,
        overdraft=flow.overdraft,
        cumulative=list(itertools.accumulate(shares(edge, indexes))),
        selectivity=edge.selectivity,
        broadcast=edge.pattern == "BROADCAST",
        spread=edge.pattern in {"REBALANCE", "RESCALE"},
    )
    for consumer in consumers:
        local = producer.place == consumer.place
        link = Link(producer, consumer, partition, local)
        if not local:
            link.exclusive_free = link.required = flow.per_channel
        partition.links.append(link)
        if consumer.gate is None:
            consumer.gate = Gate([], 0, 0, 0)
        consumer.gate.links.append(link)
    producer.partitions.append(partition)


def _share_out(subtasks: Iterable[Subtask], flow: Flow) -> None:
    """Give each pool its least, and its part of what a TaskManager has left.

    Raises:
        ModelError: there are fewer segments than the pools require.
    """
    places: dict[str, list[Subtask]] = {}
    for subtask in subtasks:
        places.setdefault(subtask.place, []).append(subtask)
    for place, mine in places.items():
        pools: list[tuple[int, int, Callable[[int], None]]] = []
        fixed = 0
        for subtask in mine:
            gate = subtask.gate
            if gate is not None and gate.floating:
                fixed += gate.own - gate.floating
                pools.append((1, gate.floating, _bound_size(gate)))
            for partition in subtask.partitions:
                pools.append((len(partition.links) + 1, partition.size, _bound_pool(partition)))
        total = flow.segments or 0
        spare = total - fixed - sum(least for least, _, _ in pools)
        if spare < 0:
            raise ModelError(
                f"{place} needs {total - spare} network buffers and has {total}: it would not start"
            )
        wanted = [min(spare, max(0, most - least)) for least, most, _ in pools]
        to_give = min(spare, sum(wanted))
        asked = given = 0
        for (least, _, resize), want in zip(pools, wanted, strict=True):
            asked += want
            part = to_give * asked // sum(wanted) - given if sum(wanted) else 0
            given += part
            resize(least + part)


def _bound_size(gate: Gate) -> Callable[[int], None]:
    def resize(size: int) -> None:
        gate.own += size - gate.floating
        gate.floating = gate.floating_free = size

    return resize


def _bound_pool(partition: Partition) -> Callable[[int], None]:
    def resize(size: int) -> None:
        partition.size = size

    return resize
