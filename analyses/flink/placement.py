"""Where the late subtasks sit: is one TaskManager overrepresented?

One observation is one distinct subtask that was late or missing in one episode. Under the null
hypothesis the late subtasks of a vertex are a random choice among its subtasks, so each vertex is
permuted on its own: that a TaskManager runs many subtasks of a sick vertex, or that everything
downstream of a culprit is late as well, cancels out. With `n` of a vertex's `N` subtasks on a
TaskManager and `L` late ones, the number of late ones there is hypergeometric; over vertices the
distributions are convolved exactly. A subtask that is late in several episodes without having been
moved is one draw that weighs more, not several draws: the distribution of the sum of weights over a
random choice of `n` subtasks is exact too.

p-values are one-sided (at least as many late as observed) and multiplied by the number of
TaskManagers looked at. With few TaskManagers they cannot get small, so they support and never gate.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import comb
from typing import Final, NamedTuple

from flowdiag.analyses.flink.episodes import Episode, episodes
from flowdiag.analyses.flink.job import Attempt, JobFacts, Status, SubtaskCheckpoint
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.model.derived import once

MINIMUM_DISTINCT: Final = 5  # late subtasks below which a p-value says nothing
_MOST_WEIGHT: Final = 5_000  # beyond this an exact distribution costs seconds: no p-value then


class SubtaskKey(NamedTuple):
    """One subtask of one vertex, the vertex named by its task (or its id, where no name is known)."""

    task: str
    subtask_index: int


class Observation(NamedTuple):
    """A subtask that was late or missing in one episode."""

    episode: int
    subtask: SubtaskKey
    taskmanager: str | None


class Pattern(StrEnum):
    """How the late subtasks are spread."""

    NONE = "none"
    ONE_SUBTASK = "one-subtask"  # one hot or slow subtask
    ONE_TASKMANAGER = "one-taskmanager"  # all its subtasks: the machine
    WHOLE_VERTICES = "whole-vertices"  # uniform: nobody stands out
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One row of the table of TaskManagers.

    `late` counts observations (distinct late or missing subtasks, summed over episodes),
    `expected` what their vertices' placement explains, `ratio` is late / expected; both are None
    where the placement of the other subtasks is not known. `p_value` is corrected for the number
    of TaskManagers; None below five distinct late subtasks. A TaskManager that only a host names
    (logs before 1.8) is called by it.
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
    """The table, the number of distinct late subtasks, and what their spread looks like."""

    shares: tuple[Share, ...]
    observations: tuple[Observation, ...]
    distinct: int
    unplaced: int
    pattern: Pattern
    subtask: SubtaskKey | None = None  # the one, with ONE_SUBTASK
    taskmanager: str | None = None  # the one, with ONE_TASKMANAGER (and where the one subtask ran)


Places = Mapping[SubtaskKey, str]  # where each subtask ran


@dataclass(frozen=True, slots=True)
class Layout:
    """One deployment: where everything ran, and how often each subtask was late in it.

    `drawn` holds, per task with late ones, the weight of each of its subtasks, `here` how many of them
    each TaskManager runs, `late` the weights by TaskManager. `complete` says that every subtask of
    these tasks is placed; else we see just the late ones.
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
    """The TaskManagers of a job, the most conspicuous first."""
    return place_all(job).shares


def subtask_key(attempt: Attempt) -> SubtaskKey | None:
    """Which subtask an attempt is, None when that is not known."""
    task = attempt.task or attempt.vertex_id
    if task is None or attempt.subtask_index is None:
        return None
    return SubtaskKey(task, attempt.subtask_index)


def label(attempt: Attempt) -> str | None:
    """What a TaskManager is called: its resource id, before 1.8 its host."""
    return attempt.taskmanager or attempt.host


def places_at(attempts: Iterable[Attempt], time_us: int | None) -> dict[SubtaskKey, Attempt]:
    """The attempt of every subtask that ran at a moment; the last one known when undated.

    An attempt deployed after the moment is taken only if there is no earlier one: logs lose their
    beginning first, and a place that is known late is better than none.
    """
    best: dict[SubtaskKey, tuple[tuple[bool, int, int], Attempt]] = {}
    for attempt in attempts:
        key = subtask_key(attempt)
        if key is None:
            continue
        deployed = attempt.deployed_us
        early = time_us is None or deployed is None or deployed <= time_us
        # Among the earlier ones the last, among the later ones the first.
        when = deployed or 0
        rank = (early, when if early else -when, attempt.attempt or 0)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, attempt)
    return {key: attempt for key, (_, attempt) in best.items()}


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where every subtask of a job ran at one moment; `number` tells such moments apart."""

    number: int
    attempts: Mapping[SubtaskKey, Attempt]
    labels: Mapping[SubtaskKey, str]


class _History:
    """Where the subtasks of a job ran, moment by moment: `places_at` for many moments.

    From one moment to a later one only what was deployed between is looked at.
    """

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        """Sort the attempts by when they were deployed."""
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
        labels = {key: name for key, one in attempts.items() if (name := label(one)) is not None}
        self._now = Whereabouts(0, attempts, labels)

    def at(self, time_us: int | None) -> Whereabouts:
        """What held at a moment; the last that is known when undated."""
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
                name = label(attempt)
                if name is None:
                    labels.pop(key, None)
                else:
                    labels[key] = name
            self._now = Whereabouts(number, attempts, labels)
        return self._now


@once
def _history(job: JobFacts) -> _History:
    return _History(job.attempts)


def whereabouts(job: JobFacts, time_us: int | None) -> Whereabouts:
    """Where every subtask of a job ran at a moment, as `places_at` says it."""
    return _history(job).at(time_us)


@dataclass(frozen=True, slots=True)
class LateRecords:
    """What tells of late subtasks, by checkpoint: a sick week has thousands of episodes to look up.

    Args:
        messages: late messages of expired checkpoints, by run and checkpoint: which subtask, and where.
        acknowledgements: per subtask from REST, archives and dumps, by checkpoint; of the last run, since
            ids may repeat in earlier ones.
        last_run: of the job.
    """

    messages: Mapping[tuple[int, int], Sequence[tuple[SubtaskKey, str | None]]]
    acknowledgements: Mapping[int, Sequence[SubtaskCheckpoint]]
    last_run: int


@once
def late_records(job: JobFacts) -> LateRecords:
    """Sort a job's records by checkpoint."""
    messages: defaultdict[tuple[int, int], list[tuple[SubtaskKey, str | None]]] = defaultdict(list)
    for late in job.late:
        key = subtask_key(late.attempt) if late.expired else None
        if key is not None:
            messages[late.run, late.checkpoint].append((key, label(late.attempt)))
    acknowledgements: defaultdict[int, list[SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        acknowledgements[row.checkpoint].append(row)
    return LateRecords(dict(messages), dict(acknowledgements), job.runs)


def late_subtasks(records: LateRecords, episode: Episode) -> dict[SubtaskKey, str | None]:
    """Distinct subtasks late for, or missing from, the expired checkpoints of an episode.

    Returns:
        Their TaskManagers, None where nothing tells. From late messages (the line itself names the
        place from 1.9 on), and from per-subtask acknowledgements of REST, archives and dumps: not
        acknowledged, or acknowledged after the expiry.
    """
    expired = [c for c in episode.checkpoints if c.status is Status.EXPIRED]
    found: dict[SubtaskKey, str | None] = {}
    for checkpoint in expired:
        for key, manager in records.messages.get((checkpoint.run, checkpoint.id), ()):
            found[key] = found.get(key) or manager
    for checkpoint in expired:
        if checkpoint.run != records.last_run:
            continue
        duration = checkpoint.duration_ms
        for row in records.acknowledgements.get(checkpoint.id, ()):
            task = row.task or row.vertex_id
            if task is None:
                continue
            overdue = (
                row.end_to_end_ms is not None
                and duration is not None
                and row.end_to_end_ms > duration
            )
            # A TaskManager's DEBUG lines tell what was begun, not what never came.
            if overdue or (not row.acknowledged and row.source != "debug"):
                key = SubtaskKey(task, row.subtask_index)
                found[key] = found.get(key) or row.taskmanager
    return found


def unmatched_late(job: JobFacts) -> dict[SubtaskKey, str | None]:
    """Late subtasks of checkpoints whose own lines are cut off.

    From 1.19 on a late message is written for expired checkpoints only; before, it may be the tail
    of a declined one and is not counted (catalogue/flink.md 1.2).
    """
    if not at_least(job.version, 1, 19):
        return {}
    ended = {(c.run, c.id) for c in job.checkpoints if c.status is not Status.IN_FLIGHT}
    found: dict[SubtaskKey, str | None] = {}
    for late in job.late:
        key = subtask_key(late.attempt)
        if key is not None and not late.expired and (late.run, late.checkpoint) not in ended:
            found[key] = found.get(key) or label(late.attempt)
    return found


Signature = frozenset[tuple[SubtaskKey, str]]
"""A deployment: which subtask ran on which TaskManager."""


def _observed(
    job: JobFacts, groups: Iterable[tuple[Mapping[SubtaskKey, str | None], int | None]]
) -> tuple[list[Observation], dict[Signature, Counter[SubtaskKey]]]:
    """Where each late subtask of each group ran; how often each was late, by deployment.

    Args:
        job: the facts.
        groups: late subtasks with the TaskManager that their message names, and when.
    """
    observations: list[Observation] = []
    weights_of: dict[Signature, Counter[SubtaskKey]] = {}
    # Nearly all episodes share a few deployments: how they differ is looked at once.
    known: dict[tuple[int, Signature], Counter[SubtaskKey]] = {}
    for number, (late, last_us) in enumerate(groups):
        if not late:
            continue
        there = whereabouts(job, last_us)
        # What the late line itself says is nearer to the truth than a deployment line.
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
    job: JobFacts, chosen: Sequence[Episode] | None = None, *, accused_only: bool = False
) -> Placement:
    """Judge where the late subtasks of a job sit.

    Args:
        job: the facts.
        chosen: the episodes to look at; by default all of them, and late messages whose expiry is
            cut off.
        accused_only: leave out of the table whom the pattern does not name.
    """
    looked_at = episodes(job) if chosen is None else tuple(chosen)
    records = late_records(job)
    groups = [(late_subtasks(records, episode), episode.last_us) for episode in looked_at]
    if chosen is None:
        groups.append((unmatched_late(job), job.last_us))
    observations, weights_of = _observed(job, groups)
    sizes = _parallelism(job)
    layouts = [
        Layout.of(weights, dict(signature), sizes) for signature, weights in weights_of.items()
    ]
    distinct = len({observation.subtask for observation in observations})
    pattern, subtask, accused = _pattern(observations, layouts, sizes)
    rows: list[Share] = []
    if not accused_only or pattern is Pattern.ONE_TASKMANAGER:
        counted = Counter(
            whereabouts(job, looked_at[-1].last_us if looked_at else None).labels.values()
        )
        managers = sorted(set(counted).union(*(layout.managers for layout in layouts)))
        rows = _shares(
            job,
            managers,
            [accused] if accused_only and accused else managers,
            counted,
            layouts,
            distinct,
        )
    return Placement(
        shares=tuple(sorted(rows, key=lambda s: (-s.late, -(s.ratio or 0.0), s.taskmanager))),
        observations=tuple(observations),
        distinct=distinct,
        unplaced=sum(observation.taskmanager is None for observation in observations),
        pattern=pattern,
        subtask=subtask,
        taskmanager=accused,
    )


@once
def place_all(job: JobFacts) -> Placement:
    """Where the late subtasks of all episodes sit."""
    return place(job)


@once
def _hosts(job: JobFacts) -> Mapping[str | None, str | None]:
    """The host of every TaskManager that an attempt or a late message names."""
    hosts = {label(a): a.host for a in job.attempts if a.host}
    return hosts | {
        label(item.attempt): item.attempt.host for item in job.late if item.attempt.host
    }


@once
def _parallelism(job: JobFacts) -> dict[str, int]:
    """How many subtasks each task has, from its graph or its attempts."""
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
    wanted: Iterable[str],
    counted: Mapping[str, int],
    layouts: Sequence[Layout],
    distinct: int,
) -> list[Share]:
    """Rows of the table: of the wanted ones among all TaskManagers."""
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
    for manager in wanted:
        share = Share(
            taskmanager=manager,
            host=hosts.get(manager),
            subtasks=counted.get(manager, 0),
            late=late[manager],
        )
        if complete:
            share = _weighed(
                share, expected[manager], populations[manager], distinct, len(managers), tails
            )
        rows.append(share)
    return rows


def _weighed(
    share: Share,
    expected: Fraction,
    populations: Sequence[tuple[Sequence[int], int]],
    distinct: int,
    managers: int,
    tails: Tails,
) -> Share:
    """What a row says once the placement of all is known."""
    p_value = None
    if distinct >= MINIMUM_DISTINCT and managers > 1:
        tail = tails.upper(populations, share.late)
        p_value = None if tail is None else min(1.0, tail * managers)
    return replace(
        share,
        expected=round(float(expected), 3),
        ratio=round(float(share.late / expected), 3) if expected else None,
        p_value=None if p_value is None else float(f"{p_value:.3g}"),
    )


def upper_tail(populations: Iterable[tuple[Sequence[int], int]], observed: int) -> float | None:
    """Probability that the late weights on a TaskManager reach at least `observed`.

    Args:
        populations: per vertex and deployment, the weight of each subtask (0: never late, else
            the number of episodes it was late in) and how many subtasks sit on the TaskManager.
        observed: the sum of the weights there.

    Returns:
        None when the sums are too large for an exact answer.

    Two of four subtasks late, two of the four on this TaskManager, both late ones there:

    >>> round(upper_tail([([1, 1, 0, 0], 2)], 2), 4)
    0.1667
    """
    return Tails().upper(populations, observed)


class Tails:
    """`upper_tail` for many TaskManagers, which have much in common."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._sums: dict[tuple[int, int], dict[int, int]] = {}
        self._found: dict[tuple[tuple[tuple[int, int], ...], int], float | None] = {}
        self._kept: list[Sequence[int]] = []  # so that no other gets its identity

    def upper(
        self, populations: Iterable[tuple[Sequence[int], int]], observed: int
    ) -> float | None:
        """As `upper_tail`; weights are known again by their identity."""
        populations = list(populations)
        question = tuple((id(weights), here) for weights, here in populations), observed
        if question not in self._found:
            self._kept += [weights for weights, _ in populations]
            self._found[question] = self._upper(populations, observed)
        return self._found[question]

    def _upper(
        self, populations: Sequence[tuple[Sequence[int], int]], observed: int
    ) -> float | None:
        # Whole numbers of ways over one common denominator: fractions would be reduced at each step.
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
                    # Everything that reaches the observed sum is the tail: no need to keep it apart.
                    mixed[min(observed, left + right)] += count * more
            total = dict(mixed)
        return total.get(observed, 0) / ways  # exact to the last bit, however long the numbers


def subset_sums(weights: Sequence[int], size: int) -> dict[int, int]:
    """How many subsets of a size have each sum of weights.

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
    """Tell one hot subtask from a slow machine from a spread over the job.

    A vertex all of whose subtasks are late says nothing about who: it is a victim downstream, or
    evenly slow.
    """
    late = {observation.subtask for observation in observations}
    if not late:
        return Pattern.NONE, None, None
    where: dict[SubtaskKey, str] = {}
    for layout in layouts:
        where |= layout.where
    count = Counter(key.task for key in late)
    telling = {key for key in late if count[key.task] < sizes.get(key.task, 0)}
    if not telling:
        if len(late) == 1:
            only = next(iter(late))
            return Pattern.ONE_SUBTASK, only, where.get(only)
        return Pattern.WHOLE_VERTICES, None, None
    if len(telling) == 1:
        only = next(iter(telling))
        return Pattern.ONE_SUBTASK, only, where.get(only)
    managers = {where.get(key) for key in telling}
    manager = next(iter(managers))
    if len(managers) == 1 and manager is not None:
        tasks = {key.task for key in telling}
        neighbours = {key for key, name in where.items() if name == manager and key.task in tasks}
        if len(telling) * 3 >= len(neighbours) * 2:
            return Pattern.ONE_TASKMANAGER, None, manager
    return Pattern.SPREAD, None, None
