"""Finds origins of back pressure, skewed subtasks and slow TaskManagers from subtask metrics.

Back pressure is followed from the sources downstream to its end: the busy subtasks of the first vertex that
is not back-pressured although its upstream is. A busy subtask is harmless while no upstream task waits.

Metrics differ by version: busy and back-pressured time from 1.13 on, idle time
from 1.11, `isBackPressured` from 1.10. Older versions only have buffer usage, which weighs less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Final

from flowdiag.analyses.flink.job import JobFacts, SubtaskLoad
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import Topology, topology_of
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Evidence, cite_part
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.focus import Focus

ENOUGH_SAMPLES: Final = 5
"""Minimum number of samples. Flink reads buffers and queues without synchronization, so fewer samples prove nothing
about a subtask.
"""
BUSY: Final = (
    0.6  # share of the time; averages over minutes blur a saturated subtask but rarely fall lower
)
PRESSED: Final = 0.5  # Flink's own boundary between low and high back pressure
FULL: Final = 0.85  # buffers in use, in place of busy time; half full is normal
IDLE: Final = 0.25  # share of the time; a subtask that is busy for less has nothing to do
AT_REST: Final = 3.0  # a subtask is also idle if its busy sibling is this many times busier
AS_BUSY: Final = 0.1  # shares of the time that differ by less count as equal
CALM: Final = 0.3  # share of the time; with less back pressure, busy means own work
SKEWED: Final = 2.0  # multiple of the siblings' records; key groups alone cause up to 1.5
WORKING: Final = 0.1  # share of the time; a subtask with less work is not comparable
RESOLUTION: Final = 0.001  # share of the time; `busyTimeMsPerSecond` is an integer
COSTLY: Final = 3.0  # multiple of the siblings' time per record
KNOWN_SIBLINGS: Final = 0.75  # minimum share of the subtasks with metrics for a ratio
MANY_RECORDS: Final = 20.0  # minimum number for a meaningful ratio
FEWEST_BYTES: Final = 10_000.0  # minimum number for a meaningful ratio
SATURATED: Final = (
    0.8  # share of the time; exceeded by every subtask of a slow task, even those with fewer keys
)
QUEUE_TIMES: Final = 3.0
QUEUE_BUFFERS: Final = 5.0
MOST_ALIKE: Final = 2 / 3  # share of a task's busy subtasks above which the task is the culprit
# Minimum ratio to the cost per record elsewhere, if several subtasks of one TaskManager reach it.
COSTLY_TOGETHER: Final = 2.0
HALF_BUSY: Final = 0.4  # share of the time; a slow TaskManager with less work delays no other task
SAMPLED_LESS: Final = 0.2  # maximum difference in the number of samples, as a share
ALIKE: Final = 1.5  # maximum ratio to the median, up or down; the spread on healthy hosts

IN_POOL: Final = ("Shuffle.Netty.Input.Buffers.inPoolUsage", "buffers.inPoolUsage")
OUT_POOL: Final = ("Shuffle.Netty.Output.Buffers.outPoolUsage", "buffers.outPoolUsage")


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one subtask, with shares from 0 to 1.

    `measured` and `wait_measured` are False if buffer usage replaces busy and back-pressured time.
    `records` are received, `emitted` are sent. `buffers` is the mean share of input buffers in use,
    `buffers_peak` the maximum if single samples are known. `samples` is 0 for totals since the start and 1 for single REST responses.
    """

    key: SubtaskKey
    taskmanager: str | None
    busy: float | None
    back_pressured: float | None
    records: float | None
    queue: float | None
    measured: bool
    wait_measured: bool
    samples: int
    ref: Ref | None
    bytes: float | None = None
    emitted: float | None = None
    buffers: float | None = None
    buffers_peak: float | None = None

    @property
    def work(self) -> Evidence | None:
        """The record that reports the busy time."""
        busy = self.busy
        ms = None if busy is None or not self.measured else 1000 * busy
        return self._evidence(
            ("busyTimeMsPerSecond", ms),
            ("idleTimeMsPerSecond", None if ms is None else 1000 - ms),
            *((name, 1.0) for name in IN_POOL),
        )

    @property
    def wait(self) -> Evidence | None:
        """The record that reports the back-pressured time."""
        share = self.back_pressured
        measured = self.wait_measured and share is not None
        return self._evidence(
            ("backPressuredTimeMsPerSecond", 1000 * (share or 0.0) if measured else None),
            ("isBackPressured", 1.0 if self.waits else 0.0),
            *((name, 1.0) for name in OUT_POOL),
        )

    def _evidence(self, *metrics: tuple[str, float | None]) -> Evidence | None:
        key = self.key
        return cite_part(
            self.ref,
            Focus(
                metrics=metrics,
                task=key.task,
                subtask_index=key.subtask_index,
                taskmanager=self.taskmanager,
            ),
        )

    @property
    def is_sampled(self) -> bool:
        """Whether there is more than one sample."""
        return self.samples > 1

    @property
    def waits(self) -> bool:
        """Whether downstream tasks block the subtask most of the time."""
        return self.back_pressured is not None and self.back_pressured >= (
            PRESSED if self.wait_measured else FULL
        )

    @property
    def is_working(self) -> bool:
        """Whether the subtask is busy most of the time rather than blocked."""
        if self.busy is None or (self.back_pressured or 0.0) > (
            CALM if self.wait_measured else PRESSED
        ):
            return False
        return self.busy >= (BUSY if self.measured else FULL)

    @property
    def cost(self) -> float | None:
        """Busy time per record as a share of the window, comparable only between siblings.

        Flink rounds the busy time to milliseconds per second, so a shorter time counts as one.
        """
        if self.busy is None or self.records is None or not self.measured:
            return None
        return max(self.busy, RESOLUTION) / max(self.records, 1.0)

    @property
    def comparable_cost(self) -> float | None:
        """The cost, if there are enough records for a meaningful ratio."""
        return None if (self.records or 0.0) < MANY_RECORDS else self.cost


@dataclass(frozen=True, slots=True)
class Root:
    """An origin of back pressure: the busy subtasks of one vertex, and the pressure upstream.

    `blocks_upstream` is False if the vertex falls behind but no upstream task waits for it yet.
    """

    task: str
    subtasks: tuple[Load, ...]
    siblings: int
    known: int  # number of siblings with metrics
    back_pressured_before: float
    measured: bool
    blocked: bool = False  # siblings wait as well, which makes it less certain
    blocks_upstream: bool = True

    @property
    def whole(self) -> bool:
        """Whether the whole vertex is busy rather than some of its subtasks."""
        return len(self.subtasks) > 1 and len(self.subtasks) >= MOST_ALIKE * self.siblings


Loads = Mapping[SubtaskKey, Load]


def read_loads(
    job: JobFacts, topology: Topology, rows: Iterable[SubtaskLoad] | None = None
) -> dict[SubtaskKey, Load]:
    """Return the loads by subtask, with task names as in the graph.

    The place where a subtask was observed longest counts. Missing values come from the next places, because REST
    responses contain one sample and totals of archives none.

    Args:
        job: the job.
        topology: provides the names of the tasks.
        rows: a selection of the job's loads; None for all.
    """
    places: dict[SubtaskKey, dict[Place, list[SubtaskLoad]]] = defaultdict(dict)
    for row in job.loads if rows is None else rows:
        task = topology.canonical(row.task)
        if task is not None:
            found = places[SubtaskKey(task, row.subtask_index)]
            # Totals since the start do not belong to a window.
            when = None if row.first_us is not None else len(found)
            found.setdefault((row.taskmanager, row.host, when), []).append(row)
    return {
        key: load_of(key, fill_gaps([merge_windows(each) for each in places[key].values()]))
        for key in sorted(places)
    }


Place = tuple[str | None, str | None, int | None]
_MEANS: Final = (
    "busy",
    "idle",
    "back_pressured",
    "is_back_pressured",
    "input_queue",
    "in_pool_usage",
    "out_pool_usage",
    "alignment_ms",
    "start_delay_ms",
)
_SUMS: Final = ("records_in", "records_out", "bytes_in", "samples")


def merge_windows(rows: Sequence[SubtaskLoad]) -> SubtaskLoad:
    """Merge the windows of a subtask in one place: means weighted by samples, and sums of counters."""
    if len(rows) == 1:
        return rows[0]
    values: dict[str, Any] = {}
    for name in _MEANS:
        known = _values_of(name, rows)
        if samples := sum(number for number, _ in known):
            values[name] = sum(number * value for number, value in known) / samples
    for name in _SUMS:
        if known := _values_of(name, rows):
            values[name] = sum(value for _, value in known)
    longest = max(rows, key=lambda row: row.samples)
    return replace(
        longest,
        **values,
        first_us=min(row.first_us for row in rows if row.first_us is not None),
        last_us=max(row.last_us or 0 for row in rows),
        ref=rows[0].ref or longest.ref,
    )


def _values_of(name: str, rows: Iterable[SubtaskLoad]) -> list[tuple[int, Any]]:
    """Return the known values of a column, each with its number of samples."""
    return [(row.samples, value) for row in rows if (value := getattr(row, name)) is not None]


_FILLED: Final = tuple(f.name for f in fields(SubtaskLoad) if f.default is None)


def fill_gaps(rows: Sequence[SubtaskLoad]) -> SubtaskLoad:
    """Merge the rows of a subtask: the row with the most samples, with missing values from the others."""
    ranked = sorted(rows, key=lambda row: -row.samples)
    first = ranked[0]
    missing = {
        name: value
        for name in ("taskmanager", "host", *_FILLED)
        if getattr(first, name) is None
        and (value := next((v for row in ranked if (v := getattr(row, name)) is not None), None))
        is not None
    }
    return replace(first, **missing)


def load_of(key: SubtaskKey, row: SubtaskLoad) -> Load:
    """Convert a row to shares of the time. Buffer usage replaces times that the version does not measure."""
    # The time counts only while a thread waits for a buffer, the flag also between two waits. Only the flag
    # reveals a task that creeps along behind full buffers.
    waits = [
        value
        for value in (
            None if row.back_pressured is None else row.back_pressured / 1000,
            row.is_back_pressured,
        )
        if value is not None
    ]
    back_pressured = max(waits, default=None)
    busy = None if row.busy is None else row.busy / 1000
    measured = True
    # From 1.13 on, a task without busy time is a legacy source, whose idle time is always 0.
    if busy is None and row.idle is not None and row.back_pressured is None:
        busy = max(0.0, 1 - row.idle / 1000 - (back_pressured or 0.0))
        # Idle time without back-pressured time (1.11, or 1.12 with a blocked task) does not measure work.
        measured = back_pressured is not None
    if busy is None:
        busy, measured = row.in_pool_usage, False
    wait_measured = back_pressured is not None
    if back_pressured is None:
        back_pressured = row.out_pool_usage
    return Load(
        key=key,
        taskmanager=row.taskmanager or row.host,
        busy=busy,
        back_pressured=back_pressured,
        records=row.records_in,
        queue=row.input_queue,
        measured=measured,
        wait_measured=wait_measured,
        samples=row.samples,
        ref=row.ref,
        bytes=row.bytes_in,
        emitted=row.records_out,
        buffers=row.in_pool_usage,
    )


def by_task(loads: Loads) -> dict[str, list[Load]]:
    """Return the loads by vertex, in subtask order."""
    found: dict[str, list[Load]] = defaultdict(list)
    for key in sorted(loads):
        found[key.task].append(loads[key])
    return dict(found)


def is_idle(load: Load) -> bool:
    """Return whether a subtask neither waits nor works most of the time."""
    return not load.waits and (load.busy or 0.0) < BUSY


def unblocked_sources(loads: Loads, topology: Topology) -> tuple[SubtaskKey, ...]:
    """Return the source subtasks that do not wait, if other sources do and everything downstream is idle.

    With aligned checkpoints, the cause is not a slow consumer. The waiting sources have sent their barriers, and data
    behind a barrier is not read until the barriers of the siblings arrive.
    """
    of_sources = [load for load in loads.values() if load.key.task in topology.sources]
    behind = [load for load in loads.values() if load.key.task not in topology.sources]
    if not any(load.is_sampled and load.busy is not None for load in behind):
        return ()
    if not all(map(is_idle, behind)):
        return ()
    if not any(load.waits and load.wait_measured for load in of_sources):
        return ()
    return tuple(load.key for load in of_sources if load.is_sampled and not load.waits)


def roots(loads: Loads, topology: Topology) -> list[Root]:
    """Return the origins of back pressure, the most convincing first."""
    grouped = by_task(loads)
    found = []
    for task, members in grouped.items():
        upstream = (grouped.get(name, ()) for name in topology.upstream.get(task, ()))
        before = [load for each in upstream for load in each if load.waits]
        if before and (root := _root(task, members, before, topology)):
            found.append(root)
    return sorted(
        found,
        key=lambda root: (
            root.blocked,
            -(root.back_pressured_before + (root.subtasks[0].busy or 0.0)),
            root.task,
        ),
    )


def _root(
    task: str, members: Sequence[Load], before: Sequence[Load], topology: Topology
) -> Root | None:
    """Return the origin of back pressure at a task that other tasks wait for, or None if none of its subtasks is busy."""
    busy = [load for load in members if load.is_working]
    # Waiting siblings are blocked by a task further downstream. Up to 1.11, a barrier that one of the
    # siblings delays may block them as well, because aligned channels are not read.
    blocked = any(load.waits for load in members)
    if not busy or (blocked and len(busy) * 2 > len(members)):
        return None
    return Root(
        task=task,
        subtasks=_queueing(
            sorted(busy, key=lambda load: (-(load.busy or 0), load.key)), every=len(members)
        ),
        siblings=max(len(members), topology.parallelism.get(task, 0)),
        known=len(members),
        back_pressured_before=max(load.back_pressured or 0.0 for load in before),
        measured=all(load.measured for load in busy) and all(load.wait_measured for load in before),
        blocked=blocked,
    )


def _queueing(busy: Sequence[Load], *, every: int) -> tuple[Load, ...]:
    """Return the busy subtasks, without those that have no input queue.

    If only one of two busy siblings has a queue, the other is busy with something else. If all `every` subtasks are
    busy almost all the time, the whole task is slow, and the subtask with the most keys limits the rest.
    """
    saturated = [load for load in busy if load.measured and (load.busy or 0.0) >= SATURATED]
    if len(saturated) == every > 1:
        return tuple(busy)
    queues = [load.queue or 0.0 for load in busy if load.queue is not None]
    longest = max(queues, default=0.0)
    if len(busy) < 2 or len(queues) < len(busy) or longest < QUEUE_BUFFERS:
        return tuple(busy)
    return tuple(load for load in busy if (load.queue or 0.0) * QUEUE_TIMES >= longest)


def unmonitored_origin(loads: Loads, topology: Topology) -> str | None:
    """Return a task that others wait for and that has subtasks without metrics.

    If metrics show back pressure but not where it starts, the metrics of the culprit's TaskManager may be missing.
    """
    grouped = by_task(loads)
    waiting = {
        task
        for task, members in grouped.items()
        if any(load.waits and load.wait_measured for load in members)
    }
    for task in topology.tasks:
        members = grouped.get(task, [])
        if task in waiting or not any(before in waiting for before in topology.upstream[task]):
            continue
        if len(members) < topology.parallelism[task]:
            return task
    return None


def busiest(loads: Loads, topology: Topology) -> list[Load]:
    """Return the busy subtasks whose siblings are all idle, regardless of back pressure."""
    found = []
    for task, members in by_task(loads).items():
        least = max(2, KNOWN_SIBLINGS * topology.parallelism.get(task, 0))
        if task not in topology.sources and len(members) >= least:
            working = [load for load in members if load.measured and load.is_working]
            if len(working) == 1 and _are_siblings_idle(working[0], members):
                found.append(working[0])
    # A busier subtask whose siblings do a little work may be the one that all others wait for.
    most = max((load.busy or 0.0 for load in loads.values() if load.is_working), default=0.0)
    return [load for load in found if (load.busy or 0.0) >= most - AS_BUSY]


def _are_siblings_idle(working: Load, members: Sequence[Load]) -> bool:
    """Return whether all siblings of a busy subtask are idle, or far less busy."""
    least = max(IDLE, (working.busy or 0.0) / AT_REST)
    idle = [load for load in members if load.busy is not None and load.busy <= least]
    return len(idle) == len(members) - 1


def median(values: Iterable[float]) -> float | None:
    """Return the lower median, or None for no values."""
    ranked = sorted(values)
    return ranked[(len(ranked) - 1) // 2] if ranked else None


def records_ratio(load: Load, members: Sequence[Load], parallelism: int) -> float | None:
    """Return a subtask's records as a multiple of its siblings' mean, or None if there is too little data.

    Args:
        load: the load of the subtask.
        members: the loads of its task.
        parallelism: the parallelism of its task. Most subtasks must have metrics.
    """
    others = [other.records for other in _comparable_siblings(load, members)]
    return _ratio_to_mean(load.records, others, parallelism, MANY_RECORDS)


def bytes_ratio(load: Load, members: Sequence[Load], parallelism: int) -> float | None:
    """Return a subtask's bytes as a multiple of its siblings' mean, like `records_ratio`."""
    others = [other.bytes for other in _comparable_siblings(load, members)]
    return _ratio_to_mean(load.bytes, others, parallelism, FEWEST_BYTES)


def _comparable_siblings(load: Load, members: Sequence[Load]) -> list[Load]:
    """Return the siblings that were observed at least half as long as the subtask.

    With few samples, a single additional sample doubles the time. Totals (no samples) cover the whole life. A shorter
    report is not compared with a total, and a total is never less than a sibling's window. A busy sibling that reads no
    record at all is blocked in a call, so its number of records does not show how much data it gets.
    """
    least = load.samples if load.samples < ENOUGH_SAMPLES else load.samples / 2
    return [
        other
        for other in members
        if other is not load
        and not (other.is_working and other.records == 0)
        and (other.samples == 0 or (load.samples > 0 and other.samples >= least))
    ]


def _ratio_to_mean(
    mine: float | None, values: Sequence[float | None], parallelism: int, least: float
) -> float | None:
    others = [value for value in values if value is not None]
    if mine is None or mine < least or not others:
        return None
    if len(others) < KNOWN_SIBLINGS * (parallelism - 1):
        return None
    return mine * len(others) / max(sum(others), 1.0)


def data_ratio(load: Load, members: Sequence[Load], parallelism: int) -> float | None:
    """Return the skew: a subtask's data as a multiple of its siblings', by records or by bytes."""
    known = [
        ratio
        for ratio in (
            records_ratio(load, members, parallelism),
            bytes_ratio(load, members, parallelism),
        )
        if ratio is not None
    ]
    return max(known, default=None)


def cost_ratio(load: Load, members: Sequence[Load]) -> float | None:
    """Return a subtask's time per record as a multiple of its siblings' median on other TaskManagers."""
    others = [
        cost
        for other in members
        if other.taskmanager != load.taskmanager and (cost := other.comparable_cost) is not None
    ]
    middle = median(others)
    if not middle or load.comparable_cost is None:
        return None
    return load.comparable_cost / middle


def queue_ratio(load: Load, members: Sequence[Load]) -> float | None:
    """Return the ratio of a subtask's queued buffers to the median of its siblings."""
    others = [other.queue for other in members if other is not load and other.queue is not None]
    middle = median(others)
    if middle is None or load.queue is None or load.queue < QUEUE_BUFFERS:
        return None
    return load.queue / max(middle, 1.0)


@dataclass(frozen=True, slots=True)
class SlowTaskManager:
    """A TaskManager whose subtasks take longer per record than their siblings.

    `ratio` is the median over several vertices, or the minimum over the subtasks of a single vertex.
    """

    taskmanager: str
    vertices: tuple[str, ...]
    ratio: float


def _median_without(ranked: Sequence[float], own: Iterable[float]) -> float | None:
    """Return the lower median of sorted values after removing `own`, or None if no value is left."""
    places: list[int] = []
    for value in sorted(own):
        place = bisect_left(ranked, value)
        # Equal values occupy separate positions.
        places.append(max(place, places[-1] + 1) if places else place)
    left = len(ranked) - len(places)
    if left < 1:
        return None
    middle = (left - 1) // 2
    for place in places:
        if place > middle:
            break
        middle += 1
    return ranked[middle]


def slow_taskmanager(loads: Loads) -> SlowTaskManager | None:
    """Return the only TaskManager on which every record is slow, or None.

    At least two vertices must show it, in all their subtasks on the TaskManager, because a slow host slows
    all its work. With a hot key, the cost per record is normal, and a slow snapshot affects only one place.
    """
    members: dict[str, dict[str, list[Load]]] = defaultdict(lambda: defaultdict(list))
    costs: dict[str, list[float]] = defaultdict(list)
    for load in loads.values():
        cost = load.comparable_cost
        if cost is None:
            continue
        costs[load.key.task].append(cost)
        if load.taskmanager is not None:
            members[load.taskmanager][load.key.task].append(load)
    ranked = {task: sorted(known) for task, known in costs.items()}
    found = []
    for manager, tasks in sorted(members.items()):
        ratios = {
            task: ratio
            for task, mine in tasks.items()
            if (ratio := _costs_relative(mine, ranked[task])) is not None
        }
        slow = {
            task: median(known) or 0.0 for task, known in ratios.items() if min(known) >= COSTLY
        }
        if len(slow) >= 2 and len(slow) * 3 >= len(ratios) * 2:
            found.append(
                SlowTaskManager(manager, tuple(sorted(slow)), median(slow.values()) or 0.0)
            )
    return found[0] if len(found) == 1 else None


def _costs_relative(mine: Sequence[Load], ranked: Sequence[float]) -> list[float] | None:
    """Return the cost per record of a task's subtasks in one place, as multiples of the median elsewhere.

    The result is None if the subtasks are idle or run nowhere else. Idle subtasks spend their busy time on barriers
    and timers, not on records. So do subtasks that mostly wait for other tasks.
    """
    busiest = max(load.busy or 0.0 for load in mine)
    if busiest < (IDLE if all(load.waits for load in mine) else WORKING):
        return None
    elsewhere = _median_without(ranked, (load.cost or 0.0 for load in mine))
    return [(load.cost or 0.0) / elsewhere for load in mine] if elsewhere else None


def slow_taskmanager_of_task(task: str, members: Sequence[Load]) -> SlowTaskManager | None:
    """Return the only TaskManager on which a record costs at least twice as much, or None.

    It must run at least two of the task's subtasks, with at least as many similar subtasks elsewhere. All must be
    sampled for about as long: a subtask that restores its state counts as busy, too.
    """
    return _costly_taskmanager(task, members) if were_sampled_alike(members) else None


def _costly_taskmanager(task: str, members: Sequence[Load]) -> SlowTaskManager | None:
    costs: dict[str, list[float]] = defaultdict(list)
    for load in members:
        cost = load.comparable_cost
        if cost is None or load.taskmanager is None:
            return None
        costs[load.taskmanager].append(cost)
    # Only the TaskManager with the most expensive record can be twice as expensive as all others.
    manager = max(costs, key=lambda name: max(costs[name]), default="")
    mine = costs.pop(manager, [])
    elsewhere = sorted(chain.from_iterable(costs.values()))
    middle = median(elsewhere)
    if len(mine) < 2 or len(elsewhere) < len(mine) or not middle:
        return None
    alike = elsewhere[-1] <= ALIKE * middle and elsewhere[0] * ALIKE >= middle
    busy = all(
        not load.waits and (load.busy or 0.0) >= HALF_BUSY
        for load in members
        if load.taskmanager == manager
    )
    if alike and busy and min(mine) >= COSTLY_TOGETHER * middle:
        return SlowTaskManager(manager, (task,), min(mine) / middle)
    return None


def were_sampled_alike(members: Sequence[Load]) -> bool:
    """Return whether the subtasks have similar numbers of samples."""
    counts = [load.samples for load in members]
    most = max(counts, default=0)
    return most - min(counts, default=0) <= max(1, SAMPLED_LESS * most)


def is_stalled(load: Load) -> bool:
    """Return whether a subtask is busy and not blocked but neither receives nor emits records.

    With asynchronous state, a subtask emits the records that are in flight before it receives more.
    """
    if load.records is None or max(load.records, load.emitted or 0.0) > 1.0:
        return False
    if (load.back_pressured or 0.0) > CALM:
        return False
    return load.busy is not None and load.busy >= (BUSY if load.measured else FULL)


@dataclass(frozen=True, slots=True)
class View:
    """The metrics of a job over one span.

    Args:
        topology: the order of the tasks.
        loads: the loads of all subtasks.
        by_task: the same loads, by task.
        ends: the origins of back pressure, most convincing first.
        slow_taskmanager: the only slow TaskManager; None if there is none.
    """

    topology: Topology
    loads: Loads
    by_task: Mapping[str, list[Load]]
    ends: Sequence[Root]
    slow_taskmanager: SlowTaskManager | None


def build_view(loads: Loads, topology: Topology, ends: Sequence[Root] | None = None) -> View:
    """Build the view of a span. `ends` restricts the view to the origins of back pressure that a case is about.

    If no TaskManager is slow at everything, the TaskManager where back pressure ends may be slow at that task.
    """
    grouped = by_task(loads)
    ends = roots(loads, topology) if ends is None else ends
    slow = slow_taskmanager(loads)
    for root in ends[:1] if slow is None else ():
        place = slow_taskmanager_of_task(root.task, grouped.get(root.task, ()))
        if place and all(load.taskmanager == place.taskmanager for load in root.subtasks):
            slow = place
    return View(topology, loads, grouped, ends, slow)


@once
def overall_view(job: JobFacts) -> View:
    """Return the view over the whole measured time."""
    topology = topology_of(job)
    return build_view(read_loads(job, topology), topology)


def view_during(job: JobFacts, first_us: int | None, last_us: int | None) -> View:
    """Return the view of a span, based on the windows that lie mostly within it.

    Without samples in the span, only totals since the start remain.
    """
    timed = _loads_with_times(job)
    if first_us is None or last_us is None or not timed:
        return overall_view(job)
    shares = [(row, _share_within(row, first_us, last_us)) for row in timed]
    least = 0.5 if any(share >= 0.5 for _, share in shares) else 1e-9
    inside = [row for row, share in shares if share >= least]
    inside += _overlapping_siblings(inside, (row for row, share in shares if 0.0 < share < least))
    if len(inside) == len(timed):
        return overall_view(job)
    topology = topology_of(job)
    return build_view(read_loads(job, topology, [*inside, *_loads_without_times(job)]), topology)


def _overlapping_siblings(
    inside: Sequence[SubtaskLoad], others: Iterable[SubtaskLoad]
) -> Iterator[SubtaskLoad]:
    """Yield the siblings' overlapping windows, because the last windows of TaskManagers end at different times.

    Otherwise a subtask would be compared with its siblings' totals since the start.
    """
    seen = {(row.task, row.subtask_index) for row in inside}
    spans: dict[str | None, tuple[int, int]] = {}
    for row in inside:
        first, last = row.first_us or 0, row.last_us or row.first_us or 0
        low, high = spans.get(row.task, (first, last))
        spans[row.task] = min(low, first), max(high, last)
    for row in others:
        low, high = spans.get(row.task, (1, 0))
        first, last = row.first_us or 0, row.last_us or row.first_us or 0
        if (row.task, row.subtask_index) not in seen and first <= high and last >= low:
            yield row


@once
def _loads_with_times(job: JobFacts) -> tuple[SubtaskLoad, ...]:
    return tuple(row for row in job.loads if row.first_us is not None)


def _share_within(row: SubtaskLoad, low: int, high: int) -> float:
    """Return the share of a window that lies within a span."""
    first = row.first_us or 0
    last = max(row.last_us or first, first + 1)
    return max(0.0, (min(last, high + 1) - max(first, low)) / (last - first))


@once
def _loads_without_times(job: JobFacts) -> tuple[SubtaskLoad, ...]:
    """Return the loads without a time, which are totals since the start or undated."""
    return tuple(row for row in job.loads if row.first_us is None)
