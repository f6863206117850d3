"""Collects the facts about one span of a job that signals and causes share.

`flowdiag checkpoints` has a case for each spell of failed checkpoints, `flowdiag queues` for each end of
back pressure. Both use the same facts about the job. They differ in the source of the loads (`View`) and in
whether the case is about an origin of back pressure.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Final

from flowdiag.analyses.flink import settings
from flowdiag.analyses.flink.failures.episodes import Episode, incidents
from flowdiag.analyses.flink.job import (
    Garbage,
    Incident,
    JobFacts,
    Status,
    SubtaskCheckpoint,
)
from flowdiag.analyses.flink.options import is_at_least
from flowdiag.analyses.flink.suspects.acknowledgements import late_readings, reported_readings
from flowdiag.analyses.flink.tasks.placement import SubtaskKey, place, subtask_places
from flowdiag.analyses.flink.tasks.pressure import Load, Loads, Root, View
from flowdiag.analyses.flink.tasks.shares import DataShare, data_share, windows_of
from flowdiag.analyses.flink.tasks.topology import topology_of
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Cited

AT_THE_ABORT_US: Final = 2_000_000
"""The time within which an abort reaches a TaskManager: one RPC heartbeat, with room for clocks that differ slightly.
"""


@dataclass(frozen=True, slots=True, order=True)
class Suspect:
    """A subtask, a whole task (no index) or a TaskManager (no task)."""

    task: str = ""
    subtask_index: int = -1
    taskmanager: str = ""

    @property
    def kind(self) -> str:
        """`subtask`, `task` or `taskmanager`."""
        if not self.task:
            return "taskmanager"
        return "task" if self.subtask_index < 0 else "subtask"

    @classmethod
    def of(cls, key: SubtaskKey) -> Suspect:
        return cls(task=key.task, subtask_index=key.subtask_index)


@dataclass(frozen=True, slots=True)
class SlowPart:
    """The part of a subtask's snapshot that took up half the timeout, as reported by the subtask."""

    part: str  # sync | async
    longest_ms: float
    times: int
    refs: tuple[Cited, ...]


class Case:
    """The facts of one span that signals and causes share."""

    def __init__(
        self,
        job: JobFacts,
        episode: Episode,
        view: View,
        *,
        end: Root | None = None,
        fewest: int = 2,
        during: str = "",
        windows: Callable[[str], Iterable[Loads]] | None = None,
    ) -> None:
        """Collect the facts of the span that the signals need.

        Args:
            job: the job.
            episode: the failed checkpoints of the span; empty if all completed.
            view: the loads of the span.
            end: the origin of back pressure that the case is about. One of its subtasks is the culprit,
                and the other signals decide which.
            fewest: how many checkpoints must show that a source is late. A single one may be an accident,
                unless it stays in progress.
            during: a clause that describes the span of the loads; empty for the whole input.
            windows: returns the loads of a task in each window; by default those of the job.
        """
        self.fewest = fewest
        self.during = during
        self.windows = windows or partial(windows_of, job)
        self.job = job
        self.episode = episode
        self.view = view
        self.end = end
        self.topology = view.topology
        self.expired = [c for c in episode.checkpoints if c.status is Status.EXPIRED]
        self.ends: defaultdict[int | None, list[int]] = defaultdict(list)
        for checkpoint in episode.checkpoints:
            if checkpoint.ended_us is not None:
                self.ends[checkpoint.id].append(checkpoint.ended_us)
        self.late = late_readings(job, episode, self.topology)
        self.reported = reported_readings(job, episode, self.topology)
        self.loads = view.loads
        self.roots = view.ends
        self.slow_taskmanager = view.slow_taskmanager
        self.placement = place(job, [episode], named_only=True)
        self.timeout_ms = settings.timeout_ms(job)
        self.unaligned = settings.uses_unaligned_checkpoints(job, episode.checkpoints)
        self.aborts_notified = is_at_least(job.version, 1, 11) is not False
        self.where = subtask_places(job, episode.last_us).attempts
        self.aborted_parts = _aborted_parts(job, episode, unaligned=self.unaligned)
        self.slow_parts = _slow_parts(self)
        self.collecting = _collecting(job, episode)
        self.unmonitored = self._find_unmonitored()

    def manager_of(self, key: SubtaskKey) -> str | None:
        """Return the TaskManager of a subtask: its resource ID or, without one, its host."""
        attempt = self.where.get(key)
        if attempt is not None and (attempt.taskmanager or attempt.host):
            return attempt.taskmanager or attempt.host
        load = self.loads.get(key)
        if load is not None and load.taskmanager:
            return load.taskmanager
        return _reported_places(self.job).get(key)

    def _find_unmonitored(self) -> frozenset[str]:
        """Return the job's TaskManagers without metrics, if others have metrics."""
        measured: defaultdict[str, bool] = defaultdict(bool)
        for key in self.where:
            manager = self.manager_of(key)
            if manager is not None:
                measured[manager] |= key in self.loads
        # A late message names the TaskManager of its sender even if no input names the task.
        known = {load.taskmanager for load in self.loads.values()}
        for manager in _late_managers(self.job):
            measured[manager] |= manager in known
        if not any(measured.values()):
            return frozenset()
        return frozenset(manager for manager, known in measured.items() if not known)

    def members(self, task: str) -> list[Load]:
        return self.view.by_task.get(task, [])

    def data_share(self, load: Load) -> DataShare:
        """Return the data of a subtask compared with its siblings', as all findings report it."""
        task = load.key.task
        return data_share(
            self.windows(task), load, self.members(task), self.size(task), self.during
        )

    def size(self, task: str) -> int:
        """Return the parallelism of a task, or 0 if unknown."""
        return self.topology.parallelism.get(task, 0)

    def name(self, suspect: Suspect) -> str:
        """Return the display name of a suspect."""
        if suspect.kind == "taskmanager":
            return suspect.taskmanager
        index = suspect.subtask_index if suspect.kind == "subtask" else None
        return fmt.subtask_of(suspect.task, index, self.size(suspect.task) or None)

    def end_of(self, task: str) -> Root | None:
        return next((root for root in self.roots if root.task == task), None)

    def worst_of(self, suspect: Suspect) -> Load | None:
        """Return a subtask's load or, for a task or TaskManager, the load of its busiest subtask at an end."""
        if suspect.kind == "subtask":
            return self.loads.get(SubtaskKey(suspect.task, suspect.subtask_index))
        for root in self.roots:
            for load in root.subtasks:
                if suspect.task == root.task or (
                    not suspect.task and load.taskmanager == suspect.taskmanager
                ):
                    return load
        return None

    def at_end(self, key: SubtaskKey) -> bool:
        """Return whether back pressure ends at a subtask, or would end there if upstream tasks waited."""
        return any(load.key == key for root in self.roots for load in root.subtasks)

    def blocks_upstream(self, key: SubtaskKey) -> bool:
        """Return whether back pressure ends at a subtask, and upstream tasks wait for it."""
        return any(load.key == key for r in self.roots if r.blocks_upstream for load in r.subtasks)

    def incidents_of(self, key: SubtaskKey, found: Sequence[Incident]) -> list[Incident]:
        return [
            incident
            for incident in found
            if incident.subtask_index == key.subtask_index
            and self.topology.canonical(incident.task) == key.task
        ]


@once
def _late_managers(job: JobFacts) -> frozenset[str]:
    return frozenset(item.attempt.taskmanager for item in job.late if item.attempt.taskmanager)


GC_SHARE: Final = 0.4
"""Minimum share of time in garbage collection that explains why a TaskManager is slow."""
GC_TIMES: Final = 2.0
"""Minimum garbage collection time as a multiple of the other TaskManagers' median. If all of them collect garbage
alike, none is slow.
"""


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """The share of time that a TaskManager spends in garbage collection."""

    share: float
    refs: tuple[Cited, ...]


def _collecting(job: JobFacts, episode: Episode) -> dict[str, GarbageCollection]:
    """Return the TaskManagers that spend much of a span on garbage collection, and far more than the others."""
    spent = _garbage_during(job, episode)
    shares = {
        name: sum(item.gc_ms for item in each) / sum(item.span_ms for item in each)
        for name, each in spent.items()
    }
    found = {}
    for name, share in shares.items():
        others = sorted(value for other, value in shares.items() if other != name)
        median = others[len(others) // 2] if others else 0.0
        if share >= GC_SHARE and share >= GC_TIMES * median:
            refs = tuple(item.ref for item in spent[name] if item.ref is not None)
            found[name] = GarbageCollection(min(share, 1.0), refs)
    return found


def _garbage_during(job: JobFacts, episode: Episode) -> dict[str, list[Garbage]]:
    """Return the garbage collections within a span by TaskManager, without single samples."""
    found: defaultdict[str, list[Garbage]] = defaultdict(list)
    low, high = episode.first_us or episode.since_us, episode.last_us
    for item in job.garbage:
        if (low is None or item.last_us >= low) and (high is None or item.first_us <= high):
            found[item.taskmanager].append(item)
    return {name: each for name, each in found.items() if sum(item.samples for item in each) > 1}


def is_running_at_abort(case: Case, incident: Incident) -> bool:
    """Return whether an asynchronous part was already running at the expiry.

    A task that is blocked in its synchronous part starts the asynchronous part too late and logs the
    same message.
    """
    ends = case.ends.get(incident.checkpoint, ())
    if not ends or incident.time_us is None:
        return False
    return min(abs(incident.time_us - end) for end in ends) <= AT_THE_ABORT_US


def was_cancelled(incident: Incident) -> bool:
    """Return whether an asynchronous part ended only because the checkpoint was aborted elsewhere."""
    text = incident.cause or ""
    return not text or "CancellationException" in text or "was closed" in text.lower()


def sync_share(job: JobFacts, key: SubtaskKey) -> float | None:
    """Return the share of time that a subtask spent in synchronous snapshots, or None with fewer than two of them."""
    times = _triggers(job)
    dated = sorted(
        (us, part.sync_ms or 0)
        for part in _measured_snapshots(job).get(key, ())
        if (us := times.get(part.checkpoint)) is not None
    )
    if len(dated) < 2:
        return None
    span_ms = (dated[-1][0] - dated[0][0]) / 1000 + dated[-1][1]
    return sum(sync for _, sync in dated) / max(span_ms, 1.0)


@once
def _triggers(job: JobFacts) -> Mapping[int, int | None]:
    return {checkpoint.id: checkpoint.triggered_us for checkpoint in job.checkpoints}


@once
def _measured_snapshots(job: JobFacts) -> Mapping[SubtaskKey, list[SubtaskCheckpoint]]:
    """Return the reported checkpoints with a synchronous duration, by subtask."""
    topology = topology_of(job)
    found: dict[SubtaskKey, list[SubtaskCheckpoint]] = defaultdict(list)
    for part in job.subtask_checkpoints:
        task = topology.canonical(part.task)
        if task is not None and part.sync_ms is not None:
            found[SubtaskKey(task, part.subtask_index)].append(part)
    return dict(found)


@once
def _reported_places(job: JobFacts) -> Mapping[tuple[str | None, int], str]:
    """Return the first TaskManager of each subtask according to REST, archives and dumps."""
    found: dict[tuple[str | None, int], str] = {}
    for row in job.subtask_checkpoints:
        if row.taskmanager:
            found.setdefault((row.task, row.subtask_index), row.taskmanager)
    return found


def _slow_parts(case: Case) -> dict[SubtaskKey, SlowPart]:
    """Return, by subtask, the part of its own snapshot that took up half the timeout."""
    rows: dict[SubtaskKey, list[tuple[str, SubtaskCheckpoint, float]]] = defaultdict(list)
    for key, part, row, took in _long_parts(case):
        rows[key].append((part, row, took))
    found = {}
    for key, members in rows.items():
        part, _, longest = max(members, key=itemgetter(2))
        mine = [row for name, row, _ in members if name == part]
        found[key] = SlowPart(
            part,
            longest,
            len({row.checkpoint for row in mine}),
            tuple(row.cited for row in mine if row.cited is not None),
        )
    return found


def _long_parts(case: Case) -> Iterator[tuple[SubtaskKey, str, SubtaskCheckpoint, float]]:
    """Yield the parts of snapshots in the span that took half the timeout, each `sync` or `async`."""
    limit = (case.timeout_ms or 0.0) / 2
    numbers = [c.id for c in case.episode.checkpoints if c.run == case.job.runs]
    if limit <= 0 or not numbers:
        return
    rows = _by_number(case.job)
    first = bisect_left(rows, min(numbers), key=attrgetter("checkpoint"))
    last = bisect(rows, max(numbers), key=attrgetter("checkpoint"))
    for row in rows[first:last]:
        task = case.topology.canonical(row.task)
        if task is None:
            continue
        for part, took in (("sync", row.sync_ms), ("async", row.async_ms)):
            if part == "async" and case.unaligned:
                continue  # unaligned checkpoints wait for the barriers of all channels
            if took is not None and took >= limit:
                yield SubtaskKey(task, row.subtask_index), part, row, float(took)


@once
def _by_number(job: JobFacts) -> tuple[SubtaskCheckpoint, ...]:
    return tuple(sorted(job.subtask_checkpoints, key=attrgetter("checkpoint")))


def _aborted_parts(job: JobFacts, episode: Episode, *, unaligned: bool) -> list[Incident]:
    """Return the asynchronous parts in the spell that an abort interrupted.

    Unaligned checkpoints are left out, because their asynchronous part includes the wait for the barriers of all
    channels.
    """
    if unaligned:
        return []
    cancelled = _cancelled_parts(job)
    expired = {c.id for c in episode.checkpoints if c.status is Status.EXPIRED}
    found = [item for number in expired for item in cancelled.get(number, ())]
    return [incident for _, incident in sorted(found, key=itemgetter(0))]


@once
def _cancelled_parts(job: JobFacts) -> Mapping[int, list[tuple[int, Incident]]]:
    """Return the asynchronous parts that an abort ended, by checkpoint, each with its position in the log."""
    found: defaultdict[int, list[tuple[int, Incident]]] = defaultdict(list)
    for number, incident in enumerate(incidents(job, "async-failure")):
        if incident.checkpoint is not None and was_cancelled(incident):
            found[incident.checkpoint].append((number, incident))
    return dict(found)
