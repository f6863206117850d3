"""Builds the parts of the model from a job and its settings: subtasks, links and buffer pools."""

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
    shares,
    sustainable_share,
    topological_order,
)

MOST_CHANNELS: Final = 10_000
MOST_PARCELS: Final = 200_000
ENDLESS: Final = 1e12
_FEWEST_PARCELS: Final = 8  # minimum number of parcels per buffer


def parcel(job: Job, flow: Flow, end_ms: float) -> int:
    """Return how many records the simulation moves at once. Fewer make the flow smoother, more make the run faster."""
    rates = flow_rates(job)
    share = sustainable_share(job)
    processed = sum(rates.values()) * share * end_ms / 1000.0
    needed = math.ceil(processed / MOST_PARCELS)
    largest = max(task.record_bytes for task in job.tasks)
    size = flow.segment_bytes / (4 if flow.debloating is not None else 1)
    comfortable = max(1, int(size / largest / _FEWEST_PARCELS))
    return max(needed, min(comfortable, max(1, math.ceil(processed / 60_000))))


def build(job: Job, flow: Flow) -> list[Subtask]:
    """Return the subtasks of a job, linked, with their buffers.

    Raises:
        ModelError: a parameter is missing or invalid, or there are too many channels.
    """
    _validate(job, flow)
    tasks = {task.name: task for task in topological_order(job)}
    subtasks: dict[tuple[str, int], Subtask] = {}
    for name, task in tasks.items():
        for index, service_ms in enumerate(task.service_ms):
            place = task.taskmanagers[index] if index < len(task.taskmanagers) else None
            place = place if place is not None else f"{name}/{index}"
            subtasks[name, index] = Subtask(task, index, is_source(job, task), service_ms, place)
    channels = 0
    for name, task in tasks.items():
        for edge in (e for e in job.edges if e.upstream == name):
            down = tasks[edge.downstream]
            for index in range(task.parallelism):
                to = consumers(edge, task, down, index)
                channels += len(to)
                if channels > MOST_CHANNELS:
                    raise ModelError(f"more than {MOST_CHANNELS} channels")
                receivers = [subtasks[down.name, i] for i in to]
                _connect(subtasks[name, index], receivers, edge, flow, to)
    _set_gates(subtasks.values(), flow)
    if flow.segments is not None:
        _distribute_segments(subtasks.values(), flow)
    return list(subtasks.values())


def _set_gates(subtasks: Iterable[Subtask], flow: Flow) -> None:
    start = flow.debloating.start_bytes if flow.debloating is not None else None
    for gate in (subtask.gate for subtask in subtasks if subtask.gate is not None):
        remote = sum(not link.local for link in gate.links)
        gate.floating = gate.floating_free = flow.floating if remote else 0
        gate.own = remote * flow.per_channel + gate.floating
        gate.size = gate.announced = float(start or flow.segment_bytes)
        for link in gate.links:
            link.size = min(gate.size, float(flow.segment_bytes))


def _validate(job: Job, flow: Flow) -> None:
    for task in topological_order(job):
        if not task.service_ms or any(not 0 <= s < ENDLESS for s in task.service_ms):
            raise ModelError(f"'{task.name}' needs a time per record for each subtask")
        if not 0 < task.record_bytes < ENDLESS:
            raise ModelError(f"'{task.name}' needs a record size")
        if is_source(job, task) and min(task.service_ms) <= 0:
            raise ModelError(f"the source '{task.name}' needs a rate")
    if flow.per_channel < 0 or flow.floating < 0 or flow.per_channel + flow.floating < 1:
        raise ModelError("a channel needs an exclusive or a floating buffer")
    if flow.segment_bytes < 1:
        raise ModelError("a buffer needs a size of at least 1 byte")


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


def _distribute_segments(subtasks: Iterable[Subtask], flow: Flow) -> None:
    """Give each pool its minimum, then divide the TaskManager's remaining segments among the pools.

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
                pools.append((1, gate.floating, _gate_resizer(gate)))
            for partition in subtask.partitions:
                pools.append(
                    (len(partition.links) + 1, partition.size, _partition_resizer(partition))
                )
        total = flow.segments or 0
        available = total - fixed - sum(least for least, _, _ in pools)
        if available < 0:
            raise ModelError(
                f"{place} needs {total - available} network buffers but has only {total}: it "
                "cannot start"
            )
        requests = [min(available, max(0, most - least)) for least, most, _ in pools]
        to_give = min(available, sum(requests))
        requested = given = 0
        for (least, _, resize), want in zip(pools, requests, strict=True):
            requested += want
            part = to_give * requested // sum(requests) - given if sum(requests) else 0
            given += part
            resize(least + part)


def _gate_resizer(gate: Gate) -> Callable[[int], None]:
    def resize(size: int) -> None:
        gate.own += size - gate.floating
        gate.floating = gate.floating_free = size

    return resize


def _partition_resizer(partition: Partition) -> Callable[[int], None]:
    def resize(size: int) -> None:
        partition.size = size

    return resize
