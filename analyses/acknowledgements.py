"""Who acknowledged a failed checkpoint when, and what the shape of it along the graph says.

Three shapes tell sicknesses apart (measured on recorded clusters, ten Flink versions):

- *slow snapshot*: a subtask is late and everything downstream acknowledged before it, since a task
  passes the barrier on before it takes its snapshot;
- *stuck barrier*: a subtask of a vertex and all subtasks of every vertex downstream are late, the
  latter together with it or never;
- *uniform*: whole vertices are late or missing, and no subtask stands out.

Late messages name only those that acknowledged after the expiry. What the others did follows in part
from the barriers' way: nobody can be in time if all subtasks of a vertex upstream were late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from flowdiag.analyses.episodes import Episode
from flowdiag.analyses.facts import Checkpoint, JobFacts, Ref, Status
from flowdiag.analyses.options import at_least
from flowdiag.analyses.placement import SubtaskKey
from flowdiag.analyses.topology import Topology

# Acknowledgements of one cascade arrive within milliseconds; the order within is no cause.
CASCADE_MS: Final = 1_000.0
# Two subtasks of a vertex whose acknowledgements lie this far apart did not wait for the same thing:
# at least this, and at least this part of the time-out.
APART_MS: Final = 2_000.0
APART_SHARE: Final = 0.25


class Shape(StrEnum):
    """What the late and missing acknowledgements of one checkpoint look like."""

    SLOW_SNAPSHOT = "slow-snapshot"
    STUCK_BARRIER = "stuck-barrier"
    ONE_LATE = "one-late"  # one of the two above: nothing says whether downstream was in time
    UNIFORM = "uniform"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """The shape of one checkpoint: the subtasks that stand out, most upstream, and their vertex."""

    checkpoint: Checkpoint
    shape: Shape
    task: str | None = None
    laggards: frozenset[SubtaskKey] = frozenset()
    refs: tuple[Ref, ...] = ()


NEVER: Final = float("inf")
# Milliseconds after the trigger; inf: never. Somebody in time of whom no more is known counts as just
# in time: nothing must follow from how early it may have been.
Times = Mapping[SubtaskKey, float]


def late_readings(job: JobFacts, episode: Episode, topology: Topology) -> list[Reading]:
    """Shapes from the late messages alone, one per expired checkpoint that has any."""
    by_checkpoint: dict[tuple[int, int], dict[SubtaskKey, float]] = defaultdict(dict)
    refs: dict[tuple[int, int], list[Ref]] = defaultdict(list)
    for late in job.late:
        task = topology.canonical(late.attempt.task)
        index = late.attempt.subtask_index
        if not late.expired or task is None or index is None:
            continue
        after = late.after_trigger_ms
        by_checkpoint[late.run, late.checkpoint][SubtaskKey(task, index)] = (
            float(after) if after is not None else 1.0
        )
        refs[late.run, late.checkpoint].append(late.ref)
    readings = []
    told = at_least(job.version, 1, 11) is not False
    for checkpoint in episode.checkpoints:
        times = by_checkpoint.get((checkpoint.run, checkpoint.id))
        if checkpoint.status is not Status.EXPIRED or not times:
            continue
        limit = limit_of(checkpoint)
        if limit is None:
            continue
        full, certain = _complete(times, topology, limit, notified=told)
        readings.append(
            read_shape(
                checkpoint,
                full,
                topology,
                downstream_known=certain,
                refs=refs[checkpoint.run, checkpoint.id],
            )
        )
    return readings


def limit_of(checkpoint: Checkpoint) -> float | None:
    """Milliseconds from the trigger to the expiry."""
    if checkpoint.duration_ms is not None:
        return float(checkpoint.duration_ms)
    if checkpoint.triggered_us is None or checkpoint.ended_us is None:
        return None
    return (checkpoint.ended_us - checkpoint.triggered_us) / 1000


def _complete(
    late: Times, topology: Topology, limit: float, *, notified: bool
) -> tuple[dict[SubtaskKey, float], bool]:
    """Say of the subtasks without a late message whether they were in time or never acknowledged.

    Args:
        late: milliseconds after the trigger.
        topology: the graph.
        limit: the time-out, in the same unit.
        notified: whether tasks are told that a checkpoint is dead (1.11+), so that one that had not
            yet seen the barrier sends nothing at all.

    Returns:
        Times of all subtasks, and whether those downstream of the late ones are known.
    """
    times: dict[SubtaskKey, float] = {}
    certain = not notified
    whole: set[str] = set()
    for task in topology.tasks:
        mine = {key: after for key, after in late.items() if key.task == task}
        size = max(topology.parallelism[task], 1 + max((k.subtask_index for k in mine), default=-1))
        behind_whole = any(before in whole for before in topology.upstream[task])
        absent = NEVER if behind_whole else limit
        for index in range(size):
            key = SubtaskKey(task, index)
            times[key] = mine.get(key, absent)
        if size and all(times[SubtaskKey(task, i)] > limit for i in range(size)):
            whole.add(task)
        certain = certain or behind_whole
    return times, certain


def reported_readings(job: JobFacts, episode: Episode, topology: Topology) -> list[Reading]:
    """Shapes from per-subtask acknowledgements (REST, archive, DEBUG dump), one per checkpoint."""
    failed = {c.id: c for c in episode.checkpoints if c.status is Status.EXPIRED}
    by_checkpoint: dict[int, dict[SubtaskKey, float]] = defaultdict(dict)
    refs: dict[int, list[Ref]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        task = topology.canonical(row.task)
        if row.checkpoint not in failed or task is None or row.source == "debug":
            continue
        limit = limit_of(failed[row.checkpoint])
        if limit is None:
            continue
        after = NEVER
        if row.acknowledged:
            after = float(row.end_to_end_ms) if row.end_to_end_ms is not None else limit
        by_checkpoint[row.checkpoint][SubtaskKey(task, row.subtask_index)] = after
        if after > limit and row.ref is not None:
            refs[row.checkpoint].append(row.ref)
    return [
        read_shape(failed[number], times, topology, downstream_known=True, refs=refs[number])
        for number, times in sorted(by_checkpoint.items())
        if any(after > (limit_of(failed[number]) or 0.0) for after in times.values())
    ]


def read_shape(
    checkpoint: Checkpoint,
    times: Times,
    topology: Topology,
    *,
    downstream_known: bool,
    refs: Iterable[Ref] = (),
) -> Reading:
    """Find the most upstream vertex in which some subtasks lag behind their siblings.

    Sources are passed over if a vertex further down has laggards too: a source of the old kind
    waits for the checkpoint lock while it is back-pressured, and is a victim then.
    """
    cited = tuple(refs)
    limit = limit_of(checkpoint) or 0.0
    by_task: dict[str, dict[SubtaskKey, float]] = defaultdict(dict)
    for key, after in times.items():
        by_task[key.task][key] = after
    partial = []
    late = []
    for task in sorted(by_task, key=topology.order):
        laggards = _laggards(by_task[task], limit)
        if any(after > limit for after in by_task[task].values()):
            late.append(task)
        # A majority that is late together got its barrier late: the one to blame is upstream.
        if laggards and len(laggards) * 2 <= len(by_task[task]):
            partial.append((task, laggards))
        elif (
            laggards
            and len(by_task[task]) == 1
            and not any(before in late for before in topology.upstream.get(task, ()))
        ):
            partial.append((task, laggards))  # parallelism 1, and everything upstream in time
    chosen = next((item for item in partial if item[0] not in topology.sources), None)
    if chosen is None and partial:
        # A source alone may be to blame; one among late vertices is a victim of back pressure.
        beyond = [task for task in late if task not in topology.sources]
        chosen = partial[0] if not beyond or len(partial[0][1]) == 1 else None
    if chosen is None:
        return Reading(checkpoint, Shape.UNIFORM if late else Shape.UNKNOWN, refs=cited)
    task, laggards = chosen
    shape = _shape(task, laggards, by_task, topology, limit, downstream_known)
    return Reading(checkpoint, shape, task, laggards, cited)


def _laggards(times: Times, limit: float) -> frozenset[SubtaskKey]:
    """The subtasks of one vertex that were not in time, and much later than their siblings.

    One that never acknowledged was at least as late as the expiry; among siblings that were late it
    was later than they.
    """
    overdue = {key for key, after in times.items() if after > limit}
    if len(times) == 1:
        return frozenset(overdue)
    some_late = any(limit < times[key] < NEVER for key in times)
    effective = {
        key: (limit if after == NEVER and not some_late else after) for key, after in times.items()
    }
    apart = max(APART_MS, APART_SHARE * limit)
    ranked = sorted(times, key=lambda key: (effective[key], times[key], key))
    for number, (before, key) in enumerate(pairwise(ranked), start=1):
        if key in overdue and effective[key] - effective[before] >= apart:
            return frozenset(ranked[number:])
    return frozenset()


def _shape(
    task: str,
    laggards: frozenset[SubtaskKey],
    by_task: Mapping[str, Times],
    topology: Topology,
    limit: float,
    downstream_known: bool,
) -> Shape:
    mine = min(by_task[task][key] for key in laggards)
    behind = [
        after for other in topology.downstream(task) for after in by_task.get(other, {}).values()
    ]
    if not behind:
        return Shape.ONE_LATE
    if mine == NEVER:
        passed_on = any(after < NEVER for after in behind)
    else:
        passed_on = any(after < mine - CASCADE_MS for after in behind)
    if not passed_on:
        return Shape.STUCK_BARRIER
    told = downstream_known or any(limit < after < NEVER for after in behind)
    return Shape.SLOW_SNAPSHOT if told else Shape.ONE_LATE
