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
DStreams: the offset ranges of the present batches, or those that the executors' logs name; queries: latest less end offsets of the late
triggers, by partition. One of at least three partitions has `ratio` times the mean of the others, and
`floor` records more, in most of them. Only where batches queue, are held back, or a backlog grows.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import Partition
from flowdiag.analyses.rate.model import kafka_ranges
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


@dataclass(frozen=True, slots=True)
class _Uneven:
    """A partition with more than its part."""

    partition: str
    count: int
    others: float  # mean
    partitions: int
    units: int
    of: int


class SkewedPartitionLimits(Limits):
    """What RT310 compares with."""

    ratio: float = limit(3.0, "ratio", "keys spread partitions by less")
    floor: float = limit(1000, "records", "a task reads as many in no time")
    partitions: float = limit(3, "partitions", "of two, one has more")


def judge(assessed: Assessed, limits: SkewedPartitionLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query with such a partition."""
    for state in assessed.dstreams:
        if not j.limited(state) and not j.short_of_time(state):
            continue
        late = rate_state.late_window(assessed.app.completed)
        counts = []
        for batch in late:
            by: dict[str, int] = defaultdict(int)
            for stream in batch.streams:
                for one in kafka_ranges(stream.description):
                    by[f"{one.topic}-{one.partition}"] += one.count
            counts.append(by)
        found = uneven(counts, limits)
        cited = j.of_batches(late)
        if found is None and not any(counts):
            # Nothing describes the batches: what the tasks of executors say of all of them.
            found, cited = _read_by_tasks(assessed.app.partitions, limits), ()
        if found is not None:
            cited = cited or cite(
                (one.ref, None) for one in assessed.app.partitions if one.name == found.partition
            )
            yield _finding(assessed, None, found, limits.ratio, cited)
    for query, state in assessed.queries:
        waiting = state.stability in (Stability.OVERLOADED, Stability.THROTTLED)
        if not waiting or state.backlog is None or not state.backlog.rises:
            continue
        triggers = rate_state.late_triggers(query.triggers)
        waits: list[Mapping[str, int]] = []
        for trigger in triggers:
            behind: dict[str, int] = {}
            for source in trigger.sources:
                behind |= _unseen(source)
                behind |= source.get("partitions") or {}
            waits.append(behind)
        found = uneven(waits, limits)
        if found is not None:
            name = query.name or query.id
            yield _finding(assessed, name, found, limits.ratio, j.of_triggers(triggers))


def _read_by_tasks(told: Sequence[Partition], limits: SkewedPartitionLimits) -> _Uneven | None:
    """The same from the mean of what the tasks read of each partition."""
    means = {one.name: round(one.records / max(1, one.tasks)) for one in told}
    found = uneven([means] * rate_state.FEW, limits)
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


def _unseen(source: Mapping[str, object]) -> dict[str, int]:
    """Stand-ins for the partitions of a large topic that are not kept: at most as far behind."""
    kept, count = source.get("partitions") or {}, source.get("partition_count") or 0
    if not isinstance(kept, dict) or not isinstance(count, int) or not kept:
        return {}
    least = min(kept.values())
    return {f"?{number}": least for number in range(max(0, min(count, 10_000) - len(kept)))}


def uneven(counts: Sequence[Mapping[str, int]], limits: SkewedPartitionLimits) -> _Uneven | None:
    """The partition that has more than its part in most of the units, if one has."""
    known = [by for by in counts if by and any(by.values())]
    if len(known) < rate_state.FEW:
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
    if times[name] < rate_state.MOSTLY * len(known):
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
    limit: float,
    cited: tuple[Evidence, ...],
) -> Finding:
    app = assessed.app
    total = found.count + found.others * (found.partitions - 1)
    share = found.count / max(1.0, total)
    ratio = found.count / max(found.others, 1.0)
    what = f"has {share:.0%} of the backlog" if query else f"brings {share:.0%} of the records"
    units = "triggers" if query else "batches"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=Subject(
            kind="partition",
            job_name=app.name,
            application=app.application,
            query=query,
            partition=found.partition,
        ),
        title=(
            f"Partition {found.partition} {what} of {found.partitions} partitions, and stands out in "
            f"{found.units} of {found.of} {units}"
        ),
        explain="One task reads it, and the batch is as long as that task.",
        why=f"{what} of {found.partitions} partitions",
        cause="data-skew",
        rank=Rank.ROOT_CAUSE,
        last_us=app.last_us,
        count=found.units,
        measurements=(
            Measurement(
                name="ratio",
                value=round(ratio, 2),
                unit="ratio",
                threshold=limit,
                population=f"{found.partitions} partitions in {found.of} {units}",
            ),
            Measurement(
                name="records", value=found.count, unit="records", population=f"over {units}"
            ),
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


RULE: Final = Rule("RT310", judge, SkewedPartitionLimits)
