"""One partition of a topic has most of the records.

What it reports
---------------
A Kafka partition that brings most of the records of the batches, or in which most of a query's
backlog waits.

Why it matters
--------------
A partition is read by one task: the batch is as long as that one takes, and limits that are split by
lag give it no more than its share.

How it decides
--------------
DStreams: the offset ranges of the present batches, or those that the executors' logs name; queries:
latest less end offsets of the late triggers, by partition. One of at least `partitions` partitions
has `ratio` times the mean of the others, and `floor` records more, in `share` of them (`fewest` at
least). Only where batches queue, are held back, or a backlog grows.

What to do
----------
Write with another key, or repartition behind the source; `minPartitions` splits one partition over
several tasks.

False alarms
------------
A partition that was behind for another reason, such as a broker that was away, and catches up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flowdiag.analyses.rate.facts import Partition
from flowdiag.analyses.rate.judging import partition_subject
from flowdiag.analyses.rate.kit import (
    Action,
    Assessed,
    Batch,
    Evidence,
    Finding,
    Inconclusive,
    Iterator,
    Limits,
    Rank,
    Rule,
    Sequence,
    Stability,
    Trigger,
    cite,
    late_triggers,
    late_window,
    limit,
    limited,
    measured,
    of_application,
    present,
    records_of,
    short_of_time,
)
from flowdiag.analyses.rate.model import kafka_ranges


@dataclass(frozen=True, slots=True)
class _Uneven:
    """A partition with more than its part."""

    partition: str
    count: int
    others: float  # mean
    partitions: int
    units: int
    of: int


class Skew(Limits):
    """What RT310 compares with."""

    ratio: float = limit(3.0, "ratio", "keys spread partitions by less")
    floor: float = limit(1000, "records", "a task reads as many in no time")
    partitions: float = limit(3, "partitions", "of two, one has more")
    share: float = limit(present.MOSTLY, "share", "of the present batches")
    fewest: float = limit(present.FEW, "batches", "fewer are chance")


def judge(assessed: Assessed, limits: Skew) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query with such a partition."""
    app = assessed.app
    late = late_window(app.completed)
    for state in assessed.dstreams:
        if not limited(state) and not short_of_time(state):
            continue
        counts = [_read(batch) for batch in late]
        found, cited = uneven(counts, limits), records_of(late)
        if found is None and not any(counts):
            # Nothing describes the batches: what the tasks of executors say of all of them.
            found, cited = _read_by_tasks(app.partitions, limits), ()
        if found is not None:
            told = (one for one in app.partitions if one.name == found.partition)
            cited = cited or cite((one.ref, None) for one in told)
            yield _finding(assessed, None, found, cited, limits)
    for query, state in assessed.queries:
        waiting = state.stability in (Stability.OVERLOADED, Stability.THROTTLED)
        if not waiting or state.backlog is None or not state.backlog.rises:
            continue
        triggers = late_triggers(query.triggers)
        found = uneven([_waiting(trigger) for trigger in triggers], limits)
        if found is not None:
            yield _finding(assessed, query.name or query.id, found, records_of(triggers), limits)


def _read(batch: Batch) -> Mapping[str, int]:
    """The records of a batch by partition."""
    by: dict[str, int] = defaultdict(int)
    for stream in batch.streams:
        for one in kafka_ranges(stream.description):
            by[f"{one.topic}-{one.partition}"] += one.count
    return by


def _waiting(trigger: Trigger) -> Mapping[str, int]:
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


def _read_by_tasks(told: Sequence[Partition], limits: Skew) -> _Uneven | None:
    """The same from the mean of what the tasks read of each partition."""
    means = {one.name: round(one.records / max(1, one.tasks)) for one in told}
    found = uneven([means] * max(1, int(limits.fewest)), limits)
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


def uneven(counts: Sequence[Mapping[str, int]], limits: Skew) -> _Uneven | None:
    """The partition that has more than its part in most of the units, if one has."""
    known = [by for by in counts if by and any(by.values())]
    if len(known) < limits.fewest:
        return None
    times: dict[str, int] = defaultdict(int)
    for by in known:
        first = max(sorted(by), key=lambda name: by[name])
        others = [count for name, count in by.items() if name != first]
        if len(by) < limits.partitions or not others:
            continue
        mean = sum(others) / len(others)
        if by[first] >= limits.ratio * mean and by[first] - mean >= limits.floor:
            times[first] += 1
    if not times:
        return None
    name = max(sorted(times), key=lambda one: times[one])
    if times[name] < limits.share * len(known):
        return None
    names = set().union(*known)
    rest = sum(count for by in known for other, count in by.items() if other != name)
    return _Uneven(
        partition=name,
        count=sum(by.get(name, 0) for by in known),
        others=rest / max(1, len(names) - 1),
        partitions=len(names),
        units=times[name],
        of=len(known),
    )


def _finding(
    assessed: Assessed,
    query: str | None,
    found: _Uneven,
    cited: tuple[Evidence, ...],
    limits: Skew,
) -> Finding:
    share = found.count / max(1.0, found.count + found.others * (found.partitions - 1))
    what = f"has {share:.0%} of the backlog" if query else f"brings {share:.0%} of the records"
    units = "triggers" if query else "batches"
    return of_application(
        assessed,
        subject=partition_subject(assessed.app, found.partition, query),
        title=f"Partition {found.partition} {what} of {found.partitions} partitions, and stands out "
        f"in {found.units} of {found.of} {units}",
        explain="One task reads it, and the batch is as long as that task.",
        why=f"{what} of {found.partitions} partitions",
        cause="data-skew",
        rank=Rank.ROOT_CAUSE,
        count=found.units,
        measurements=(
            measured(
                "ratio",
                round(found.count / max(found.others, 1.0), 2),
                "ratio",
                limits.ratio,
                over=f"{found.partitions} partitions in {found.of} {units}",
            ),
            measured("records", found.count, "records", over=f"over {units}"),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Spread the keys that this partition has",
                verify="offset ranges by partition",
            ),
            Action(
                text="Split what one partition brings over several tasks",
                option="minPartitions" if query else None,
                restart_needed=True,
                verify="tasks of the first stage",
            ),
        ),
    )


RULE = Rule("RT310", judge, Skew, causes=("data-skew",))
