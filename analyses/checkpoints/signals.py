"""The signals that vote on who holds the checkpoints up, and the weight of each.

`SIGNALS` is the voting table, shown in reports and docs. Each function that is named after a signal
says when it speaks; what it says is an `Accusation` of subtasks, of a whole task or of a TaskManager.
`flowdiag.analyses.checkpoints.culprit` counts the votes.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Final

from flowdiag.analyses.checkpoints.acknowledgements import (
    Reading,
    late_readings,
    reported_readings,
)
from flowdiag.analyses.derived import once
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, incidents
from flowdiag.analyses.flink.job import Incident, JobFacts, Status, SubtaskCheckpoint
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.placement import Pattern, SubtaskKey, place, whereabouts
from flowdiag.analyses.flink.pressure import (
    QUEUE_TIMES,
    SKEWED,
    Load,
    Loads,
    Root,
    SlowMachine,
    busiest,
    by_task,
    queue_ratio,
    read_loads,
    records_ratio,
    roots,
    slow_machine,
)
from flowdiag.analyses.flink.topology import topology_of
from flowdiag.analyses.keys import Ref

# The voting table: name, weight, when it speaks. CP201 publishes it.
SIGNALS: Final[tuple[tuple[str, int, str], ...]] = (
    (
        "late-acknowledgements",
        2,
        (
            "the most upstream subtasks that lag behind their siblings in the late messages of each "
            "expired checkpoint; 1 with a single checkpoint, or where the subtasks change"
        ),
    ),
    (
        "subtask-acknowledgements",
        2,
        (
            "the same from REST, an archive or a DEBUG dump, where missing acknowledgements are seen "
            "too; 1 with a single checkpoint, or where the subtasks change"
        ),
    ),
    (
        "snapshot-duration",
        3,
        (
            "a subtask whose synchronous or asynchronous part lasted for half of the time-out or longer, "
            "as measured by itself"
        ),
    ),
    (
        "snapshot-cut-off",
        2,
        (
            "a subtask whose asynchronous part was still running when the checkpoint was aborted, by "
            "its TaskManager's log"
        ),
    ),
    (
        "end-of-back-pressure",
        2,
        (
            "busy subtasks that are not back-pressured while those before them are (busy and "
            "back-pressured time, 1.13+); 1 where buffer usage stands in for time"
        ),
    ),
    (
        "busiest-subtask",
        1,
        (
            "the subtask works most of the time while all its siblings are idle (1.13+); a hint only, "
            "since a busy subtask that nobody waits for is harmless"
        ),
    ),
    (
        "records-in",
        1,
        (
            "the subtask takes in at least twice the records of its siblings' mean; only of subtasks "
            "that another signal accuses, since skew alone is common and harmless"
        ),
    ),
    (
        "input-queue",
        1,
        "the subtask's input queue is at least three times as long as its median sibling's",
    ),
    (
        "time-per-record",
        2,
        (
            "every comparable subtask of one TaskManager takes at least three times as long per record "
            "as its siblings elsewhere, in two vertices or more: the machine, not the data"
        ),
    ),
    (
        "placement",
        2,
        (
            "the late and missing subtasks that stand out are (nearly) all that one TaskManager runs "
            "of their vertices; 1 unless p is at most 0.01, which takes many subtasks"
        ),
    ),
    (
        "abort-notifications",
        1,
        (
            "from 1.11 a TaskManager logs that a task saw the barrier only after the abort, without the "
            "task's name; where that happens once per checkpoint, it is the culprit's TaskManager"
        ),
    ),
    (
        "stuck-stack",
        3,
        "a task that does not react to cancelling, with the method it is stuck in",
    ),
)
# A p-value that is no accident, corrected for the number of TaskManagers.
_SURE: Final = 0.01
# So many failed checkpoints at the beginning of a spell show where the trouble began.
_FIRST: Final = 3
# An abort reaches a TaskManager within a heartbeat of its RPC, even over clocks that differ a little.
AT_THE_ABORT_US: Final = 2_000_000
_WEIGHTS: Final = {name: weight for name, weight, _ in SIGNALS}


@dataclass(frozen=True, slots=True, order=True)
class Suspect:
    """Who can be accused: a subtask, a whole task (no index), or a TaskManager (no task)."""

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
        """A subtask."""
        return cls(task=key.task, subtask_index=key.subtask_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """What one signal says: any of these did it, with that weight; `about` is its measured number."""

    signal: str
    weight: int
    suspects: frozenset[Suspect]
    says: str
    about: str
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Pressures:
    """What the loads of a job say, the same for all of its spells."""

    loads: Loads
    by_task: Mapping[str, list[Load]]
    roots: Sequence[Root]
    machine: SlowMachine | None


@once
def pressures(job: JobFacts) -> Pressures:
    """Read the loads of a job."""
    topology = topology_of(job)
    loads = read_loads(job, topology)
    return Pressures(loads, by_task(loads), roots(loads, topology), slow_machine(loads))


@once
def _reported_places(job: JobFacts) -> Mapping[tuple[str | None, int], str]:
    """Where REST, archives and dumps first saw each subtask."""
    found: dict[tuple[str | None, int], str] = {}
    for row in job.subtask_checkpoints:
        if row.taskmanager:
            found.setdefault((row.task, row.subtask_index), row.taskmanager)
    return found


class Case:
    """Everything the signals look at for one spell, read once."""

    def __init__(self, job: JobFacts, episode: Episode) -> None:
        """Collect it."""
        self.job = job
        self.episode = episode
        self.topology = topology_of(job)
        self.expired = [c for c in episode.checkpoints if c.status is Status.EXPIRED]
        self.ends: defaultdict[int | None, list[int]] = defaultdict(list)
        for checkpoint in episode.checkpoints:
            if checkpoint.ended_us is not None:
                self.ends[checkpoint.id].append(checkpoint.ended_us)
        self.late = late_readings(job, episode, self.topology)
        self.reported = reported_readings(job, episode, self.topology)
        measured = pressures(job)
        self.loads = measured.loads
        self._by_task = measured.by_task
        self.roots = measured.roots
        self.machine = measured.machine
        self.placement = place(job, [episode], accused_only=True)
        self.timeout_ms = j.timeout_ms(job)
        self.unaligned = j.unaligned(job, episode.checkpoints)
        self.told_of_aborts = at_least(job.version, 1, 11) is not False
        self.where = whereabouts(job, episode.last_us).attempts
        self.cut_off = _cut_off(job, episode, unaligned=self.unaligned)
        self.slow_parts = _slow_parts(self)

    def manager_of(self, key: SubtaskKey) -> str | None:
        """Where a subtask ran."""
        attempt = self.where.get(key)
        if attempt is not None and (attempt.taskmanager or attempt.host):
            return attempt.taskmanager or attempt.host
        load = self.loads.get(key)
        if load is not None and load.taskmanager:
            return load.taskmanager
        return _reported_places(self.job).get(key)

    def members(self, task: str) -> list[Load]:
        """Loads of the subtasks of a task."""
        return self._by_task.get(task, [])

    def size(self, task: str) -> int:
        """Parallelism of a task."""
        return self.topology.parallelism.get(task, 0)

    def name(self, suspect: Suspect) -> str:
        """A suspect as people know it."""
        if suspect.kind == "taskmanager":
            return suspect.taskmanager
        index = suspect.subtask_index if suspect.kind == "subtask" else None
        return j.subtask_text(suspect.task, index, self.size(suspect.task) or None)


def late_acknowledgements(case: Case) -> Iterator[Accusation]:
    """Who lags behind its siblings in the late messages."""
    yield from _from_readings(
        case, case.late, "late-acknowledgements", "late messages", "acknowledged late"
    )


def subtask_acknowledgements(case: Case) -> Iterator[Accusation]:
    """Who lags behind its siblings in REST, archive or dump."""
    yield from _from_readings(
        case,
        case.reported,
        "subtask-acknowledgements",
        "per-subtask acknowledgements",
        "late or missing",
    )


def _from_readings(
    case: Case, readings: Sequence[Reading], signal: str, source: str, verb: str
) -> Iterator[Accusation]:
    telling = [r for r in readings if r.task is not None and not _victims(case, r)]
    only_late = signal == "late-acknowledgements"
    if only_late and case.told_of_aborts:
        # From 1.11 a task that was told of the abort before it saw the barrier is silent, so that a
        # vertex that is late as a whole may well have the culprit upstream; and sources of the old
        # kind are late for the lock that they wait for.
        telling = [r for r in telling if not r.whole and r.task not in case.topology.sources]
    tasks = Counter(r.task for r in telling if r.task is not None)
    if not tasks:
        return
    if only_late:
        # Acknowledgements still on their way when the log ends are not seen: the majority counts.
        origin = min(tasks, key=lambda task: (-tasks[task], -case.topology.order(task)))
    else:
        # Queues fill from the culprit upwards, and the frontier moves with them: it begins there.
        origin = max(tasks, key=case.topology.order)
    telling = [r for r in telling if r.task == origin]
    sources = origin in case.topology.sources
    if len(telling) == 1 and (sources or (only_late and len(case.expired) > _FIRST)):
        return  # one among many is an accident
    refs = tuple(ref for reading in telling for ref in reading.refs)
    firsts = {(c.run, c.id) for c in case.expired[:_FIRST]}
    early = any((r.checkpoint.run, r.checkpoint.id) in firsts for r in telling)
    partial = [r for r in telling if not r.whole]
    if len(partial) * 2 < len(telling):
        if only_late and len(telling) >= _FIRST:
            yield from _always_the_same(case, telling, refs)
        yield from _as_a_whole(case, signal, origin, len(telling) - len(partial), early, verb, refs)
        return
    tally: Counter[SubtaskKey] = Counter()
    for reading in partial:
        tally.update(reading.laggards)
    often = max(tally.values())
    # Those that lag nearly as often as the one that lags most. Culprits stay, victims change: where
    # they take turns, nobody is accused.
    chosen = frozenset(key for key, count in tally.items() if count * 4 >= often * 3)
    agreed = often * 5 >= len(partial) * 3
    turns = len(tally) > 1 and len(tally) * 4 >= case.size(origin) * 3
    if turns or (len(chosen) > 1 and not agreed):
        return
    suspects, text = _as_suspects(case, chosen)
    machine = _machine_of(case, chosen)
    if machine is not None and len(partial) >= 2 and often * 4 >= len(partial) * 3:
        suspects |= {Suspect(taskmanager=machine)}
    strong = (
        agreed
        and len(chosen) == 1
        and len(partial) >= 2
        and (early or len(partial) * 2 >= len(readings))
        and case.topology.known_from is not None
    )
    yield Accusation(
        signal=signal,
        weight=_WEIGHTS[signal] if strong else 1,
        suspects=suspects,
        says=f"{text} {verb} in {often} of {j.count_text(len(partial), 'checkpoint')} with {source}",
        about=f"{verb} in {often} of {j.count_text(len(partial), 'checkpoint')}",
        refs=refs,
    )


def _as_a_whole(
    case: Case, signal: str, origin: str, whole: int, early: bool, verb: str, refs: tuple[Ref, ...]
) -> Iterator[Accusation]:
    """A vertex in which nobody is far behind the others."""
    last = not case.topology.next_to(origin)
    # In the middle of a job a vertex may be late for one downstream that the input does not show.
    if origin in case.topology.sources or not (last or early):
        return
    alone = case.size(origin) == 1
    suspect = Suspect(origin, 0) if alone else Suspect(origin)
    text = case.name(suspect) if alone else f"subtasks of {case.name(suspect)}, none far behind,"
    yield Accusation(
        signal=signal,
        weight=_WEIGHTS[signal] if last and early and whole >= 2 else 1,
        suspects=frozenset({suspect}),
        says=f"{text} {verb} in {j.count_text(whole, 'checkpoint')}, and those before it in time",
        about=f"{verb} in {j.count_text(whole, 'checkpoint')}, upstream in time",
        refs=refs,
    )


def _always_the_same(
    case: Case, telling: Sequence[Reading], refs: tuple[Ref, ...]
) -> Iterator[Accusation]:
    """Up to 1.10: the same minority is late in (nearly) every checkpoint, if only by a little."""
    if case.told_of_aborts:
        return
    tally: Counter[SubtaskKey] = Counter()
    for reading in telling:
        tally.update(reading.overdue)
    size = case.size(telling[0].task or "")
    if not tally or len(tally) * 2 > size or min(tally.values()) * 4 < len(telling) * 3:
        return
    suspects, text = _as_suspects(case, frozenset(tally))
    yield Accusation(
        signal="late-acknowledgements",
        weight=1,
        suspects=suspects,
        says=f"{text} a little late in each of {len(telling)} checkpoints, never their siblings",
        about=f"late in each of {len(telling)} checkpoints",
        refs=refs,
    )


def _machine_of(case: Case, keys: frozenset[SubtaskKey]) -> str | None:
    """The TaskManager of several subtasks, if they are all that it runs of their task."""
    managers = {case.manager_of(key) for key in keys}
    if len(keys) < 2 or len(managers) != 1 or None in managers:
        return None
    manager = str(managers.pop())
    task = next(iter(keys)).task
    here = {key for key in case.where if key.task == task and case.manager_of(key) == manager}
    return manager if here <= keys else None


def _victims(case: Case, reading: Reading) -> bool:
    """Whether all that lag behind are back-pressured: they wait for somebody else."""
    loads = [case.loads.get(key) for key in reading.laggards]
    return bool(loads) and all(load is not None and load.waits for load in loads)


def _as_suspects(case: Case, keys: frozenset[SubtaskKey]) -> tuple[frozenset[Suspect], str]:
    """Subtasks as suspects; all subtasks of a task are the task."""
    tasks: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        tasks[key.task].add(key.subtask_index)
    suspects: set[Suspect] = set()
    for task, indexes in tasks.items():
        if len(indexes) > 1 and len(indexes) >= case.size(task) > 0:
            suspects.add(Suspect(task=task))
        else:
            suspects |= {Suspect(task=task, subtask_index=index) for index in indexes}
    ranked = sorted(suspects)
    text = ", ".join(case.name(suspect) for suspect in ranked[:3])
    if len(ranked) > 3:
        text += f" and {len(ranked) - 3} more"
    return frozenset(suspects), text


def snapshot_duration(case: Case) -> Iterator[Accusation]:
    """Synchronous or asynchronous parts that ate the time-out."""
    for key, (part, longest, times, refs) in sorted(case.slow_parts.items()):
        yield Accusation(
            signal="snapshot-duration",
            weight=_WEIGHTS["snapshot-duration"],
            suspects=frozenset({Suspect.of(key)}),
            says=(
                f"the {part}hronous part of {case.name(Suspect.of(key))} took up to "
                f"{j.duration_text(longest)} ({times}×)"
            ),
            about=f"its {part}hronous part took {j.duration_text(longest)}",
            refs=refs,
        )


def _slow_parts(case: Case) -> dict[SubtaskKey, tuple[str, float, int, tuple[Ref, ...]]]:
    """Subtasks whose own snapshot lasted for half of the time-out: part, longest ms, how often."""
    limit = (case.timeout_ms or 0.0) / 2
    if limit <= 0:
        return {}
    numbers = [c.id for c in case.episode.checkpoints if c.run == case.job.runs]
    low, high = min(numbers, default=0), max(numbers, default=-1)
    rows: dict[SubtaskKey, list[tuple[str, SubtaskCheckpoint, float]]] = defaultdict(list)
    for row in _between(case.job, low, high):
        task = case.topology.canonical(row.task)
        if task is None:
            continue
        for part, took in (("sync", row.sync_ms), ("async", row.async_ms)):
            if part == "async" and case.unaligned:
                continue  # it waits for the barriers of all channels
            if took is not None and took >= limit:
                rows[SubtaskKey(task, row.subtask_index)].append((part, row, float(took)))
    found = {}
    for key, members in rows.items():
        part, _, longest = max(members, key=lambda item: item[2])
        mine = [(row, took) for name, row, took in members if name == part]
        found[key] = (
            part,
            longest,
            len({row.checkpoint for row, _ in mine}),
            tuple(row.ref for row, _ in mine if row.ref is not None),
        )
    return found


def _between(job: JobFacts, low: int, high: int) -> Sequence[SubtaskCheckpoint]:
    """What subtasks reported for checkpoints from one number to another."""
    rows = _by_number(job)
    first = bisect_left(rows, low, key=attrgetter("checkpoint"))
    last = bisect(rows, high, key=attrgetter("checkpoint"))
    return rows[first : max(first, last)]


@once
def _by_number(job: JobFacts) -> tuple[SubtaskCheckpoint, ...]:
    return tuple(sorted(job.subtask_checkpoints, key=attrgetter("checkpoint")))


def snapshot_cut_off(case: Case) -> Iterator[Accusation]:
    """Asynchronous parts that an abort interrupted."""
    cut: dict[SubtaskKey, list[Incident]] = defaultdict(list)
    for incident in case.cut_off:
        task = case.topology.canonical(incident.task)
        if task is not None and incident.subtask_index is not None and at_the_abort(case, incident):
            cut[SubtaskKey(task, incident.subtask_index)].append(incident)
    if not cut:
        return
    often = max(len(members) for members in cut.values())
    chosen = frozenset(key for key, members in cut.items() if len(members) * 4 >= often * 3)
    suspects, text = _as_suspects(case, chosen)
    yield Accusation(
        signal="snapshot-cut-off",
        weight=_WEIGHTS["snapshot-cut-off"] if often >= 2 and len(chosen) == 1 else 1,
        suspects=suspects,
        says=f"{text}: asynchronous part still running when the checkpoint was aborted, {often}×",
        about=f"its asynchronous part was still running at the abort {often} times",
        refs=tuple(i.ref for key in sorted(chosen) for i in cut[key] if i.ref is not None),
    )


def _cut_off(job: JobFacts, episode: Episode, *, unaligned: bool) -> list[Incident]:
    """Aborted asynchronous parts within the spell (not those that failed by themselves).

    None of unaligned checkpoints: their asynchronous part waits for the barriers of all channels.
    """
    if unaligned:
        return []
    cancelled = _cancelled_parts(job)
    expired = {c.id for c in episode.checkpoints if c.status is Status.EXPIRED}
    found = [item for number in expired for item in cancelled.get(number, ())]
    return [incident for _, incident in sorted(found, key=itemgetter(0))]


@once
def _cancelled_parts(job: JobFacts) -> Mapping[int, list[tuple[int, Incident]]]:
    """Asynchronous parts that were aborted, by checkpoint, each with its place in their order."""
    found: defaultdict[int, list[tuple[int, Incident]]] = defaultdict(list)
    for number, incident in enumerate(incidents(job, "async-failure")):
        if incident.checkpoint is not None and was_cancelled(incident):
            found[incident.checkpoint].append((number, incident))
    return dict(found)


def at_the_abort(case: Case, incident: Incident) -> bool:
    """Whether an asynchronous part was running at the expiry, not begun (and ended) after it.

    A task that is blocked in its synchronous part begins the asynchronous one too late, and logs the
    same words then.
    """
    ends = case.ends.get(incident.checkpoint, ())
    if not ends or incident.time_us is None:
        return False
    return min(abs(incident.time_us - end) for end in ends) <= AT_THE_ABORT_US


def was_cancelled(incident: Incident) -> bool:
    """Whether an asynchronous part ended since somebody else aborted the checkpoint."""
    text = incident.cause or ""
    return not text or "CancellationException" in text or "was closed" in text.lower()


def end_of_back_pressure(case: Case) -> Iterator[Accusation]:
    """Where back pressure ends."""
    for root in case.roots[:1]:
        suspects, text = _as_suspects(case, frozenset(load.key for load in root.subtasks))
        busiest = root.subtasks[0]
        share = f"{(busiest.busy or 0) * 100:.0f} %"
        measure = "busy" if root.measured else "input buffers in use"
        weight = _WEIGHTS["end-of-back-pressure"] if root.measured else 1
        if root.blocked or (len(root.subtasks) > 1 and not root.whole):
            weight = 1
        if len(root.subtasks) == root.known < root.siblings:
            # All that are known of it work: the others may as well, and then it is the task.
            suspects, weight = suspects | {Suspect(task=root.task)}, 1
        yield Accusation(
            signal="end-of-back-pressure",
            weight=weight,
            suspects=suspects,
            says=(
                f"{text}: {measure} {share} and not back-pressured, while those before wait up to "
                f"{root.pressed_before * 100:.0f} % of the time"
            ),
            about=f"{measure} {share} while upstream waits",
            refs=tuple(load.ref for load in root.subtasks if load.ref is not None),
        )


def busiest_subtask(case: Case) -> Iterator[Accusation]:
    """Busy among idle siblings."""
    found = busiest(case.loads, case.topology)
    if found and len(found) <= 3:
        suspects, text = _as_suspects(case, frozenset(load.key for load in found))
        share = f"{(found[0].busy or 0) * 100:.0f} %"
        yield Accusation(
            signal="busiest-subtask",
            weight=_WEIGHTS["busiest-subtask"],
            suspects=suspects,
            says=f"{text}: busy {share} of the time among idle siblings",
            about=f"busy {share} among idle siblings",
            refs=tuple(load.ref for load in found if load.ref is not None),
        )


def time_per_record(case: Case) -> Iterator[Accusation]:
    """One machine slow at everything."""
    machine = case.machine
    if machine is not None:
        yield Accusation(
            signal="time-per-record",
            weight=_WEIGHTS["time-per-record"],
            suspects=frozenset({Suspect(taskmanager=machine.taskmanager)}),
            says=(
                f"subtasks on {machine.taskmanager} take {machine.ratio:.1f} times as long per "
                f"record as their siblings, in {j.count_text(len(machine.vertices), 'vertex', 'vertices')}"
            ),
            about=f"{machine.ratio:.1f} times the siblings' time per record",
            refs=tuple(
                load.ref
                for load in case.loads.values()
                if load.taskmanager == machine.taskmanager and load.ref is not None
            ),
        )


def placement_signal(case: Case) -> Iterator[Accusation]:
    """Late subtasks that are one TaskManager's."""
    placed = case.placement
    if placed.pattern is Pattern.ONE_TASKMANAGER and placed.taskmanager is not None:
        share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
        number = f"{share.late} late, {share.expected} expected" if share.expected else "all of its"
        if share.p_value is not None:
            number += f", p = {share.p_value}"
        sure = share.p_value is not None and share.p_value <= _SURE
        yield Accusation(
            signal="placement",
            weight=_WEIGHTS["placement"] if sure else 1,
            suspects=frozenset({Suspect(taskmanager=placed.taskmanager)}),
            says=f"the late subtasks that stand out all run on {placed.taskmanager} ({number})",
            about=f"{number} subtasks",
        )


def abort_notifications(case: Case) -> Iterator[Accusation]:
    """The TaskManager on which one task got the barrier too late, checkpoint after checkpoint."""
    expired = {c.id for c in case.expired}
    by_checkpoint: dict[int, list[Incident]] = defaultdict(list)
    for incident in incidents(case.job, "abort-notified"):
        if incident.checkpoint is not None and incident.checkpoint in expired:
            by_checkpoint[incident.checkpoint].append(incident)
    lone = [members[0] for members in by_checkpoint.values() if len(members) == 1]
    managers = {incident.taskmanager for incident in lone}
    manager = next(iter(managers), None)
    if len(lone) < 2 or len(managers) != 1 or manager is None:
        return
    yield Accusation(
        signal="abort-notifications",
        weight=_WEIGHTS["abort-notifications"],
        suspects=frozenset({Suspect(taskmanager=manager)}),
        says=f"one task on {manager}, and no other, saw the barrier after the abort of "
        f"{j.count_text(len(lone), 'checkpoint')}",
        about=f"the barrier came after the abort of {j.count_text(len(lone), 'checkpoint')}",
        refs=tuple(incident.ref for incident in lone if incident.ref is not None),
    )


def stuck_stack(case: Case) -> Iterator[Accusation]:
    """Tasks that do not react to cancelling."""
    seen: dict[SubtaskKey, Incident] = {}
    for incident in incidents(case.job, "task-stuck"):
        task = case.topology.canonical(incident.task)
        if task is None or incident.subtask_index is None:
            continue
        if case.episode.last_us is None or (incident.time_us or 0) < (case.episode.first_us or 0):
            continue
        seen.setdefault(SubtaskKey(task, incident.subtask_index), incident)
    for key, incident in sorted(seen.items()):
        method = incident.text.get("method") or incident.cause or "an unknown method"
        yield Accusation(
            signal="stuck-stack",
            weight=_WEIGHTS["stuck-stack"],
            suspects=frozenset({Suspect.of(key)}),
            says=f"{case.name(Suspect.of(key))} did not react to cancelling, stuck in {method}",
            about=f"stuck in {j.shorten(method, 60)}",
            refs=(incident.ref,) if incident.ref is not None else (),
        )


SPEAKERS: Final[tuple[Callable[[Case], Iterable[Accusation]], ...]] = (
    late_acknowledgements,
    subtask_acknowledgements,
    snapshot_duration,
    snapshot_cut_off,
    end_of_back_pressure,
    busiest_subtask,
    time_per_record,
    placement_signal,
    stuck_stack,
)


def seconded(case: Case, suspect: Suspect) -> list[Accusation]:
    """Signals that only second an accusation: skew and queues are common where nobody is sick."""
    if suspect.kind != "subtask":
        return []
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    found = [
        replace(item, suspects=frozenset({suspect}))
        for item in abort_notifications(case)
        if Suspect(taskmanager=case.manager_of(key) or "") in item.suspects
    ]
    load = case.loads.get(key)
    if load is None:
        return found
    ratio = records_ratio(load, case.members(load.key.task), case.size(load.key.task))
    if ratio is not None and ratio >= SKEWED:
        found.append(
            Accusation(
                signal="records-in",
                weight=_WEIGHTS["records-in"],
                suspects=frozenset({suspect}),
                says=f"{case.name(suspect)} takes in {ratio:.1f} times the records of its siblings",
                about=f"{ratio:.1f} times the records of its siblings",
                refs=(load.ref,) if load.ref is not None else (),
            )
        )
    queue = queue_ratio(load, case.members(load.key.task))
    if queue is not None and queue >= QUEUE_TIMES:
        found.append(
            Accusation(
                signal="input-queue",
                weight=_WEIGHTS["input-queue"],
                suspects=frozenset({suspect}),
                says=(
                    f"{load.queue or 0:.0f} buffers wait before {case.name(suspect)}, {queue:.1f} "
                    "times as many as before its siblings"
                ),
                about=f"{queue:.1f} times the queue of its siblings",
                refs=(load.ref,) if load.ref is not None else (),
            )
        )
    return found
