"""The signals that vote on who is to blame, and the weight of each.

`SIGNALS` is the voting table, shown in reports and docs. Each function that is named after a signal
says when it speaks; what it says is an `Accusation` of subtasks, of a whole task or of a TaskManager.
`flowdiag.analyses.flink.suspects` counts the votes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.flink.episodes import incidents
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.flink.placement import Pattern, SubtaskKey
from flowdiag.analyses.flink.pressure import (
    BUSY,
    COSTLY,
    ENOUGH_SAMPLES,
    FULL,
    IDLE,
    PRESSED,
    QUEUE_TIMES,
    SKEWED,
    Load,
    Root,
    busiest,
    cost_ratio,
    data_ratio,
    holders,
    median,
    queue_ratio,
    records_ratio,
    stalled,
)
from flowdiag.analyses.flink.suspects.acknowledgements import Reading, late_messages
from flowdiag.analyses.flink.suspects.case import Case, Suspect, at_the_abort, sync_share
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Cited, Evidence, Vote
from flowdiag.analyses.model.rule import Signal

# The voting table: name, weight, when it speaks. Every rule that asks for suspects publishes it.
SIGNALS: Final[tuple[Signal, ...]] = (
    Signal(
        "late-acknowledgements",
        2,
        (
            "the most upstream subtasks that lag behind their siblings in the late messages of each "
            "expired checkpoint; 1 with a single checkpoint, or where the subtasks change"
        ),
    ),
    Signal(
        "subtask-acknowledgements",
        2,
        (
            "the same from REST, an archive or a DEBUG dump, where missing acknowledgements are seen "
            "too; 1 with a single checkpoint, or where the subtasks change"
        ),
    ),
    Signal(
        "snapshot-duration",
        3,
        (
            "a subtask whose synchronous or asynchronous part lasted for half of the timeout or longer, "
            "as measured by itself"
        ),
    ),
    Signal(
        "snapshot-cut-off",
        2,
        (
            "a subtask whose asynchronous part was still running when the checkpoint was aborted, by "
            "its TaskManager's log; 1 where that is so once, or of several"
        ),
    ),
    Signal(
        "snapshots",
        2,
        (
            "the synchronous snapshots of the accused, as measured by itself, take up 30% of the time "
            "or more; only of subtasks that another signal accuses, since a slow machine does the same"
        ),
    ),
    Signal(
        "end-of-back-pressure",
        2,
        (
            "busy subtasks that are not back-pressured while those before them are (busy and "
            "back-pressured time, 1.13+); 1 where buffer usage stands in for time, where siblings wait as "
            "well, or where several are busy and not the whole task"
        ),
    ),
    Signal(
        "keeps-up-no-more",
        1,
        (
            "the same where nobody waits for it yet, but its input queue never empties or its snapshots "
            "take up its time"
        ),
    ),
    Signal(
        "busiest-subtask",
        1,
        (
            "the subtask works most of the time while all its siblings are idle, or work a third of that "
            "at most, and nobody works more (1.13+); a hint only, "
            "since a busy subtask that nobody waits for is harmless"
        ),
    ),
    Signal(
        "all-alike",
        1,
        ("two thirds of the subtasks of the task, or more, are as busy"),
    ),
    Signal(
        "records-in",
        1,
        (
            "the subtask takes in at least twice the records or bytes of its siblings' mean; only of "
            "subtasks that another signal accuses, since skew alone is common and harmless"
        ),
    ),
    Signal(
        "input-queue",
        1,
        ("the subtask's input queue is at least three times as long as its median sibling's"),
    ),
    Signal(
        "saturated-input",
        1,
        (
            "the input buffers of the accused are in use: 85% of them on average, or half of them with "
            "peaks of 85%"
        ),
    ),
    Signal(
        "no-records",
        1,
        ("the accused is busy and takes in nothing"),
    ),
    Signal(
        "time-per-record",
        2,
        (
            "every comparable subtask of one TaskManager takes at least three times as long per record "
            "as its siblings elsewhere, in two vertices or more: the machine, not the data; 1 where several "
            "subtasks of a single vertex take twice as long there and nowhere else, or where the accused "
            "subtask takes three times as long"
        ),
    ),
    Signal(
        "same-taskmanager",
        1,
        (
            "the busy subtasks at the end of back pressure are all that one TaskManager runs of the task, "
            "with no more data than elsewhere, and another task lags there too or several subtasks do"
        ),
    ),
    Signal(
        "placement",
        2,
        (
            "the late and missing subtasks that stand out are (nearly) all that one TaskManager runs "
            "of their vertices; 1 unless p is at most 0.01, which takes many subtasks"
        ),
    ),
    Signal(
        "first-source",
        2,
        (
            "the same subtask of a source is the first to acknowledge late, or the only one, in two "
            "checkpoints and three quarters of those with late messages, while metrics show nobody who is "
            "busy or waits: it holds the checkpoint lock, or is stuck in a fetch; the same where per-subtask "
            "acknowledgements lack those of one subtask of a source only (later ones of a spell lack all)"
        ),
    ),
    Signal(
        "garbage-collection",
        2,
        (
            "the TaskManager's collectors take 40% of its time or more, and twice those of the others "
            "(their times in metric reports, else their pauses in the JVM's own log, `-Xlog:gc`)"
        ),
    ),
    Signal(
        "abort-notifications",
        1,
        (
            "from 1.11 a TaskManager logs that a task saw the barrier only after the abort, without the "
            "task's name; where that happens once per checkpoint, it is the culprit's TaskManager"
        ),
    ),
    Signal(
        "stuck-stack",
        3,
        ("a task that does not react to cancelling, with the method it is stuck in"),
    ),
    Signal(
        "totals-only",
        -2,
        (
            "nothing but metrics accuses, and they are totals since the start, without samples in time"
        ),
    ),
    Signal(
        "few-samples",
        -1,
        ("nothing but metrics accuses, with fewer than five samples"),
    ),
    Signal(
        "no-graph",
        -1,
        ("nothing but metrics accuses, and no input tells what comes before what"),
    ),
    Signal(
        "unseen-taskmanagers",
        -1,
        (
            "nothing but metrics accuses, and TaskManagers of the job gave none; nobody is named where "
            "per-subtask acknowledgements lack nobody but subtasks on these"
        ),
    ),
)
MEASURED_BY_METRICS: Final = frozenset(
    {
        "end-of-back-pressure",
        "keeps-up-no-more",
        "busiest-subtask",
        "all-alike",
        "records-in",
        "input-queue",
        "saturated-input",
        "no-records",
        "time-per-record",
        "same-taskmanager",
        "garbage-collection",
    }
)
"""The signals that rest on metrics alone."""
SNAPSHOT_SHARE: Final = 0.3
"""Of the time: less is what snapshots cost."""
HALF_FULL: Final = 0.5
"""Of the input buffers, on average: with peaks of `FULL` a subtask does not keep up."""
# A p-value that is no accident, corrected for the number of TaskManagers.
_SURE: Final = 0.01
# So many failed checkpoints at the beginning of a spell show where the trouble began.
_FIRST: Final = 3
_OFTEN: Final = 2  # checkpoints: one alone is an accident
_WEIGHTS: Final = {signal.name: signal.weight for signal in SIGNALS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """What one signal says: any of these did it, with that weight; `about` is its measured number."""

    signal: str
    weight: int
    suspects: frozenset[Suspect]
    says: str
    about: str
    refs: tuple[Cited, ...] = ()


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
    only_late = signal == "late-acknowledgements"
    telling = _telling(case, readings, only_late=only_late)
    if not telling:
        return
    origin = telling[0].task or ""
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
        says=f"{text} {verb} in {often} of {fmt.plural(len(partial), 'checkpoint')} with {source}",
        about=f"{verb} in {often} of {fmt.plural(len(partial), 'checkpoint')}",
        refs=refs,
    )


def _telling(case: Case, readings: Sequence[Reading], *, only_late: bool) -> list[Reading]:
    """Those of some readings that tell where it began: all of one task."""
    telling = [r for r in readings if r.task is not None and not _victims(case, r)]
    if only_late and case.told_of_aborts:
        # From 1.11 a task that was told of the abort before it saw the barrier is silent, so that a
        # vertex that is late as a whole may well have the culprit upstream; and sources of the old
        # kind are late for the lock that they wait for.
        telling = [r for r in telling if not r.whole and r.task not in case.topology.sources]
    tasks = Counter(r.task for r in telling if r.task is not None)
    if not tasks:
        return []
    if only_late:
        # Acknowledgements still on their way when the log ends are not seen: the majority counts.
        origin = min(tasks, key=lambda task: (-tasks[task], -case.topology.order(task)))
    else:
        # Queues fill from the culprit upwards, and the frontier moves with them: it begins there.
        origin = max(tasks, key=case.topology.order)
    return [r for r in telling if r.task == origin]


def _as_a_whole(
    case: Case,
    signal: str,
    origin: str,
    whole: int,
    early: bool,
    verb: str,
    refs: tuple[Cited, ...],
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
        says=f"{text} {verb} in {fmt.plural(whole, 'checkpoint')}, and those before it in time",
        about=f"{verb} in {fmt.plural(whole, 'checkpoint')}, upstream in time",
        refs=refs,
    )


def _always_the_same(
    case: Case, telling: Sequence[Reading], refs: tuple[Cited, ...]
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
    text = fmt.listed(case.name(suspect) for suspect in ranked[:3])
    if len(ranked) > 3:
        text += f" and {len(ranked) - 3} more"
    return frozenset(suspects), text


def snapshot_duration(case: Case) -> Iterator[Accusation]:
    """Synchronous or asynchronous parts that ate the timeout."""
    for key, slow in sorted(case.slow_parts.items()):
        yield Accusation(
            signal="snapshot-duration",
            weight=_WEIGHTS["snapshot-duration"],
            suspects=frozenset({Suspect.of(key)}),
            says=(
                f"the {slow.part}hronous part of {case.name(Suspect.of(key))} took up to "
                f"{fmt.duration(slow.longest_ms)} ({slow.times}×)"
            ),
            about=f"its {slow.part}hronous part took {fmt.duration(slow.longest_ms)}",
            refs=slow.refs,
        )


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


def cited_work(loads: Iterable[Load]) -> tuple[Evidence, ...]:
    """Where it is said how busy subtasks are."""
    return tuple(work for load in loads if (work := load.work) is not None)


def end_of_back_pressure(case: Case) -> Iterator[Accusation]:
    """Where back pressure ends; or, where nobody waits yet, who does not keep up."""
    for root in case.roots[:1]:
        chosen = _of_the_end(case, root)
        suspects, text = _as_suspects(case, frozenset(load.key for load in chosen))
        if root.whole and len(chosen) == len(root.subtasks):
            suspects = frozenset({Suspect(task=root.task)})
            text = case.name(Suspect(task=root.task))
        spot = _only_place(case, root)
        if spot is not None:
            suspects = frozenset({Suspect(taskmanager=spot)})
        name = "end-of-back-pressure" if root.awaited else "keeps-up-no-more"
        certain = root.measured and not root.blocked and len(suspects) == 1
        if len(root.subtasks) == root.known < root.siblings:
            # All that are known of it work: the others may as well, and then it is the task.
            certain = False
            if root.known * 2 >= root.siblings:
                suspects |= {Suspect(task=root.task)}
        busiest = chosen[0]
        share = fmt.percent(busiest.busy or 0)
        measure = "busy" if root.measured else "input buffers in use"
        says = f"{text}: {measure} {share} and not back-pressured"
        if root.awaited:
            says += (
                f", while those before wait up to {fmt.percent(root.pressed_before)} of the time"
            )
        yield Accusation(
            signal=name,
            weight=_WEIGHTS[name] if certain else 1,
            suspects=suspects,
            says=says,
            about=f"{measure} {share}" + (" while upstream waits" if root.awaited else ""),
            refs=cited_work(chosen),
        )


def _of_the_end(case: Case, root: Root) -> list[Load]:
    """Of the busy subtasks of an end those that get more than their share of the data, if any do."""
    skewed = [load for load in root.subtasks if (skew(case, load) or 0.0) >= SKEWED]
    return skewed or list(root.subtasks)


def skew(case: Case, load: Load) -> float | None:
    """How much more data than its siblings a subtask gets, unless a record costs it as much more."""
    members = case.members(load.key.task)
    ratio = data_ratio(load, members, case.size(load.key.task))
    cost = cost_ratio(load, members)
    if ratio is not None and cost is not None and cost >= max(COSTLY, ratio):
        return None
    return ratio


def busiest_subtask(case: Case) -> Iterator[Accusation]:
    """Busy among siblings that are idle, or nearly so."""
    found = busiest(case.loads, case.topology)
    if found and len(found) <= 3:
        suspects, text = _as_suspects(case, frozenset(load.key for load in found))
        share = fmt.percent(found[0].busy or 0)
        others = max(
            other.busy or 0.0
            for other in case.members(found[0].key.task)
            if other.key != found[0].key
        )
        among = "among idle siblings"
        if others > IDLE:
            among = f"while its siblings are for {fmt.percent(others)} at most"
        yield Accusation(
            signal="busiest-subtask",
            weight=_WEIGHTS["busiest-subtask"],
            suspects=suspects,
            says=f"{text}: busy {share} of the time {among}",
            about=f"busy {share} {among}",
            refs=cited_work(found),
        )


def evenly_loaded(case: Case, load: Load) -> bool:
    """Whether a subtask is known to get no more data than its siblings, or to pay far more for it."""
    members = case.members(load.key.task)
    ratio, cost = data_ratio(load, members, case.size(load.key.task)), cost_ratio(load, members)
    if (skew(case, load) or 0.0) >= SKEWED:
        return False
    return ratio is not None or (cost is not None and cost >= COSTLY)


def time_per_record(case: Case) -> Iterator[Accusation]:
    """One machine slow at everything."""
    machine = case.machine
    if machine is not None:
        several = len(machine.vertices) > 1
        yield Accusation(
            signal="time-per-record",
            weight=_WEIGHTS["time-per-record"] if several else 1,
            suspects=frozenset({Suspect(taskmanager=machine.taskmanager)}),
            says=(
                f"subtasks on {machine.taskmanager} take {machine.ratio:.1f} times as long per "
                f"record as their siblings, in {fmt.plural(len(machine.vertices), 'vertex', 'vertices')}"
            ),
            about=f"{machine.ratio:.1f} times the siblings' time per record",
            refs=cited_work(
                load
                for load in case.loads.values()
                if load.taskmanager == machine.taskmanager and load.key.task in machine.vertices
            ),
        )


def same_taskmanager(case: Case) -> Iterator[Accusation]:
    """The one TaskManager that runs all of the end and nothing else of its task.

    For versions without busy times, and where only few records tell what each costs.
    """
    for root in case.roots[:1]:
        spot = _only_place(case, root)
        if spot is None or (case.machine is not None and case.machine.taskmanager == spot):
            continue
        other = _lags_too(case, root.task, spot)
        tasks = "" if other is None else f", and those of {fmt.shorten(other)} lag there as well"
        yield Accusation(
            signal="same-taskmanager",
            weight=_WEIGHTS["same-taskmanager"],
            suspects=frozenset({Suspect(taskmanager=spot)}),
            says=f"the slow subtasks of {fmt.shorten(root.task)} are all that {spot} runs of it{tasks}",
            about=f"all its subtasks of {fmt.shorten(root.task, 40)} are slow",
            refs=cited_work(root.subtasks),
        )


def _only_place(case: Case, root: Root) -> str | None:
    """The TaskManager where all subtasks of an end run, if they are all that it runs of their task.

    Their data does not explain it, and several of them are slow there or those of another task as well.
    """
    spots = {load.taskmanager for load in root.subtasks}
    spot = next(iter(spots))
    if len(spots) != 1 or spot is None:
        return None
    if any((skew(case, load) or 0.0) >= SKEWED or stalled(load) for load in root.subtasks):
        return None
    members = case.members(root.task)
    here = {load.key for load in members if load.taskmanager == spot}
    if here != {load.key for load in root.subtasks} or len(here) == len(members):
        return None
    several = 1 < len(here) <= len(members) / 2
    return spot if several or _lags_too(case, root.task, spot) is not None else None


def _lags_too(case: Case, task: str, spot: str) -> str | None:
    """Another task whose subtasks on a TaskManager work far more than those elsewhere."""
    for other, members in case.view.by_task.items():
        mine = [load.busy or 0.0 for load in members if load.taskmanager == spot]
        elsewhere = [load.busy or 0.0 for load in members if load.taskmanager != spot]
        if other in (task, *case.topology.sources) or not mine or not elsewhere:
            continue
        if min(mine) >= PRESSED and min(mine) >= COSTLY * (median(elsewhere) or 0.0):
            return other
    return None


def placement_signal(case: Case) -> Iterator[Accusation]:
    """Late subtasks that are one TaskManager's."""
    placed = case.placement
    if placed.pattern is Pattern.ONE_TASKMANAGER and placed.taskmanager is not None:
        share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
        number = f"{share.late} of them"
        if share.expected:
            number += f", where its share would be {fmt.number(share.expected)}"
        if share.p_value is not None:
            number += f"; {fmt.chance(share.p_value)}"
        sure = share.p_value is not None and share.p_value <= _SURE
        yield Accusation(
            signal="placement",
            weight=_WEIGHTS["placement"] if sure else 1,
            suspects=frozenset({Suspect(taskmanager=placed.taskmanager)}),
            says=f"the late subtasks that stand out all run on {placed.taskmanager} ({number})",
            about=f"the late subtasks that stand out all run there ({number})",
        )


def first_source(case: Case) -> Iterator[Accusation]:
    """A source whose own acknowledgement all others were waiting for."""
    if not nobody_works(case):
        return
    late, firsts, told = late_messages(case.job), Counter[SubtaskKey](), 0
    refs: defaultdict[SubtaskKey, list[Cited]] = defaultdict(list)
    for checkpoint in case.expired:
        identity = (checkpoint.run, checkpoint.id)
        times = late.times.get(identity)
        if not times:
            continue
        told += 1
        first = min(times, key=lambda key: (times[key], key))
        if first.task in case.topology.sources:
            firsts[first] += 1
            refs[first].append(late.refs[identity][first])
    for key, often in firsts.items():
        if often >= _OFTEN and often * 4 >= told * 3 and not _waits(case, key):
            yield _first_source(
                case, key, f"the first to acknowledge late in {often}", told, refs[key]
            )
            return
    yield from _only_source(case)


def _only_source(case: Case) -> Iterator[Accusation]:
    """The one subtask of a source that lacks, checkpoint after checkpoint, wherever one of them does.

    The later checkpoints of a spell tell nothing: all wait for the first.
    """
    lone: Counter[SubtaskKey] = Counter()
    refs: list[Cited] = []
    for reading in case.reported:
        if reading.task in case.topology.sources and not reading.whole:
            lone.update(reading.laggards)
            refs += reading.refs
    keys = [key for key in lone if not _waits(case, key)]
    if len(lone) == 1 == len(keys) and lone[keys[0]] >= _OFTEN:
        often = lone[keys[0]]
        yield _first_source(
            case, keys[0], f"the only source late or missing in {often}", often, refs
        )


def _waits(case: Case, key: SubtaskKey) -> bool:
    load = case.loads.get(key)
    return load is None or load.waits


def _first_source(
    case: Case, key: SubtaskKey, what: str, told: int, refs: Sequence[Cited]
) -> Accusation:
    name = case.name(Suspect.of(key))
    counted = f"{what} of {fmt.plural(told, 'checkpoint')}"
    return Accusation(
        signal="first-source",
        weight=_WEIGHTS["first-source"],
        suspects=frozenset({Suspect.of(key)}),
        says=f"{name} was {counted}, and nobody behind it is busy or waits",
        about=f"{counted} while nobody behind it is busy",
        refs=tuple(refs),
    )


def nobody_works(case: Case) -> bool:
    """Whether metrics of a span show that nobody is busy or waits; False without metrics.

    Sources that wait for the barrier of a sibling are no exception (`pressure.holders`).
    """
    measured = [load for load in case.loads.values() if load.sampled and load.busy is not None]
    aligned = not case.unaligned and len(case.expired) >= _OFTEN
    held = bool(holders(case.loads, case.topology)) if aligned else False
    return (
        bool(measured)
        and not any(
            load.waits or (load.busy or 0.0) >= BUSY
            for load in case.loads.values()
            if load.sampled and load.key.task not in case.topology.sources
        )
        and (held or not any(load.waits and load.wait_measured for load in case.loads.values()))
    )


def garbage_collection(case: Case) -> Iterator[Accusation]:
    """A TaskManager that stands still to collect garbage."""
    for name, found in sorted(case.collecting.items()):
        share = f"{100 * found.share:.0f}% of its time collecting garbage"
        yield Accusation(
            signal="garbage-collection",
            weight=_WEIGHTS["garbage-collection"],
            suspects=frozenset({Suspect(taskmanager=name)}),
            says=f"{name} spends {share}",
            about=share,
            refs=found.refs[:2],
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
        f"{fmt.plural(len(lone), 'checkpoint')}",
        about=f"the barrier came after the abort of {fmt.plural(len(lone), 'checkpoint')}",
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
            about=f"stuck in {fmt.shorten(method, 60)}",
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
    same_taskmanager,
    placement_signal,
    garbage_collection,
    first_source,
    stuck_stack,
)


def seconded(case: Case, suspect: Suspect) -> list[Accusation]:
    """Signals that only second an accusation: skew and queues are common where nobody is sick."""
    if suspect.kind != "subtask":
        worst = case.worst_of(suspect)
        return [] if worst is None else list(_of_several(case, suspect, worst))
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    found = list(_of_its_snapshots(case, suspect, key))
    found += [
        replace(item, suspects=frozenset({suspect}))
        for item in abort_notifications(case)
        if Suspect(taskmanager=case.manager_of(key) or "") in item.suspects
    ]
    load = case.loads.get(key)
    return found if load is None else [*found, *_of_the_load(case, suspect, load)]


def _second(signal: str, suspect: Suspect, load: Load | None, says: str, about: str) -> Accusation:
    return Accusation(
        signal=signal,
        weight=_WEIGHTS[signal],
        suspects=frozenset({suspect}),
        says=says,
        about=about,
        refs=() if load is None else cited_work([load]),
    )


def _of_its_snapshots(case: Case, suspect: Suspect, key: SubtaskKey) -> Iterator[Accusation]:
    share = sync_share(case.job, key)
    if share is not None and share >= SNAPSHOT_SHARE:
        says = f"{fmt.percent(share)} of its time went into synchronous snapshots"
        yield _second("snapshots", suspect, None, says, says)


def _of_several(case: Case, suspect: Suspect, worst: Load) -> Iterator[Accusation]:
    """What seconds a whole task or a machine."""
    root = case.end_of(worst.key.task)
    if suspect.kind == "task" and root is not None and root.whole:
        says = f"{len(root.subtasks)} of {root.siblings} subtasks are as busy"
        yield _second("all-alike", suspect, None, says, says)
    yield from _full_input(suspect, worst)
    if suspect.kind == "task":
        yield from _of_its_snapshots(case, suspect, worst.key)


def _full_input(suspect: Suspect, load: Load) -> Iterator[Accusation]:
    used, peak = load.buffers, load.buffers_peak
    if used is not None and (used >= FULL or (used >= HALF_FULL and (peak or 0.0) >= FULL)):
        says = f"{fmt.percent(used)} of its input buffers in use on average"
        yield _second("saturated-input", suspect, load, says, says)


def _of_the_load(case: Case, suspect: Suspect, load: Load) -> Iterator[Accusation]:
    name, members = case.name(suspect), case.members(suspect.task)
    ratio = data_ratio(load, members, case.size(suspect.task))
    if ratio is not None and ratio >= SKEWED:
        what = "records"
        if ratio != records_ratio(load, members, case.size(suspect.task)):
            what = "bytes"
        yield _second(
            "records-in",
            suspect,
            load,
            f"{name} takes in {ratio:.1f} times the {what} of its siblings",
            f"{ratio:.1f} times the {what} of its siblings",
        )
    queue = queue_ratio(load, members)
    if queue is not None and queue >= QUEUE_TIMES:
        yield _second(
            "input-queue",
            suspect,
            load,
            f"{fmt.plural(round(load.queue or 0), 'buffer waits', 'buffers wait')} before {name},"
            f" {queue:.1f} times as many as before "
            "its siblings",
            f"{queue:.1f} times the queue of its siblings",
        )
    yield from _full_input(suspect, load)
    cost = cost_ratio(load, members)
    if case.at_end(load.key) and load.sampled and cost is not None and cost >= COSTLY:
        yield _second(
            "time-per-record",
            suspect,
            load,
            f"a record takes {name} {cost:.1f} times as long as its siblings elsewhere",
            f"{cost:.1f} times its siblings' time per record",
        )
    if stalled(load):
        yield _second("no-records", suspect, load, f"{name} takes in no records", "no records in")


def sits_unseen(case: Case, pro: Collection[str]) -> bool:
    """Whether what held the checkpoints up runs where nothing was measured, while metrics accuse somebody else.

    Args:
        case: the case.
        pro: the signals that accuse the suspect.
    """
    lag = {key for reading in case.reported for key in reading.overdue}
    if not lag or not pro or not MEASURED_BY_METRICS.issuperset(pro):
        return False
    return all(case.manager_of(key) in case.unseen for key in lag)


def caveats(case: Case, suspect: Suspect, pro: Collection[str]) -> list[Vote]:
    """What speaks against an answer that rests on metrics alone.

    Args:
        case: of the suspect.
        suspect: who is accused.
        pro: the signals that accuse it.
    """
    if not pro or not MEASURED_BY_METRICS.issuperset(pro):
        return []
    tasks = {suspect.task} if suspect.task else {root.task for root in case.roots[:1]}
    loads = [load for root in case.roots if root.task in tasks for load in root.subtasks]
    found = []
    fewest = min((load.samples for load in loads), default=ENOUGH_SAMPLES)
    if fewest == 0:
        found.append(("totals-only", "REST answers and archives count since the start"))
    elif fewest < ENOUGH_SAMPLES:
        found.append(("few-samples", f"{fmt.plural(fewest, 'sample')} only"))
    if case.topology.known_from in (None, "metrics"):
        found.append(("no-graph", "the order of the tasks is not known"))
    if case.expired and (unseen := case.unseen):
        found.append(
            ("unseen-taskmanagers", f"no metrics of {fmt.listed(sorted(unseen)[:_FIRST])}")
        )
    return [Vote(signal=name, text=says, weight=_WEIGHTS[name]) for name, says in found]
