"""Determines records and backlog by topic partition, and whether one partition has most of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flowdiag.analyses.rate.facts import Batch, Partition, Trigger
from flowdiag.analyses.rate.model import kafka_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLimits:
    """Limits above which a partition stands out.

    Args:
        ratio: minimum ratio to the mean of the others.
        floor: minimum number of records above that mean.
        partitions: minimum number of partitions.
        share: minimum share of the batches or triggers in which the partition stands out.
        fewest: minimum number of batches or triggers.
    """

    ratio: float
    floor: float
    partitions: float
    share: float
    fewest: float


@dataclass(frozen=True, slots=True)
class UnevenPartition:
    """A partition that stands out, and the number of batches or triggers that show it."""

    partition: str
    count: int
    others: float  # mean
    partitions: int
    units: int
    of: int


def records_by_partition(batch: Batch) -> Mapping[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for stream in batch.streams:
        for taken in kafka_ranges(stream.description):
            counts[f"{taken.topic}-{taken.partition}"] += taken.count
    return counts


def backlog_by_partition(trigger: Trigger) -> Mapping[str, int]:
    """Return the backlog that a trigger left, by partition.

    Progress reports contain only the worst partitions of a large topic. Placeholders with the smallest of
    these backlogs replace the others.
    """
    behind: dict[str, int] = {}
    for source in trigger.sources:
        kept, count = source.get("partitions") or {}, source.get("partition_count") or 0
        if isinstance(kept, dict) and isinstance(count, int) and kept:
            missing = max(0, min(count, 10_000) - len(kept))
            behind |= {f"?{number}": min(kept.values()) for number in range(missing)}
        behind |= kept
    return behind


def uneven_by_tasks(
    partitions: Sequence[Partition], least: PartitionLimits
) -> UnevenPartition | None:
    """Return the partition that stands out by the mean number of records its tasks read, or None."""
    means = {one.name: round(one.records / max(1, one.tasks)) for one in partitions}
    found = uneven_partition([means] * max(1, int(least.fewest)), least)
    if found is None:
        return None
    tasks = max(one.tasks for one in partitions)
    counts = {one.name: one.records for one in partitions}
    rest = sum(counts.values()) - counts[found.partition]
    return replace(
        found,
        count=counts[found.partition],
        others=rest / max(1, len(counts) - 1),
        units=tasks,
        of=tasks,
    )


def _largest(counts: Mapping[str, int], least: PartitionLimits) -> str | None:
    """Return the partition that stands out in one batch or trigger, or None."""
    first = max(sorted(counts), key=lambda name: counts[name])
    others = [count for name, count in counts.items() if name != first]
    if len(counts) < least.partitions or not others:
        return None
    mean = sum(others) / len(others)
    stands_out = counts[first] >= least.ratio * mean and counts[first] - mean >= least.floor
    return first if stands_out else None


def uneven_partition(
    units: Sequence[Mapping[str, int]], least: PartitionLimits
) -> UnevenPartition | None:
    """Return the partition that stands out in most of the batches or triggers, or None."""
    known = [counts for counts in units if counts and any(counts.values())]
    times = Counter(name for counts in known if (name := _largest(counts, least)))
    if len(known) < least.fewest or not times:
        return None
    name = max(sorted(times), key=lambda partition: times[partition])
    if times[name] < least.share * len(known):
        return None
    names = set().union(*known)
    count = sum(counts.get(name, 0) for counts in known)
    rest = sum(sum(counts.values()) for counts in known) - count
    return UnevenPartition(
        partition=name,
        count=count,
        others=rest / max(1, len(names) - 1),
        partitions=len(names),
        units=times[name],
        of=len(known),
    )
