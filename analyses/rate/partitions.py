"""Partitions of topics: what was read of each, or waits in each, and whether one has most of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flowdiag.analyses.rate.facts import Batch, Partition, Trigger
from flowdiag.analyses.rate.model import kafka_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """From where on a partition has more than its part.

    Args:
        ratio: times the mean of the others.
        floor: records more than that.
        partitions: so many there have to be.
        share: of the batches or triggers in which it is so.
        fewest: so many of these there have to be.
    """

    ratio: float
    floor: float
    partitions: float
    share: float
    fewest: float


@dataclass(frozen=True, slots=True)
class Uneven:
    """A partition with more than its part."""

    partition: str
    count: int
    others: float  # mean
    partitions: int
    units: int
    of: int


def read_by(batch: Batch) -> Mapping[str, int]:
    """The records of a batch by partition."""
    by: dict[str, int] = defaultdict(int)
    for stream in batch.streams:
        for one in kafka_ranges(stream.description):
            by[f"{one.topic}-{one.partition}"] += one.count
    return by


def waiting_by(trigger: Trigger) -> Mapping[str, int]:
    """The backlog that a trigger left behind, by partition."""
    behind: dict[str, int] = {}
    for source in trigger.sources:
        behind |= _unseen(source)
        behind |= source.get("partitions") or {}
    return behind


def _unseen(source: Mapping[str, object]) -> dict[str, int]:
    """Stand-ins for the partitions of a large topic that are not kept: at most as far behind."""
    kept, count = source.get("partitions") or {}, source.get("partition_count") or 0
    if not isinstance(kept, dict) or not isinstance(count, int) or not kept:
        return {}
    least = min(kept.values())
    return {f"?{number}": least for number in range(max(0, min(count, 10_000) - len(kept)))}


def read_by_tasks(told: Sequence[Partition], least: Least) -> Uneven | None:
    """The same from the mean of what the tasks read of each partition."""
    means = {one.name: round(one.records / max(1, one.tasks)) for one in told}
    found = uneven([means] * max(1, int(least.fewest)), least)
    if found is None:
        return None
    tasks = max(one.tasks for one in told)
    counts = {one.name: one.records for one in told}
    rest = sum(counts.values()) - counts[found.partition]
    return replace(
        found,
        count=counts[found.partition],
        others=rest / max(1, len(counts) - 1),
        units=tasks,
        of=tasks,
    )


def uneven(counts: Sequence[Mapping[str, int]], least: Least) -> Uneven | None:
    """The partition that has more than its part in most of the units, if one has."""
    known = [by for by in counts if by and any(by.values())]
    if len(known) < least.fewest:
        return None
    times: dict[str, int] = defaultdict(int)
    for by in known:
        first = max(sorted(by), key=lambda name: by[name])
        others = [count for name, count in by.items() if name != first]
        if len(by) < least.partitions or not others:
            continue
        mean = sum(others) / len(others)
        if by[first] >= least.ratio * mean and by[first] - mean >= least.floor:
            times[first] += 1
    if not times:
        return None
    name = max(sorted(times), key=lambda one: times[one])
    if times[name] < least.share * len(known):
        return None
    names = set().union(*known)
    rest = sum(count for by in known for other, count in by.items() if other != name)
    return Uneven(
        partition=name,
        count=sum(by.get(name, 0) for by in known),
        others=rest / max(1, len(names) - 1),
        partitions=len(names),
        units=times[name],
        of=len(known),
    )
