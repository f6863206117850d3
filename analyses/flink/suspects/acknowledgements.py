"""Describes the pattern of late and missing acknowledgements along the job graph.

Three shapes distinguish faults (measured on recorded clusters with ten Flink versions):

- *slow snapshot*: a subtask is late, but everything downstream acknowledged before it, because tasks
  forward the barrier before they take their snapshot
- *stuck barrier*: a subtask of a vertex and all subtasks downstream of it are late; those downstream
  acknowledge together with it or never
- *uniform*: whole vertices are late or missing, and no subtask stands out

Late messages name only subtasks that acknowledged after the expiry. The path of the barriers reveals some
of the rest: no subtask is on time if all subtasks of an upstream vertex were late.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink.failures.episodes import Episode
from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Status
from flowdiag.analyses.flink.options import is_at_least
from flowdiag.analyses.flink.tasks.placement import SubtaskKey, late_records
from flowdiag.analyses.flink.tasks.topology import Topology, topology_of
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Cited

# Acknowledgements of one cascade arrive within milliseconds, in an order that shows no cause.
CASCADE_MS: Final = 1_000.0
# If acknowledgements of a vertex's subtasks are this far apart, the subtasks did not wait for the same
# thing. Both the minimum time and the share of the timeout must be exceeded.
APART_MS: Final = 2_000.0
APART_SHARE: Final = 0.25
APART_TIMES: Final = 2.0


class Shape(StrEnum):
    """The pattern of late and missing acknowledgements of one checkpoint."""

    SLOW_SNAPSHOT = "slow-snapshot"
    STUCK_BARRIER = "stuck-barrier"
    ONE_LATE = "one-late"  # one of the above; unknown whether downstream was on time
    UNIFORM = "uniform"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """The shape of one checkpoint.

    `task` is the frontier: the most upstream vertex that was not on time. `laggards` are its
    subtasks that lag far behind their siblings. `whole` means that there are none, so that the vertex is
    probably late as a whole. `overdue` contains all its subtasks that were not on time.
    """

    checkpoint: Checkpoint
    shape: Shape
    task: str | None = None
    laggards: frozenset[SubtaskKey] = frozenset()
    whole: bool = False
    overdue: frozenset[SubtaskKey] = frozenset()
    refs: tuple[Cited, ...] = ()


NEVER: Final = float("inf")
# Milliseconds after the trigger; inf means never. A subtask that was on time at an unknown moment counts
# as just in time, so that no conclusion depends on how early it was.
Times = Mapping[SubtaskKey, float]


@dataclass(frozen=True, slots=True)
class LateMessages:
    """The late messages of a job by checkpoint, with their records and milliseconds after the trigger."""

    times: Mapping[tuple[int, int], Mapping[SubtaskKey, float]]
    refs: Mapping[tuple[int, int], Mapping[SubtaskKey, Cited]]


@once
def late_messages(job: JobFacts) -> LateMessages:
    """Return the late messages of expired checkpoints, with tasks named as in the graph."""
    topology = topology_of(job)
    times: dict[tuple[int, int], dict[SubtaskKey, float]] = defaultdict(dict)
    refs: dict[tuple[int, int], dict[SubtaskKey, Cited]] = defaultdict(dict)
    for late in job.late:
        task, index = topology.canonical(late.attempt.task), late.attempt.subtask_index
        if not late.expired or task is None or index is None or late.after_trigger_ms is None:
            continue
        key = SubtaskKey(task, index)
        times[late.run, late.checkpoint][key] = float(late.after_trigger_ms)
        refs[late.run, late.checkpoint][key] = late.ref
    return LateMessages(times, refs)


def late_readings(job: JobFacts, episode: Episode, topology: Topology) -> list[Reading]:
    """Return the shapes of expired checkpoints with late messages, based on these messages alone."""
    late = late_messages(job)
    readings = []
    notified = is_at_least(job.version, 1, 11) is not False
    for checkpoint in episode.checkpoints:
        identity = (checkpoint.run, checkpoint.id)
        times, limit = late.times.get(identity), limit_of(checkpoint)
        if checkpoint.status is not Status.EXPIRED or not times or limit is None:
            continue
        vertices, certain = _complete_times(times, topology, limit, notified=notified)
        readings.append(
            _read(
                checkpoint, vertices, topology, downstream_known=certain, refs=late.refs[identity]
            )
        )
    return readings


def limit_of(checkpoint: Checkpoint) -> float | None:
    """Return the time from the trigger to the expiry in milliseconds."""
    if checkpoint.duration_ms is not None:
        return float(checkpoint.duration_ms)
    if checkpoint.triggered_us is None or checkpoint.ended_us is None:
        return None
    return (checkpoint.ended_us - checkpoint.triggered_us) / 1000


@dataclass(frozen=True, slots=True)
class _Vertex:
    """When the subtasks of a vertex acknowledged: the subtasks in `reported` individually, all others at `rest_at`.

    A single time for the others keeps vertices with thousands of subtasks cheap.
    """

    task: str
    reported: Times
    size: int
    rest_at: float

    @property
    def has_rest(self) -> bool:
        """Whether some subtasks are missing from `reported`."""
        return len(self.reported) < self.size

    def has_time(self, test: Callable[[float], bool]) -> bool:
        """Return whether the acknowledgement time of any subtask passes a test."""
        return any(map(test, self.reported.values())) or (self.has_rest and test(self.rest_at))

    def unreported(self) -> Iterator[SubtaskKey]:
        if self.has_rest:
            for index in range(self.size):
                key = SubtaskKey(self.task, index)
                if key not in self.reported:
                    yield key


def _complete_times(
    late: Times, topology: Topology, limit: float, *, notified: bool
) -> tuple[dict[str, _Vertex], bool]:
    """Infer, for subtasks without a late message, whether they were on time or never acknowledged.

    Args:
        late: milliseconds after the trigger.
        topology: the graph.
        limit: the timeout, in the same unit.
        notified: whether tasks are notified of aborted checkpoints (1.11+), so that a task that has not
            received the barrier by then sends nothing.

    Returns:
        the times of all subtasks by task, and whether the times downstream of late ones are known.
    """
    vertices: dict[str, _Vertex] = {}
    certain = not notified
    whole: set[str] = set()
    by_task: dict[str, dict[SubtaskKey, float]] = {}
    for key, after in late.items():
        if key.subtask_index >= 0:
            by_task.setdefault(key.task, {})[key] = after
    for task in topology.tasks:
        mine = by_task.get(task, {})
        size = max(topology.parallelism[task], 1 + max((k.subtask_index for k in mine), default=-1))
        behind_whole = bool(whole) and any(before in whole for before in topology.upstream[task])
        if size:
            vertex = _Vertex(task, mine, size, NEVER if behind_whole else limit)
            vertices[task] = vertex
            if not vertex.has_time(lambda after: after <= limit):
                whole.add(task)
        certain = certain or behind_whole
    return vertices, certain


def reported_readings(job: JobFacts, episode: Episode, topology: Topology) -> list[Reading]:
    """Return the readings from per-subtask acknowledgements (REST, archive, DEBUG dump).

    Up to Flink 1.11, these lack late acknowledgements, which are filled in from the late messages.
    """
    late = late_messages(job)
    rows = late_records(job).acknowledgements
    readings = []
    for checkpoint in sorted(episode.checkpoints, key=lambda each: each.id):
        limit = limit_of(checkpoint)
        # REST and archives describe the last run. Their IDs may also occur in earlier runs.
        if checkpoint.status is not Status.EXPIRED or checkpoint.run != job.runs or limit is None:
            continue
        late_times = late.times.get((checkpoint.run, checkpoint.id), {})
        times: dict[SubtaskKey, float] = {}
        refs: dict[SubtaskKey, Cited] = {}
        for row in rows.get(checkpoint.id, ()):
            task = topology.canonical(row.task)
            if task is None or row.source == "debug":
                continue
            key = SubtaskKey(task, row.subtask_index)
            after = late_times.get(key, NEVER)
            if row.acknowledged:
                after = float(row.end_to_end_ms) if row.end_to_end_ms is not None else limit
            times[key] = min(times.get(key, NEVER), after)
            if after > limit and row.cited is not None:
                refs[key] = row.cited
        if any(after > limit for after in times.values()):
            readings.append(
                read_shape(checkpoint, times, topology, downstream_known=True, refs=refs)
            )
    return readings


def read_shape(
    checkpoint: Checkpoint,
    times: Times,
    topology: Topology,
    *,
    downstream_known: bool,
    refs: Mapping[SubtaskKey, Cited] | None = None,
) -> Reading:
    """Find the frontier and its laggards.

    Subtasks that are late together and form a majority are not laggards: the whole vertex received its
    barriers late or takes long to process the data before them.
    """
    by_task: dict[str, dict[SubtaskKey, float]] = defaultdict(dict)
    for key, after in times.items():
        by_task[key.task][key] = after
    vertices = {
        task: _Vertex(task, reported, len(reported), NEVER) for task, reported in by_task.items()
    }
    return _read(checkpoint, vertices, topology, downstream_known=downstream_known, refs=refs)


def _read(
    checkpoint: Checkpoint,
    vertices: Mapping[str, _Vertex],
    topology: Topology,
    *,
    downstream_known: bool,
    refs: Mapping[SubtaskKey, Cited] | None,
) -> Reading:
    limit = limit_of(checkpoint) or 0.0
    late = [
        task for task, vertex in vertices.items() if vertex.has_time(lambda after: after > limit)
    ]
    if not late:
        return Reading(checkpoint, Shape.UNKNOWN)
    task = min(late, key=topology.order)
    vertex = vertices[task]
    overdue = frozenset(key for key, after in vertex.reported.items() if after > limit)
    if vertex.has_rest and vertex.rest_at > limit:
        overdue |= frozenset(vertex.unreported())
    laggards = _laggards(vertex, limit)
    if not laggards or len(laggards) * 2 > vertex.size:
        cited = _laggard_records(refs, vertex.reported)
        return Reading(checkpoint, Shape.UNIFORM, task, whole=True, overdue=overdue, refs=cited)
    shape = _shape(vertex, laggards, vertices, topology, limit, downstream_known)
    cited = _laggard_records(refs, laggards)
    return Reading(checkpoint, shape, task, laggards, overdue=overdue, refs=cited)


def _laggard_records(
    refs: Mapping[SubtaskKey, Cited] | None, keys: Iterable[SubtaskKey]
) -> tuple[Cited, ...]:
    """Return the records of the laggards. Records of their victims are left out."""
    return tuple(refs[key] for key in sorted(keys) if refs and key in refs)


def _laggards(vertex: _Vertex, limit: float) -> frozenset[SubtaskKey]:
    """Return the subtasks of a vertex that were not on time and much later than their siblings.

    A subtask that never acknowledged is at least as late as the expiry, and later than any late sibling.
    """
    some_late = vertex.has_time(lambda after: limit < after < NEVER)
    ranked = sorted(
        (limit if after == NEVER and not some_late else after, after, key)
        for key, after in vertex.reported.items()
    )
    if vertex.has_rest:  # the rest share one time, so one entry represents them all
        after = vertex.rest_at
        rest = SubtaskKey(vertex.task, -1)
        insort(ranked, (limit if after == NEVER and not some_late else after, after, rest))
    apart = max(APART_MS, APART_SHARE * limit)
    for number, ((ahead, _, _), (effective, after, _)) in enumerate(pairwise(ranked), start=1):
        if after <= limit or effective - ahead < apart:
            continue
        # If all are late, the amount of data before the barriers differs, and only a multiple stands out.
        if ahead <= limit or effective >= APART_TIMES * ahead:
            found = {key for _, _, key in ranked[number:]}
            if vertex.has_rest and rest in found:
                found = (found - {rest}).union(vertex.unreported())
            return frozenset(found)
    return frozenset()


def _shape(
    vertex: _Vertex,
    laggards: frozenset[SubtaskKey],
    vertices: Mapping[str, _Vertex],
    topology: Topology,
    limit: float,
    downstream_known: bool,
) -> Shape:
    mine = min(vertex.reported.get(key, vertex.rest_at) for key in laggards)
    behind = [vertices[task] for task in topology.downstream(vertex.task) if task in vertices]
    if not behind:
        return Shape.ONE_LATE
    before = NEVER if mine == NEVER else mine - CASCADE_MS
    if not any(other.has_time(lambda after: after < before) for other in behind):
        return Shape.STUCK_BARRIER
    known = downstream_known or any(
        other.has_time(lambda after: limit < after < NEVER) for other in behind
    )
    return Shape.SLOW_SNAPSHOT if known else Shape.ONE_LATE
