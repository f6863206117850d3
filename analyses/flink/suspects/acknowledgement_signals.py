"""Signals from late and missing acknowledgements and from abort notifications."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.failures.episodes import incidents
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.flink.suspects.acknowledgements import Reading, late_messages
from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.load_signals import all_idle
from flowdiag.analyses.flink.suspects.signals import SuspectVote, group_suspects, vote_for
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Cited

# The first failed checkpoints of a spell, which show where the trouble began.
_FIRST: Final = 3
_REPEATED: Final = 2  # checkpoints; a single one may be chance
UPSTREAM_ON_TIME: Final = ", while upstream tasks were on time"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where acknowledgements come from, and how texts refer to it."""

    signal: str
    name: str
    verb: str
    late_only: bool


_LATE: Final = _Source("late-acknowledgements", "late messages", "acknowledged late", True)
_REPORTED: Final = _Source(
    "subtask-acknowledgements", "per-subtask acknowledgements", "late or missing", False
)


def late_acknowledgements(case: Case) -> Iterator[SuspectVote]:
    """Vote for subtasks that lag behind their siblings according to late messages."""
    yield from _from_readings(case, case.late, _LATE)


def subtask_acknowledgements(case: Case) -> Iterator[SuspectVote]:
    """Vote for subtasks that lag behind their siblings according to REST, an archive or a dump."""
    yield from _from_readings(case, case.reported, _REPORTED)


def _from_readings(
    case: Case, readings: Sequence[Reading], source: _Source
) -> Iterator[SuspectVote]:
    chosen = _readings_of_origin(case, readings, source)
    if not chosen:
        return
    origin = chosen[0].task or ""
    many = source.late_only and len(case.expired) > _FIRST
    if len(chosen) == 1 and (many or origin in case.topology.sources):
        return  # a single one may be chance
    firsts = {(c.run, c.id) for c in case.expired[:_FIRST]}
    early = any((r.checkpoint.run, r.checkpoint.id) in firsts for r in chosen)
    partial = [r for r in chosen if not r.whole]
    if len(partial) * 2 >= len(chosen):
        yield from _laggards(case, chosen, partial, source, len(readings), early=early)
        return
    if source.late_only and len(chosen) >= _FIRST:
        yield from _same_minority(case, chosen)
    yield from _whole_vertex(case, chosen, source, len(chosen) - len(partial), early=early)


def _readings_of_origin(case: Case, readings: Sequence[Reading], source: _Source) -> list[Reading]:
    """Return the readings of the task in which the delay began."""
    found = [r for r in readings if r.task is not None and not _are_victims(case, r)]
    if source.late_only and case.aborts_notified:
        # From 1.11 on, a task that is notified of the abort before the barrier arrives sends nothing. If a
        # whole vertex is late, the culprit may be upstream. Legacy sources are late because they wait
        # for the checkpoint lock.
        found = [r for r in found if not r.whole and r.task not in case.topology.sources]
    tasks = Counter(r.task for r in found if r.task is not None)
    if not tasks:
        return []
    if source.late_only:
        # The log may end before all acknowledgements arrive, so the majority counts.
        origin = min(tasks, key=lambda task: (-tasks[task], -case.topology.order(task)))
    else:
        # Queues fill up from the culprit upstream, and the frontier moves with them.
        origin = max(tasks, key=case.topology.order)
    return [r for r in found if r.task == origin]


def _are_victims(case: Case, reading: Reading) -> bool:
    """Return whether all laggards are back-pressured, which means that another task delays them."""
    loads = [case.loads.get(key) for key in reading.laggards]
    return bool(loads) and all(load is not None and load.waits for load in loads)


def _cited_records(readings: Sequence[Reading]) -> tuple[Cited, ...]:
    return tuple(ref for reading in readings for ref in reading.refs)


def _laggards(
    case: Case,
    readings: Sequence[Reading],
    partial: Sequence[Reading],
    source: _Source,
    total: int,
    *,
    early: bool,
) -> Iterator[SuspectVote]:
    """Vote for the subtasks that lag most often: culprits stay the same, while victims change."""
    tally = Counter(key for reading in partial for key in reading.laggards)
    often = max(tally.values())
    chosen = frozenset(key for key, count in tally.items() if count * 4 >= often * 3)
    agreed = often * 5 >= len(partial) * 3
    alternating = len(tally) > 1 and len(tally) * 4 >= case.size(readings[0].task or "") * 3
    if alternating or (len(chosen) > 1 and not agreed):
        return
    repeated = len(partial) >= _REPEATED
    suspects, text = group_suspects(case, chosen)
    taskmanager = _common_taskmanager(case, chosen)
    if repeated and taskmanager is not None and often * 4 >= len(partial) * 3:
        suspects |= {Suspect(taskmanager=taskmanager)}
    certain = (
        repeated,
        agreed,
        len(chosen) == 1,
        early or len(partial) * 2 >= total,
        case.topology.known_from is not None,
    )
    counted = f"{source.verb} in {often} of {fmt.plural(len(partial), 'checkpoint')}"
    yield vote_for(
        source.signal,
        suspects,
        f"{text} {counted} with {source.name}",
        counted,
        _cited_records(readings),
        certain=all(certain),
    )


def _common_taskmanager(case: Case, keys: frozenset[SubtaskKey]) -> str | None:
    """Return the TaskManager of these subtasks if it runs no other subtask of their task."""
    managers = {case.manager_of(key) for key in keys}
    if len(keys) < 2 or len(managers) != 1 or None in managers:
        return None
    manager = str(managers.pop())
    task = next(iter(keys)).task
    here = {key for key in case.where if key.task == task and case.manager_of(key) == manager}
    return manager if here <= keys else None


def _whole_vertex(
    case: Case, readings: Sequence[Reading], source: _Source, whole: int, *, early: bool
) -> Iterator[SuspectVote]:
    """Vote for a vertex in which no subtask lags far behind."""
    origin = readings[0].task or ""
    last = not case.topology.direct_successors(origin)
    # A vertex in the middle of a job may be late because of a downstream vertex that no input shows.
    if origin in case.topology.sources or not (last or early):
        return
    single = case.size(origin) == 1
    suspect = Suspect(origin, 0) if single else Suspect(origin)
    text = (
        case.name(suspect)
        if single
        else f"subtasks of {case.name(suspect)}, none of them far behind,"
    )
    counted = f"{source.verb} in {fmt.plural(whole, 'checkpoint')}"
    yield vote_for(
        source.signal,
        {suspect},
        f"{text} {counted}, while upstream tasks acknowledged in time",
        f"{counted}{UPSTREAM_ON_TIME}",
        _cited_records(readings),
        certain=last and early and whole >= 2,
    )


def _same_minority(case: Case, readings: Sequence[Reading]) -> Iterator[SuspectVote]:
    """Vote for a minority of subtasks that is late in almost every checkpoint, however slightly (up to Flink 1.10)."""
    if case.aborts_notified:
        return
    tally = Counter(key for reading in readings for key in reading.overdue)
    size = case.size(readings[0].task or "")
    if not tally or len(tally) * 2 > size or min(tally.values()) * 4 < len(readings) * 3:
        return
    suspects, text = group_suspects(case, frozenset(tally))
    yield vote_for(
        "late-acknowledgements",
        suspects,
        f"{text} slightly late in each of {len(readings)} checkpoints, unlike their siblings",
        f"late in each of {len(readings)} checkpoints",
        _cited_records(readings),
        certain=False,
    )


def first_source(case: Case) -> Iterator[SuspectVote]:
    """Vote for a source whose acknowledgement all other tasks waited for."""
    if not all_idle(case):
        return
    late, firsts, total = late_messages(case.job), Counter[SubtaskKey](), 0
    refs: defaultdict[SubtaskKey, list[Cited]] = defaultdict(list)
    for checkpoint in case.expired:
        identity = (checkpoint.run, checkpoint.id)
        times = late.times.get(identity)
        if not times:
            continue
        total += 1
        first = min(times, key=lambda key: (times[key], key))
        if first.task in case.topology.sources:
            firsts[first] += 1
            refs[first].append(late.refs[identity][first])
    for key, often in firsts.items():
        if often >= _REPEATED and often * 4 >= total * 3 and not _waits(case, key):
            text = f"the first to acknowledge late in {often}"
            yield _vote_for_source(case, key, text, total, refs[key])
            return
    yield from _only_late_source(case)


def _only_late_source(case: Case) -> Iterator[SuspectVote]:
    """Vote for the only source subtask that is late or missing in readings that single out sources.

    Later checkpoints of a spell prove nothing, because by then all tasks wait for the first checkpoint.
    """
    tally: Counter[SubtaskKey] = Counter()
    refs: list[Cited] = []
    for reading in case.reported:
        if reading.task in case.topology.sources and not reading.whole:
            tally.update(reading.laggards)
            refs += reading.refs
    if len(tally) != 1:
        return
    ((key, often),) = tally.items()
    if often >= case.fewest and not _waits(case, key):
        yield _vote_for_source(
            case, key, f"the only source late or missing in {often}", often, refs
        )


def _waits(case: Case, key: SubtaskKey) -> bool:
    load = case.loads.get(key)
    return load is None or load.waits


def _vote_for_source(
    case: Case, key: SubtaskKey, text: str, total: int, refs: Sequence[Cited]
) -> SuspectVote:
    suspect = Suspect.of(key)
    counted = f"{text} of {fmt.plural(total, 'checkpoint')}"
    return vote_for(
        "first-source",
        {suspect},
        f"{case.name(suspect)} was {counted}, while no downstream task is busy or waits",
        f"{counted} while no downstream task is busy",
        tuple(refs),
    )


def abort_notifications(case: Case) -> Iterator[SuspectVote]:
    """Vote for the TaskManager where a single task repeatedly received the barrier too late."""
    expired = {c.id for c in case.expired}
    by_checkpoint: dict[int, list[Incident]] = defaultdict(list)
    for incident in incidents(case.job, "abort-notified"):
        if incident.checkpoint is not None and incident.checkpoint in expired:
            by_checkpoint[incident.checkpoint].append(incident)
    single = [members[0] for members in by_checkpoint.values() if len(members) == 1]
    managers = {incident.taskmanager for incident in single}
    manager = next(iter(managers), None)
    if len(single) < 2 or len(managers) != 1 or manager is None:
        return
    counted = f"after the abort of {fmt.plural(len(single), 'checkpoint')}"
    yield vote_for(
        "abort-notifications",
        {Suspect(taskmanager=manager)},
        f"only one task on {manager} received the barrier {counted}",
        f"the barrier arrived {counted}",
        tuple(incident.ref for incident in single if incident.ref is not None),
    )
