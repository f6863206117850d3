"""Tests whether late subtasks are overrepresented on one TaskManager.

An observation is a distinct subtask that was late or missing in one episode. Under the null hypothesis,
the late subtasks of a vertex are a random choice among its subtasks. Each vertex is therefore permuted
separately. This cancels out TaskManagers that run many subtasks of a late vertex, and late tasks downstream
of a culprit. If `n` of a vertex's `N` subtasks run on a TaskManager and `L` are late, the number of late
ones there is hypergeometric. The distributions of several vertices are convolved exactly. A subtask that
is late in several episodes without being moved counts as one draw with more weight. The distribution of
the sum of weights over a random choice of `n` subtasks is exact, too.

p-values are one-sided (at least as many late as observed) and multiplied by the number of TaskManagers
compared. With few TaskManagers, they cannot get small, so they support a verdict but never decide it.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import comb
from typing import Final, NamedTuple

from flowdiag.analyses.flink.failures.episodes import Episode, episodes
from flowdiag.analyses.flink.job import Attempt, JobFacts, Status, SubtaskCheckpoint
from flowdiag.analyses.flink.options import is_at_least
from flowdiag.analyses.model.derived import once

MINIMUM_DISTINCT: Final = 5  # late subtasks; fewer make a p-value meaningless
_MOST_WEIGHT: Final = 5_000  # beyond this, an exact p-value takes seconds


class SubtaskKey(NamedTuple):
    """A subtask of a vertex, identified by task name or, if that is unknown, by vertex ID."""

    task: str
    subtask_index: int


class Observation(NamedTuple):
    """A subtask that was late or missing in one episode."""

    episode: int
    subtask: SubtaskKey
    taskmanager: str | None


class Pattern(StrEnum):
    """How the late subtasks are distributed."""

    NONE = "none"
    ONE_SUBTASK = "one-subtask"  # one hot or slow subtask
    ONE_TASKMANAGER = "one-taskmanager"  # all its subtasks: the host is to blame
    WHOLE_VERTICES = "whole-vertices"  # uniform: no subtask stands out
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One row of the TaskManager table.

    `late` counts observations (distinct late or missing subtasks, summed over episodes). `expected` is
    the number that the placement of their vertices explains, and `ratio` is late / expected. Both are None
    if the placement of the other subtasks is unknown. `p_value` is corrected for the number of
    TaskManagers, and None below five distinct late subtasks. Logs before 1.8 identify a TaskManager only by
    its host.
    """

    taskmanager: str
    host: str | None
    subtasks: int
    late: int
    expected: float | None = None
    ratio: float | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The TaskManager table, the number of distinct late subtasks, and their pattern."""

    shares: tuple[Share, ...]
    observations: tuple[Observation, ...]
    distinct: int
    pattern: Pattern
    subtask: SubtaskKey | None = None  # set with ONE_SUBTASK
    taskmanager: str | None = None  # set with ONE_TASKMANAGER, and with ONE_SUBTASK


Places = Mapping[SubtaskKey, str]  # where each subtask ran


@dataclass(frozen=True, slots=True)
class Layout:
    """A deployment: where each subtask runs, and how often it was late.

    `drawn` contains the weight of each subtask, for each task with late subtasks. For each TaskManager, `here`
    contains how many of these subtasks it runs, and `late` their weights. `complete` means that the place of every
    subtask of these tasks is known, not only those of late subtasks.
    """

    where: Places
    managers: frozenset[str]
    drawn: Mapping[str, Sequence[int]]
    here: Mapping[str, Counter[str]]
    late: Counter[str]
    complete: bool

    @classmethod
    def of(
        cls, weights: Mapping[SubtaskKey, int], where: Places, sizes: Mapping[str, int]
    ) -> Layout:
        """Group the subtasks of a deployment by task."""
        drawn: dict[str, list[int]] = defaultdict(list)
        here: dict[str, Counter[str]] = defaultdict(Counter)
        late: Counter[str] = Counter()
        tasks = {key.task for key in weights}
        for key, manager in where.items():
            if key.task in tasks:
                weight = weights.get(key, 0)
                drawn[key.task].append(weight)
                here[key.task][manager] += 1
                late[manager] += weight
        complete = all(0 < sizes.get(task, 0) <= len(drawn[task]) for task in tasks)
        return cls(where, frozenset(where.values()), drawn, here, late, complete)


def shares(job: JobFacts) -> tuple[Share, ...]:
    """Return the TaskManagers of a job, most conspicuous first."""
    return place_all(job).shares


def subtask_key(attempt: Attempt) -> SubtaskKey | None:
    task = attempt.task or attempt.vertex_id
    if task is None or attempt.subtask_index is None:
        return None
    return SubtaskKey(task, attempt.subtask_index)


def taskmanager_label(attempt: Attempt) -> str | None:
    """Return the resource ID of the TaskManager or, before Flink 1.8, its host."""
    return attempt.taskmanager or attempt.host


@dataclass(frozen=True, slots=True)
class SubtaskPlaces:
    """Where all subtasks of a job ran at one time, which `number` identifies."""

    number: int
    attempts: Mapping[SubtaskKey, Attempt]
    labels: Mapping[SubtaskKey, str]


class PlaceHistory:
    """The places of a job's subtasks over time: the last deployment before a time or, without one, the first after
    it.

    To move from one time to another, the class applies only the deployments in between.
    """

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        ranked = []
        for place, attempt in enumerate(attempts):
            key = subtask_key(attempt)
            if key is not None:
                rank = (attempt.deployed_us or 0, attempt.attempt or 0, -place)
                ranked.append((key, rank, attempt))
        self._first: dict[SubtaskKey, tuple[bool, tuple[int, int, int], Attempt]] = {}
        for key, (when, number, place), attempt in ranked:
            early = attempt.deployed_us is None
            rank = (when if early else -when, number, place)
            if key not in self._first or (early, rank) > self._first[key][:2]:
                self._first[key] = (early, rank, attempt)
        self._deployed = sorted(
            (item for item in ranked if item[2].deployed_us is not None),
            key=lambda item: item[1][0],
        )
        self._times = [rank[0] for _, rank, _ in self._deployed]
        self._rewind()

    def _rewind(self) -> None:
        self._best = dict(self._first)
        attempts = {key: attempt for key, (_, _, attempt) in self._best.items()}
        labels = {
            key: name
            for key, attempt in attempts.items()
            if (name := taskmanager_label(attempt)) is not None
        }
        self._now = SubtaskPlaces(0, attempts, labels)

    def at(self, time_us: int | None) -> SubtaskPlaces:
        """Return the places at a time, or the last known places if the time is None."""
        number = len(self._times) if time_us is None else bisect(self._times, time_us)
        if number < self._now.number:
            self._rewind()
        if number > self._now.number:
            attempts, labels = dict(self._now.attempts), dict(self._now.labels)
            for key, rank, attempt in self._deployed[self._now.number : number]:
                early, before, _ = self._best[key]
                if early and rank <= before:
                    continue
                self._best[key] = (True, rank, attempt)
                attempts[key] = attempt
                name = taskmanager_label(attempt)
                if name is None:
                    labels.pop(key, None)
                else:
                    labels[key] = name
            self._now = SubtaskPlaces(number, attempts, labels)
        return self._now


@once
def _history(job: JobFacts) -> PlaceHistory:
    return PlaceHistory(job.attempts)


def subtask_places(job: JobFacts, time_us: int | None) -> SubtaskPlaces:
    return _history(job).at(time_us)


@dataclass(frozen=True, slots=True)
class LateRecords:
    """The records of late subtasks by checkpoint. The lookup must be fast, because a bad week has thousands of
    episodes.

    Args:
        messages: late messages of expired checkpoints by run and checkpoint, each with subtask and TaskManager.
        acknowledgements: per subtask from REST, archives and dumps, by checkpoint. Only acknowledgements of the last
            run count, because earlier runs may have the same IDs.
        last_run: number of the job's last run.
    """

    messages: Mapping[tuple[int, int], Sequence[tuple[SubtaskKey, str | None]]]
    acknowledgements: Mapping[int, Sequence[SubtaskCheckpoint]]
    last_run: int


@once
def late_records(job: JobFacts) -> LateRecords:
    messages: defaultdict[tuple[int, int], list[tuple[SubtaskKey, str | None]]] = defaultdict(list)
    for late in job.late:
        key = subtask_key(late.attempt) if late.expired else None
        if key is not None:
            messages[late.run, late.checkpoint].append((key, taskmanager_label(late.attempt)))
    acknowledgements: defaultdict[int, list[SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        acknowledgements[row.checkpoint].append(row)
    return LateRecords(dict(messages), dict(acknowledgements), job.runs)


def late_subtasks(records: LateRecords, episode: Episode) -> dict[SubtaskKey, str | None]:
    """Return the distinct subtasks that were late for or missing from an episode's expired checkpoints.

    Returns:
        their TaskManagers, or None if unknown. Sources are late messages (which name the place from 1.9 on)
        and per-subtask acknowledgements of REST, archives and dumps that are missing or later than the
        expiry.
    """
    expired = [c for c in episode.checkpoints if c.status is Status.EXPIRED]
    found: dict[SubtaskKey, str | None] = {}
    for checkpoint in expired:
        for key, manager in records.messages.get((checkpoint.run, checkpoint.id), ()):
            found[key] = found.get(key) or manager
    for checkpoint in expired:
        if checkpoint.run != records.last_run:
            continue
        for row in records.acknowledgements.get(checkpoint.id, ()):
            task = row.task or row.vertex_id
            if task is not None and _was_missed(row, checkpoint.duration_ms):
                key = SubtaskKey(task, row.subtask_index)
                found[key] = found.get(key) or row.taskmanager
    return found


def _was_missed(row: SubtaskCheckpoint, duration_ms: int | None) -> bool:
    """Return whether a subtask acknowledged an expired checkpoint too late or not at all."""
    if (
        row.end_to_end_ms is not None
        and duration_ms is not None
        and row.end_to_end_ms > duration_ms
    ):
        return True
    # DEBUG lines of a TaskManager show snapshots that started, not missing barriers.
    return not row.acknowledged and row.source != "debug"


def unmatched_late(job: JobFacts) -> dict[SubtaskKey, str | None]:
    """Return the late subtasks of checkpoints that the log does not otherwise mention.

    From Flink 1.19 on, late messages are written only for expired checkpoints. Earlier messages may belong to
    a declined checkpoint and are not counted.
    """
    if not is_at_least(job.version, 1, 19):
        return {}
    ended = {(c.run, c.id) for c in job.checkpoints if c.status is not Status.IN_FLIGHT}
    found: dict[SubtaskKey, str | None] = {}
    for late in job.late:
        key = subtask_key(late.attempt)
        if key is not None and not late.expired and (late.run, late.checkpoint) not in ended:
            found[key] = found.get(key) or taskmanager_label(late.attempt)
    return found


Signature = frozenset[tuple[SubtaskKey, str]]
"""A deployment: the TaskManager of each subtask."""


def _observe_late_subtasks(
    job: JobFacts, groups: Iterable[tuple[Mapping[SubtaskKey, str | None], int | None]]
) -> tuple[list[Observation], dict[Signature, Counter[SubtaskKey]]]:
    """Return the place of each late subtask and, for each deployment, how often each subtask was late.

    Args:
        job: the job.
        groups: late subtasks with the TaskManager from their message, and the time.
    """
    observations: list[Observation] = []
    weights_of: dict[Signature, Counter[SubtaskKey]] = {}
    # Most episodes share a few deployments, so each difference is computed once.
    known: dict[tuple[int, Signature], Counter[SubtaskKey]] = {}
    for number, (late, last_us) in enumerate(groups):
        if not late:
            continue
        there = subtask_places(job, last_us)
        # The late message is more reliable than a deployment line.
        moved = {
            key: manager
            for key, manager in late.items()
            if manager is not None and there.labels.get(key) != manager
        }
        differs = (there.number, frozenset(moved.items()))
        if differs not in known:
            signature = frozenset({**there.labels, **moved}.items())
            known[differs] = weights_of.setdefault(signature, Counter())
        weights = known[differs]
        for key in sorted(late):
            manager = moved[key] if key in moved else there.labels.get(key)
            observations.append(Observation(number, key, manager))
            weights[key] += manager is not None
    return observations, weights_of


def place(
    job: JobFacts, chosen: Sequence[Episode] | None = None, *, named_only: bool = False
) -> Placement:
    """Find a pattern in the placement of a job's late subtasks.

    Args:
        job: the job.
        chosen: the episodes to evaluate. By default all of them, plus late messages whose expiry record
            is missing.
        named_only: whether to limit the table to the TaskManager that the pattern implicates.
    """
    looked_at = episodes(job) if chosen is None else tuple(chosen)
    records = late_records(job)
    groups = [(late_subtasks(records, episode), episode.last_us) for episode in looked_at]
    if chosen is None:
        groups.append((unmatched_late(job), job.last_us))
    observations, weights_of = _observe_late_subtasks(job, groups)
    sizes = _parallelism(job)
    layouts = [
        Layout.of(weights, dict(signature), sizes) for signature, weights in weights_of.items()
    ]
    distinct = len({observation.subtask for observation in observations})
    pattern, subtask, manager = _pattern(observations, layouts, sizes)
    rows: list[Share] = []
    if not named_only or pattern is Pattern.ONE_TASKMANAGER:
        counted = Counter(
            subtask_places(job, looked_at[-1].last_us if looked_at else None).labels.values()
        )
        managers = sorted(set(counted).union(*(layout.managers for layout in layouts)))
        rows = _shares(
            job,
            managers,
            [manager] if named_only and manager else managers,
            counted,
            layouts,
            distinct,
        )
    return Placement(
        shares=tuple(sorted(rows, key=lambda s: (-s.late, -(s.ratio or 0.0), s.taskmanager))),
        observations=tuple(observations),
        distinct=distinct,
        pattern=pattern,
        subtask=subtask,
        taskmanager=manager,
    )


@once
def place_all(job: JobFacts) -> Placement:
    return place(job)


@once
def _hosts(job: JobFacts) -> Mapping[str | None, str | None]:
    """Return the host of each TaskManager in attempts and late messages."""
    hosts = {taskmanager_label(a): a.host for a in job.attempts if a.host}
    return hosts | {
        taskmanager_label(item.attempt): item.attempt.host for item in job.late if item.attempt.host
    }


@once
def _parallelism(job: JobFacts) -> dict[str, int]:
    """Return the parallelism of each task, from the graph or the attempts."""
    found: dict[str, int] = {}
    if job.graph is not None:
        found = {vertex.task: vertex.parallelism for vertex in job.graph.vertices}
    for attempt in (*job.attempts, *(late.attempt for late in job.late)):
        task = attempt.task or attempt.vertex_id
        if task is not None and attempt.parallelism:
            found[task] = max(found.get(task, 0), attempt.parallelism)
    for row in job.subtask_checkpoints:
        task = row.task or row.vertex_id
        if task is not None:
            found[task] = max(found.get(task, 0), row.subtask_index + 1)
    return found


def _shares(
    job: JobFacts,
    managers: Sequence[str],
    selected: Iterable[str],
    counted: Mapping[str, int],
    layouts: Sequence[Layout],
    distinct: int,
) -> list[Share]:
    hosts = _hosts(job)
    late: Counter[str] = Counter()
    expected: defaultdict[str, Fraction] = defaultdict(Fraction)
    populations: defaultdict[str, list[tuple[Sequence[int], int]]] = defaultdict(list)
    for layout in layouts:
        late.update(layout.late)
        for task, drawn in layout.drawn.items():
            weight = sum(drawn)
            if not weight:
                continue
            for manager, here in layout.here[task].items():
                expected[manager] += Fraction(weight * here, len(drawn))
                populations[manager].append((drawn, here))
    complete = bool(layouts) and all(layout.complete for layout in layouts)
    tails = Tails()
    rows = []
    for manager in selected:
        share = Share(
            taskmanager=manager,
            host=hosts.get(manager),
            subtasks=counted.get(manager, 0),
            late=late[manager],
        )
        if complete:
            expectation, p_value = expected[manager], None
            if distinct >= MINIMUM_DISTINCT and len(managers) > 1:
                tail = tails.upper(populations[manager], share.late)
                p_value = None if tail is None else float(f"{min(1.0, tail * len(managers)):.3g}")
            share = replace(
                share,
                expected=round(float(expectation), 3),
                ratio=round(float(share.late / expectation), 3) if expectation else None,
                p_value=p_value,
            )
        rows.append(share)
    return rows


class Tails:
    """Calculates the probability that the late weights on a TaskManager reach a given sum. All calculations share a
    cache.

    Two of four subtasks are late, two of the four run on this TaskManager, and both late ones are among them:

    >>> round(Tails().upper([([1, 1, 0, 0], 2)], 2), 4)
    0.1667
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], dict[int, int]] = {}
        self._found: dict[tuple[tuple[tuple[int, int], ...], int], float | None] = {}
        # Keeps the weights alive, so that no other object gets their identity.
        self._kept: list[Sequence[int]] = []

    def upper(
        self, populations: Iterable[tuple[Sequence[int], int]], observed: int
    ) -> float | None:
        """Return the probability that the late weights on a TaskManager reach at least `observed`.

        Args:
            populations: per vertex and deployment, the weight of each subtask (the number of episodes
                in which it was late) and the number of subtasks on the TaskManager. The identity of
                the weights is the cache key.
            observed: the sum of the weights there.

        Returns:
            The result is None if the sums are too large for an exact answer.
        """
        populations = list(populations)
        question = tuple((id(weights), here) for weights, here in populations), observed
        if question not in self._found:
            self._kept += [weights for weights, _ in populations]
            self._found[question] = self._upper_tail(populations, observed)
        return self._found[question]

    def _upper_tail(
        self, populations: Sequence[tuple[Sequence[int], int]], observed: int
    ) -> float | None:
        # Integers over a common denominator, because fractions would be reduced at each step.
        total, ways = {0: 1}, 1
        for weights, here in populations:
            if (id(weights), here) not in self._sums:
                if sum(weights) > _MOST_WEIGHT:
                    return None
                self._sums[id(weights), here] = subset_sums(weights, here)
            ways *= comb(len(weights), here)
            mixed: defaultdict[int, int] = defaultdict(int)
            for left, count in total.items():
                for right, more in self._sums[id(weights), here].items():
                    # All sums of at least the observed one belong to the tail and share one entry.
                    mixed[min(observed, left + right)] += count * more
            total = dict(mixed)
        return total.get(observed, 0) / ways  # exact to the last bit, even for huge integers


def subset_sums(weights: Sequence[int], size: int) -> dict[int, int]:
    """Count, for each sum of weights, the subsets of the given size.

    >>> subset_sums([1, 1, 0, 0], 2)
    {0: 1, 1: 4, 2: 1}
    """
    classes = Counter(weights)
    zeros = classes.pop(0, 0)
    ways: dict[tuple[int, int], int] = {(0, 0): 1}  # (chosen so far, sum) -> subsets
    for weight, members in classes.items():
        more: dict[tuple[int, int], int] = defaultdict(int)
        for (chosen, value), count in ways.items():
            for taken in range(min(members, size - chosen) + 1):
                more[chosen + taken, value + taken * weight] += count * comb(members, taken)
        ways = more
    sums: dict[int, int] = defaultdict(int)
    for (chosen, value), count in ways.items():
        rest = size - chosen
        if rest <= zeros:
            sums[value] += count * comb(zeros, rest)
    return dict(sorted(sums.items()))


def _pattern(
    observations: Sequence[Observation], layouts: Sequence[Layout], sizes: Mapping[str, int]
) -> tuple[Pattern, SubtaskKey | None, str | None]:
    """Return whether one subtask, one TaskManager or neither stands out.

    A vertex in which all subtasks are late does not identify a culprit. It is a downstream victim or evenly slow.
    """
    late = {observation.subtask for observation in observations}
    if not late:
        return Pattern.NONE, None, None
    where: dict[SubtaskKey, str] = {}
    for layout in layouts:
        where |= layout.where
    count = Counter(key.task for key in late)
    informative = {key for key in late if count[key.task] < sizes.get(key.task, 0)}
    if len(informative or late) == 1:
        (only,) = informative or late
        return Pattern.ONE_SUBTASK, only, where.get(only)
    if not informative:
        return Pattern.WHOLE_VERTICES, None, None
    manager = _shared_taskmanager(informative, where)
    return (Pattern.SPREAD if manager is None else Pattern.ONE_TASKMANAGER), None, manager


def _shared_taskmanager(
    subtasks: Collection[SubtaskKey], where: Mapping[SubtaskKey, str]
) -> str | None:
    """Return the TaskManager that runs all these subtasks, if they are two thirds of their tasks' subtasks there."""
    manager, *others = {where.get(key) for key in subtasks}
    if manager is None or others:
        return None
    tasks = {key.task for key in subtasks}
    local = sum(name == manager and key.task in tasks for key, name in where.items())
    return manager if len(subtasks) * 3 >= local * 2 else None
