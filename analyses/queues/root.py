"""Where back pressure starts: windows are walked from the sources down, and what they say is joined.

In each window `flowdiag.analyses.flink.pressure.roots` finds the tasks that are busy, not back-pressured
themselves, and right behind one that waits. The windows in which the same task is an end, with at most
one other between, are a spell; the numbers of the whole spell convict, never one window alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.derived import once
from flowdiag.analyses.finding import Confidence, State, Vote, weigh
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import episodes, spells
from flowdiag.analyses.flink.job import SubtaskLoad
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import (
    COSTLY,
    FULL,
    IDLE,
    MANY_RECORDS,
    PRESSED,
    QUEUE_TIMES,
    SKEWED,
    Load,
    Root,
    busiest,
    by_task,
    cost_ratio,
    load_of,
    median,
    queue_ratio,
    read_loads,
    records_ratio,
    roots,
    slow_machine,
    stalled,
)
from flowdiag.analyses.queues.facts import Gauge, JobQueues, Sample, joined
from flowdiag.analyses.queues.skew import against_siblings, increases

ENOUGH_SAMPLES: Final = 5
"""Samples of buffers and queues are racy (catalogue/flink.md 5.3): fewer convict nobody."""
ENOUGH_TIMES: Final = 3
"""Busy and back-pressured times are means over seconds already."""
BRIDGE: Final = 1
"""Windows without the root that a spell may have in its middle."""
FEW_SAMPLES: Final = 3
NEAR_START_US: Final = 120_000_000
CATCH_UP_US: Final = 600_000_000
WARM_UP_US: Final = 60_000_000
SHORT_US: Final = 300_000_000
SNAPSHOT_SHARE: Final = 0.3
FILLED: Final = 0.25
"""Of a queue's capacity, on average: a subtask that keeps up empties its input between two samples."""
MOST_ALIKE: Final = 2 / 3
FEWEST_BYTES: Final = 10_000.0
MOST_CHANCE_LATE: Final = 2
DEAR: Final = 2.0
"""Times the cost of a record elsewhere, where several subtasks of a machine show it."""
HALF_BUSY: Final = 0.4
"""Of the time: with less a slow machine hurts nobody."""
ALIKE: Final = 1.5
"""Times the middle one, up or down: what subtasks on sound machines differ by."""

Loads = dict[SubtaskKey, Load]

# The voting table: name, weight, when it speaks.
SIGNALS: Final[tuple[tuple[str, int, str], ...]] = (
    (
        "end-of-back-pressure",
        2,
        (
            "it is busy and not back-pressured, and who feeds it waits; 1 where buffer usage stands in "
            "for the times that 1.13 and later measure"
        ),
    ),
    (
        "keeps-up-no-more",
        1,
        "it is busy among idle siblings and its queue never empties, though nobody waits for it yet",
    ),
    ("saturated-input", 1, "its input buffers are in use, exclusive and floating ones"),
    ("queue-length", 1, "far more buffers wait before it than before its siblings"),
    ("records-in", 1, "it takes in many times the records or bytes of its siblings"),
    ("time-per-record", 1, "a record costs it many times what it costs its siblings elsewhere"),
    ("idle-siblings", 1, "its siblings are idle most of the time"),
    ("all-alike", 1, "all subtasks of the task are as busy"),
    ("same-taskmanager", 1, "subtasks of several tasks are slow there, and nowhere else"),
    ("no-records", 1, "it is busy and takes in nothing"),
    ("checkpoints", 1, "the same subtask held barriers up, or was late to acknowledge"),
    ("snapshots", 2, "its synchronous snapshots take up much of the time"),
    ("waiting-siblings", -1, "some of its siblings wait too, so the end may lie further down"),
    ("totals-only", -2, "counted since the start, without samples in time"),
    ("few-samples", -1, "fewer than five samples"),
    ("no-graph", -1, "no input tells what comes before what"),
)
_WEIGHTS: Final = {name: weight for name, weight, _ in SIGNALS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """One end of back pressure and the time it lasted.

    Args:
        task: the vertex.
        convicted: its subtasks that are the end, the worst first.
        members: loads of all known subtasks of the vertex, over the spell.
        loads: of everything, over the spell.
        whole: whether the vertex as a whole is slow, not some of its subtasks.
        taskmanager: where a machine is to blame.
        cause: a word of `findings.CAUSES`; None where nothing tells.
        before: the tasks that wait for it, and the largest share of the time that one of them does.
        samples: of the subtask that has fewest.
    """

    task: str
    convicted: tuple[Load, ...]
    members: tuple[Load, ...]
    loads: Mapping[SubtaskKey, Load]
    parallelism: int
    whole: bool
    taskmanager: str | None
    cause: str | None
    before: tuple[tuple[str, float], ...]
    windows: tuple[int, ...]
    first_us: int | None
    last_us: int | None
    samples: int
    state: State
    votes: tuple[Vote, ...]
    numbers: Mapping[str, float]
    after_start: bool = False
    resumed: bool = False
    ended_by_start: bool = False
    draining: bool = False
    fatal: bool = False

    @property
    def confidence(self) -> Confidence:
        """From the votes."""
        return weigh(self.votes)

    @property
    def lasted_us(self) -> int:
        """From the first sample to the last."""
        if self.first_us is None or self.last_us is None:
            return 0
        return self.last_us - self.first_us

    @property
    def ordinary(self) -> bool:
        """Whether this is what a start, a restore or a rescaling costs: working off a backlog.

        A task that works off its backlog is busy in all of its subtasks and gets through; skewed or
        slow subtasks are no part of it, unless they are over soon. Where checkpoints fail to the end,
        nothing is ordinary. `fatal`: they do.
        """
        if self.fatal:
            return False
        if self.draining and self.whole:
            return True
        if self.state is State.RECOVERED:
            return (self.after_start or self.ended_by_start) and (
                self.whole or self.lasted_us <= SHORT_US
            )
        mild = self.cause in (None, "slow-operator")
        if self.resumed:
            return mild and self.lasted_us < CATCH_UP_US
        return mild and self.after_start and self.lasted_us < WARM_UP_US and self.samples < 10


@once
def _by_window(job: JobQueues) -> dict[int, dict[SubtaskKey, Sample]]:
    found: dict[int, dict[SubtaskKey, Sample]] = defaultdict(dict)
    for key, each in job.samples.items():
        for sample in each:
            found[sample.window][key] = sample
    return found


def samples_in(job: JobQueues, windows: Iterable[int] | None) -> dict[SubtaskKey, list[Sample]]:
    """The samples of each subtask in some windows; None means all of them."""
    if windows is None:
        return {key: list(each) for key, each in job.samples.items() if each}
    held = _by_window(job)
    found: dict[SubtaskKey, list[Sample]] = {}
    for window in sorted(set(windows)):
        for key, sample in held.get(window, {}).items():
            found.setdefault(key, []).append(sample)
    return found


@once
def sampled(job: JobQueues) -> bool:
    """Whether there are samples over time, not single answers only."""
    return any(
        sum(sample.samples for sample in each) >= ENOUGH_TIMES for each in job.samples.values()
    )


def loads_in(job: JobQueues, windows: Iterable[int] | None = None) -> Loads:
    """Loads of all subtasks over some windows; totals of REST where there are no samples over time.

    The same windows give the same dictionary, which nobody may change.
    """
    known, wanted = _known_loads(job), None if windows is None else tuple(windows)
    if wanted not in known:
        known[wanted] = _loads(job, wanted)
    return known[wanted]


@once
def _known_loads(job: JobQueues) -> dict[tuple[int, ...] | None, Loads]:
    return {}


def _loads(job: JobQueues, windows: tuple[int, ...] | None) -> Loads:
    found = {key: load_of(key, _row(key, each)) for key, each in samples_in(job, windows).items()}
    if not sampled(job) and job.totals:
        return found | read_loads(job.job, job.topology)
    return _filled_up(job, found)


def _filled_up(job: JobQueues, loads: Loads) -> Loads:
    """Count a long queue as work where no version measures work.

    Buffer usage knows remote channels only. From 1.9 the queue length takes in what waits at local
    producers: alone it says little, far above the siblings' it does.
    """
    grouped = by_task(loads)
    adjusted = {}
    for key, load in loads.items():
        if not load.measured and _queues_up(job, load, grouped[key.task]):
            load = replace(load, busy=max(load.busy or 0.0, FULL))
        adjusted[key] = load
    return adjusted


def _mean(gauge: Gauge | None) -> float | None:
    return None if gauge is None else gauge.mean


def _row(key: SubtaskKey, each: Sequence[Sample]) -> SubtaskLoad:
    alone = each[0].gauges if len(each) == 1 else None

    def gauge(name: str) -> Gauge | None:
        if alone is not None:
            return alone.get(name)
        return joined(sample.gauges.get(name) for sample in each)

    def increase(name: str) -> float | None:
        known = [sample.increases[name] for sample in each if name in sample.increases]
        return sum(known) if known else None

    records, rate = increase("records_in"), gauge("records_in_rate")
    if records is None and rate is not None:
        firsts = [sample.first_us for sample in each if sample.first_us is not None]
        lasts = [sample.last_us for sample in each if sample.last_us is not None]
        if firsts and lasts:
            records = rate.mean * (max(lasts) - min(firsts)) / 1e6
    longest = max(each, key=lambda sample: sample.samples)
    alignment, delay = gauge("alignment_ns"), gauge("start_delay_ns")
    return SubtaskLoad(
        job=None,
        task=key.task,
        subtask_index=key.subtask_index,
        taskmanager=longest.taskmanager,
        host=longest.host,
        samples=sum(sample.samples for sample in each),
        busy=_mean(gauge("busy")),
        idle=_mean(gauge("idle")),
        back_pressured=_mean(gauge("back_pressured")),
        is_back_pressured=_mean(gauge("is_back_pressured")),
        records_in=records,
        records_out=increase("records_out"),
        bytes_in=increase("bytes_in"),
        input_queue=_mean(gauge("input_queue")),
        in_pool_usage=_mean(gauge("in_pool")),
        out_pool_usage=_mean(gauge("out_pool")),
        alignment_ms=None if alignment is None else alignment.mean / 1e6,
        start_delay_ms=None if delay is None else delay.mean / 1e6,
        ref=longest.ref,
    )


def linked(job: JobQueues) -> bool:
    """Whether anything tells what comes before what."""
    return job.topology.known_from not in (None, "metrics")


def ends(job: JobQueues, loads: Loads) -> list[Root]:
    """The ends of back pressure in one set of loads; without a graph a full input must do."""
    if linked(job):
        found = [_informed(root, loads) for root in roots(loads, job.topology)]
        known = {root.task for root in found}
        behind = [*_behind(job, loads, bool(found)), *_slow_places(job, loads)]
        return found + [root for root in behind if root.task not in known]
    return _unlinked(job, loads)


def _behind(job: JobQueues, loads: Loads, pressed: bool) -> list[Root]:
    """Subtasks that do not keep up while their siblings are idle, though nobody waits for them yet.

    They are busy, and part of their input is full on average: who is merely busy empties it. Or their
    snapshots take much of the time.

    Args:
        job: for the capacity of inputs, and what checkpoints say.
        loads: of all subtasks.
        pressed: whether an end of back pressure was found, which explains what checkpoints suffer.
    """
    grouped = by_task(loads)
    found = []
    for load in busiest(loads, job.topology):
        members = grouped[load.key.task]
        if not _queues_up(job, load, members) and (
            pressed or not _holds_barriers(job, load, members)
        ):
            continue
        before = [
            other.pressed or 0.0
            for name in job.topology.upstream.get(load.key.task, ())
            for other in grouped.get(name, ())
        ]
        found.append(
            Root(
                task=load.key.task,
                subtasks=(load,),
                siblings=max(len(members), job.topology.parallelism.get(load.key.task, 0)),
                known=len(members),
                pressed_before=max(before, default=0.0),
                measured=True,
            )
        )
    return found


def _slow_places(job: JobQueues, loads: Loads) -> list[Root]:
    """Tasks whose subtasks on one TaskManager are all busy with the same work that costs others half.

    Before anybody waits: two subtasks and more there, as many elsewhere, and those elsewhere alike.
    """
    found = []
    for task, members in by_task(loads).items():
        spot = _slow_place(members)
        if spot is None or task in job.topology.sources:
            continue
        mine = tuple(load for load in members if load.taskmanager == spot)
        found.append(
            Root(
                task=task,
                subtasks=tuple(sorted(mine, key=lambda load: (-(load.busy or 0.0), load.key))),
                siblings=max(len(members), job.topology.parallelism.get(task, 0)),
                known=len(members),
                pressed_before=0.0,
                measured=True,
            )
        )
    return found


def _slow_place(members: Sequence[Load]) -> str | None:
    """The TaskManager on which a record costs twice and more; None unless there is exactly one."""
    costs: dict[str, list[float]] = defaultdict(list)
    for load in members:
        if load.cost is None or load.taskmanager is None or (load.records or 0.0) < MANY_RECORDS:
            return None
        costs[load.taskmanager].append(load.cost)
    found = []
    usual = median(cost for each in costs.values() for cost in each) or 0.0
    for spot, mine in costs.items():
        if len(mine) < 2 or min(mine) < usual:
            continue
        elsewhere = [cost for other, each in costs.items() if other != spot for cost in each]
        middle = median(elsewhere)
        here = [load for load in members if load.taskmanager == spot]
        if len(elsewhere) < len(mine) or not middle:
            continue
        alike = max(elsewhere) <= ALIKE * middle and min(elsewhere) * ALIKE >= middle
        busy = all(not load.waits and (load.busy or 0.0) >= HALF_BUSY for load in here)
        if alike and busy and min(mine) >= DEAR * middle:
            found.append(spot)
    return found[0] if len(found) == 1 else None


def _queues_up(job: JobQueues, load: Load, members: Sequence[Load]) -> bool:
    """Whether far more waits before a subtask than before its siblings, and much of what fits."""
    capacity = job.capacity.get(load.key)
    if load.queue is None or capacity is None:
        return False
    if load.queue < FILLED * max(capacity.total - capacity.events, 1):
        return False
    ratio = queue_ratio(load, members)
    return ratio is not None and ratio >= QUEUE_TIMES


def _holds_barriers(job: JobQueues, load: Load, members: Sequence[Load]) -> bool:
    """Whether its snapshots take much of its time, or it is late again and again and dear per record."""
    share = _snapshot_share(job, load, None)
    if share is not None and share >= SNAPSHOT_SHARE:
        return True
    late = _late_checkpoints(job, {load.key})
    cost = cost_ratio(load, members)
    return len(late) >= MOST_CHANCE_LATE and cost is not None and cost >= COSTLY


def _unlinked(job: JobQueues, loads: Loads) -> list[Root]:
    """The busy tasks with full inputs, where some other task waits and nothing tells the order."""
    found = []
    waits = [load for load in loads.values() if load.waits and load.wait_measured]
    for task, members in by_task(loads).items():
        busy = [load for load in members if load.works and load.measured]
        full = [load for load in busy if (queue_ratio(load, members) or 0) >= QUEUE_TIMES]
        if not waits or not busy or any(load.waits for load in members):
            continue
        if full or len(busy) == len(members) > 1:
            found.append(
                Root(
                    task=task,
                    subtasks=tuple(full or busy),
                    siblings=max(len(members), job.topology.parallelism.get(task, 0)),
                    known=len(members),
                    pressed_before=max(load.pressed or 0.0 for load in waits),
                    measured=True,
                )
            )
    return found


def _informed(root: Root, loads: Loads) -> Root:
    """Without the subtasks that are busy while nothing waits before them.

    Where one of the busy siblings has a queue that another lacks, the other is busy with something else.
    """
    queues = [load.queue for load in root.subtasks]
    if len(root.subtasks) < 2 or any(queue is None for queue in queues):
        return root
    longest = max(queue or 0.0 for queue in queues)
    if longest < 5:
        return root
    kept = tuple(load for load in root.subtasks if (load.queue or 0.0) * QUEUE_TIMES >= longest)
    return replace(root, subtasks=kept)


@once
def find_spells(job: JobQueues) -> tuple[Spell, ...]:
    """All ends of back pressure of a job, the ongoing and most convincing first."""
    order = job.windows
    if not sampled(job):
        if not job.totals:
            return ()  # single answers convict nobody
        whole = _spell(job, None, loads_in(job))
        return _ranked(whole)
    seen: dict[str, list[int]] = defaultdict(list)
    for place, window in enumerate(order):
        for root in ends(job, loads_in(job, [window])):
            seen[root.task].append(place)
    # A root that shows only over all of the input: where windows are thin.
    found: list[Spell] = []
    for task, places in seen.items():
        for run in _runs(places):
            windows = order[run[0] : run[-1] + 1]
            found += _spell(job, windows, loads_in(job, windows), only=task)
    return _ranked(found)


def _runs(places: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in places:
        if runs and place - runs[-1][-1] <= BRIDGE + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _ranked(found: Iterable[Spell]) -> tuple[Spell, ...]:
    return tuple(
        sorted(
            found,
            key=lambda s: (
                s.state is not State.ONGOING,
                -s.confidence.weight,
                -max((share for _, share in s.before), default=0.0),
                s.task,
                s.first_us or 0,
            ),
        )
    )


def _spell(
    job: JobQueues, windows: Sequence[int] | None, loads: Loads, only: str | None = None
) -> list[Spell]:
    found = []
    for root in ends(job, loads):
        if only is not None and root.task != only:
            continue
        samples = _samples_of(job, windows, [load.key for load in root.subtasks])
        if sampled(job) and samples < (ENOUGH_TIMES if root.measured else ENOUGH_SAMPLES):
            continue
        found.append(_judged(job, windows, loads, root, samples))
    return found


def _samples_of(job: JobQueues, windows: Sequence[int] | None, keys: Sequence[SubtaskKey]) -> int:
    """Samples of the fewest among the convicted, of a metric that tells of load."""
    held = samples_in(job, windows)
    counts = []
    for key in keys:
        gauges = [
            gauge.n
            for name in ("busy", "is_back_pressured", "in_pool", "input_queue")
            if (gauge := joined(sample.gauges.get(name) for sample in held.get(key, ())))
            is not None
        ]
        counts.append(max(gauges, default=0))
    return min(counts, default=0)


def _judged(
    job: JobQueues,
    windows: Sequence[int] | None,
    loads: Loads,
    root: Root,
    samples: int,
) -> Spell:
    members = by_task(loads).get(root.task, [])
    convicted = list(root.subtasks)
    size = max(root.siblings, 1)
    whole = len(convicted) > 1 and len(convicted) >= MOST_ALIKE * size
    whole = whole or (size == 1)
    votes, numbers = _votes(job, windows, loads, root, members)
    cause, manager, convicted, whole = _cause(
        job, windows, loads, root, members, votes, numbers, whole
    )
    votes += _checkpoint_votes(job, convicted)
    if sampled(job) and samples < ENOUGH_SAMPLES:
        votes.append(_vote("few-samples", f"{samples} samples only"))
    before = (
        tuple(
            (name, max((load.pressed or 0.0 for load in by_task(loads).get(name, ())), default=0.0))
            for name in job.topology.upstream.get(root.task, ())
        )
        if linked(job)
        else tuple(
            sorted({(load.key.task, load.pressed or 0.0) for load in loads.values() if load.waits})
        )
    )
    held = samples_in(job, windows)
    firsts = [s.first_us for each in held.values() for s in each if s.first_us is not None]
    lasts = [s.last_us for each in held.values() for s in each if s.last_us is not None]
    first_us, last_us = min(firsts, default=None), max(lasts, default=None)
    state = _state(job, windows)
    worst = convicted[0] if convicted else None
    if worst is not None:
        if worst.busy is not None and worst.measured:
            numbers["busy"] = worst.busy
        if worst.pressed is not None and worst.wait_measured:
            numbers["back-pressured"] = worst.pressed
    return Spell(
        task=root.task,
        convicted=tuple(convicted),
        members=tuple(members),
        loads=loads,
        parallelism=size,
        whole=whole,
        taskmanager=manager,
        cause=cause,
        before=before,
        windows=tuple(windows or ()),
        first_us=first_us,
        last_us=last_us,
        samples=samples,
        state=state,
        votes=tuple(votes),
        numbers=numbers,
        after_start=_near(job.starts_us, first_us, NEAR_START_US),
        resumed=_resumed(job, first_us),
        ended_by_start=state is State.RECOVERED and _near_end(job, last_us),
        draining=_draining(job, windows),
        fatal=state is State.ONGOING and fatal(job),
    )


def _vote(signal: str, says: str, weight: int | None = None) -> Vote:
    return Vote(signal=signal, says=says, weight=_WEIGHTS[signal] if weight is None else weight)


def _votes(
    job: JobQueues,
    windows: Sequence[int] | None,
    loads: Loads,
    root: Root,
    members: Sequence[Load],
) -> tuple[list[Vote], dict[str, float]]:
    votes: list[Vote] = []
    numbers: dict[str, float] = {}
    first = root.subtasks[0]
    waiting = {load.key.task for load in loads.values() if load.waits}
    feeding = job.topology.upstream.get(root.task, ()) if linked(job) else tuple(waiting)
    waited_for = any(task in waiting for task in feeding)
    says = (
        f"busy {100 * (first.busy or 0):.0f} % and back-pressured "
        f"{100 * (first.pressed or 0):.0f} %, before it {100 * root.pressed_before:.0f} %"
        if root.measured
        else f"input buffers {100 * (first.busy or 0):.0f} % in use, output buffers before it "
        f"{100 * root.pressed_before:.0f} %"
    )
    if waited_for:
        votes.append(_vote("end-of-back-pressure", says, 2 if root.measured else 1))
    else:
        votes.append(_vote("keeps-up-no-more", says))
    usage = joined(
        sample.gauges.get("in_pool") for sample in samples_in(job, windows).get(first.key, ())
    )
    if usage is not None and usage.mean >= 0.5 and usage.high >= FULL:
        numbers["input-buffers-in-use"] = usage.mean
        votes.append(
            _vote(
                "saturated-input",
                f"{100 * usage.mean:.0f} % of its input buffers in use on average",
            )
        )
    ratio = queue_ratio(first, members)
    if ratio is not None and ratio >= QUEUE_TIMES:
        numbers["queue-ratio"] = ratio
        votes.append(
            _vote(
                "queue-length",
                f"{first.queue:.0f} buffers wait before it, {ratio:.1f} times its siblings'",
            )
        )
    if root.blocked:
        votes.append(
            _vote("waiting-siblings", f"some other subtasks of {j.shorten(root.task)} wait")
        )
    if not sampled(job):
        votes.append(_vote("totals-only", "REST answers and archives count since the start"))
    if not linked(job):
        votes.append(_vote("no-graph", "the order of the tasks is not known"))
    return votes, numbers


def _cause(
    job: JobQueues,
    windows: Sequence[int] | None,
    loads: Loads,
    root: Root,
    members: Sequence[Load],
    votes: list[Vote],
    numbers: dict[str, float],
    whole: bool,
) -> tuple[str | None, str | None, list[Load], bool]:
    """What ails the end: (cause, TaskManager, convicted subtasks, whether the task as a whole)."""
    convicted = list(root.subtasks)
    machine = slow_machine(loads)
    if machine is not None and any(load.taskmanager == machine.taskmanager for load in convicted):
        votes.append(
            _vote(
                "same-taskmanager",
                f"{len(machine.vertices)} tasks need {machine.ratio:.1f} times as long per record on "
                f"{machine.taskmanager}",
            )
        )
        numbers["time-per-record-ratio"] = machine.ratio
        mine = [load for load in convicted if load.taskmanager == machine.taskmanager]
        return "slow-taskmanager", machine.taskmanager, mine, False
    spot = _slow_place(members)
    if spot is not None and all(load.taskmanager == spot for load in convicted):
        elsewhere = median(
            load.cost for load in members if load.taskmanager != spot and load.cost is not None
        )
        numbers["time-per-record-ratio"] = min(load.cost or 0.0 for load in convicted) / (
            elsewhere or 1.0
        )
        votes.append(
            _vote(
                "same-taskmanager",
                f"all {len(convicted)} subtasks there need {numbers['time-per-record-ratio']:.1f} times "
                "as long per record as those elsewhere",
            )
        )
        return "slow-taskmanager", spot, convicted, False
    bytes_in = increases(job, root.task, "bytes_in", windows)
    ranked = []
    for load in convicted:
        by_records = records_ratio(load, members, root.siblings)
        by_bytes = against_siblings(bytes_in, load.key, root.siblings, FEWEST_BYTES)
        ranked.append((max(by_records or 0.0, by_bytes or 0.0), by_records, by_bytes, load))
    ranked.sort(key=lambda item: (-item[0], item[3].key))
    top, by_records, by_bytes, first = ranked[0]
    cost = cost_ratio(first, members)
    if top >= SKEWED and not (cost is not None and cost >= max(COSTLY, top)):
        skewed = [item[3] for item in ranked if item[0] >= SKEWED]
        if by_records is not None:
            numbers["records-ratio"] = by_records
        if by_bytes is not None:
            numbers["bytes-ratio"] = by_bytes
        votes.append(
            _vote(
                "records-in",
                f"{top:.1f} times the data of its siblings",
            )
        )
        _idle_vote(members, skewed, votes)
        return "data-skew", None, skewed, False
    if whole:
        snapshot = _snapshot_share(job, convicted[0], windows)
        votes.append(
            _vote("all-alike", f"{len(convicted)} of {root.siblings} subtasks are as busy")
        )
        if snapshot is not None and snapshot >= SNAPSHOT_SHARE:
            numbers["snapshot-share"] = snapshot
            return "slow-sync-snapshot", None, convicted, True
        return "slow-operator", None, convicted, True
    _idle_vote(members, convicted, votes)
    for load in convicted:
        share = _snapshot_share(job, load, windows)
        if share is not None and share >= SNAPSHOT_SHARE:
            numbers["snapshot-share"] = share
            votes.append(
                _vote(
                    "snapshots", f"{100 * share:.0f} % of its time went into synchronous snapshots"
                )
            )
            return "slow-sync-snapshot", None, [load], False
    for load in convicted:
        if stalled(load):
            numbers["records"] = load.records or 0.0
            votes.append(_vote("no-records", "it takes in no records"))
            return "task-hangs", None, [load], False
    for load in convicted:
        cost = cost_ratio(load, members)
        if cost is not None and cost >= COSTLY:
            numbers["time-per-record-ratio"] = cost
            votes.append(
                _vote("time-per-record", f"{cost:.1f} times as long per record as its siblings")
            )
            return "slow-subtask", None, [load], False
    alone = _one_machine(job, loads, root, members)
    if alone is not None:
        votes.append(
            _vote("same-taskmanager", f"the slow subtasks of several tasks are on {alone}")
        )
        return "slow-taskmanager", alone, [x for x in convicted if x.taskmanager == alone], False
    return None, None, convicted, False


def _idle_vote(members: Sequence[Load], convicted: Sequence[Load], votes: list[Vote]) -> None:
    keys = {load.key for load in convicted}
    others = [load for load in members if load.key not in keys]
    if others and all(load.measured and (load.busy or 0.0) <= IDLE for load in others):
        votes.append(_vote("idle-siblings", f"its {len(others)} siblings are mostly idle"))


def _one_machine(job: JobQueues, loads: Loads, root: Root, members: Sequence[Load]) -> str | None:
    """The one TaskManager whose subtasks are all slow, of this task and of another; None if none is.

    For versions without busy times: every convicted subtask runs there, every subtask of the task that
    runs there is convicted, and those of another task lag behind their siblings elsewhere too.
    """
    spots = {load.taskmanager for load in root.subtasks}
    if len(spots) != 1 or None in spots:
        return None
    (spot,) = spots
    here = {load.key for load in members if load.taskmanager == spot}
    if here != {load.key for load in root.subtasks} or len(here) == len(members):
        return None
    for task, others in by_task(loads).items():
        mine = [load.busy or 0.0 for load in others if load.taskmanager == spot]
        elsewhere = [load.busy or 0.0 for load in others if load.taskmanager != spot]
        if task in (root.task, *job.topology.sources) or not mine or not elsewhere:
            continue
        if min(mine) >= PRESSED and min(mine) >= COSTLY * (median(elsewhere) or 0.0):
            return spot
    return spot if len(here) > 1 and len(here) * 2 <= len(members) else None


def _snapshot_share(job: JobQueues, load: Load, windows: Sequence[int] | None) -> float | None:
    """Share of the time that a subtask spent in the synchronous part of its snapshots."""
    mine = [
        part
        for part in job.job.subtask_checkpoints
        if part.task == load.key.task
        and part.subtask_index == load.key.subtask_index
        and part.sync_ms is not None
    ]
    times = {c.id: c.triggered_us for c in job.job.checkpoints}
    dated = sorted(
        (us, part.sync_ms or 0) for part in mine if (us := times.get(part.checkpoint)) is not None
    )
    if not dated:
        return None
    span_ms = (dated[-1][0] - dated[0][0]) / 1000 + dated[-1][1]
    return sum(sync for _, sync in dated) / max(span_ms, 1.0)


def _late_checkpoints(job: JobQueues, keys: set[SubtaskKey]) -> set[int]:
    """The checkpoints that one of the subtasks acknowledged too late."""
    return {
        item.checkpoint
        for item in job.job.late
        if item.attempt.task is not None
        and item.attempt.subtask_index is not None
        and SubtaskKey(item.attempt.task, item.attempt.subtask_index) in keys
    }


def _checkpoint_votes(job: JobQueues, convicted: Sequence[Load]) -> list[Vote]:
    """What checkpoints say of the same subtasks: late, missing, or a barrier that came late."""
    keys = {load.key for load in convicted}
    late = _late_checkpoints(job, keys)
    delays = [
        part.start_delay_ms or 0
        for part in job.job.subtask_checkpoints
        if part.task is not None
        and SubtaskKey(part.task, part.subtask_index) in keys
        and part.acknowledged
    ]
    said = []
    if late:
        said.append(f"late to acknowledge in {j.count_text(len(late), 'checkpoint')}")
    if delays and max(delays) >= 1000:
        said.append(f"its barriers waited up to {j.duration_text(max(delays))}")
    return [_vote("checkpoints", "; ".join(said))] if said else []


def _state(job: JobQueues, windows: Sequence[int] | None) -> State:
    """Ongoing unless samples that came later tell otherwise."""
    if windows is None:
        return State.ONGOING
    later = [
        sample.samples
        for each in job.samples.values()
        for sample in each
        if sample.window > windows[-1]
    ]
    return State.RECOVERED if later and max(later) >= FEW_SAMPLES else State.ONGOING


def _near(times: Iterable[int], us: int | None, distance: int) -> bool:
    return us is not None and any(
        0 <= us - start + distance // 2 <= 1.5 * distance for start in times
    )


def _near_end(job: JobQueues, last_us: int | None) -> bool:
    """Whether the job began again as the spell ended."""
    return last_us is not None and any(
        -job.window_us <= start - last_us <= NEAR_START_US for start in job.starts_us
    )


_RESUMING: Final = frozenset({"restored", "restart", "job-restarting"})


def _resumed(job: JobQueues, first_us: int | None) -> bool:
    """Whether the job had been running before and began again shortly before."""
    if first_us is None:
        return False
    times = [
        incident.time_us
        for incident in job.job.incidents
        if incident.kind in _RESUMING and incident.time_us is not None
    ]
    first_sample = min(
        (s.first_us for each in job.samples.values() for s in each if s.first_us is not None),
        default=first_us,
    )
    times += [start for start in job.starts_us if start > first_sample + job.window_us]
    return _near(times, first_us, NEAR_START_US)


def _draining(job: JobQueues, windows: Sequence[int] | None) -> bool:
    """Whether the sources' backlog shrinks all the while: working off is no sickness."""
    held = samples_in(job, windows)
    ordered: dict[int, float] = defaultdict(float)
    for each in held.values():
        for sample in each:
            for name in ("pending", "fetch_lag_ms"):
                gauge = sample.gauges.get(name)
                if gauge is not None and gauge.mean > 0:
                    ordered[sample.window] += gauge.mean
                    break
    values = [ordered[window] for window in sorted(ordered)]
    return len(values) >= 3 and values[-1] < 0.8 * values[0] and values[-1] < max(values[1:-1])


def name_of(job: JobQueues, key: SubtaskKey) -> str:
    """A subtask for people."""
    return j.subtask_text(key.task, key.subtask_index, job.topology.parallelism.get(key.task))


def fatal(job: JobQueues) -> bool:
    """Whether no checkpoint completes at the end, by the rules of `flowdiag checkpoints`."""
    series = [e for e in spells(episodes(job.job), job.job) if e.checkpoints]
    return bool(series) and j.fatal_at_end(job.job, series)


def pressed_windows(job: JobQueues) -> list[int]:
    """Windows in which some task waits for those downstream most of the time."""
    return [
        window
        for window in job.windows
        if any(load.waits and load.wait_measured for load in loads_in(job, [window]).values())
    ]
