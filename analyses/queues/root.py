"""Finds the tasks at which back pressure starts, window by window, and joins the windows to spells.

In each window, `flowdiag.analyses.flink.tasks.pressure.roots` finds the tasks that are busy, not back-pressured, and
directly downstream of a task that waits. Windows with the same root and at most one other window in between form a
spell. The culprit is determined from the metrics of the whole spell, never from a single window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Final

from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink import settings
from flowdiag.analyses.flink.failures.episodes import Episode, all_spells, episodes, spells
from flowdiag.analyses.flink.job import JobFacts, Status
from flowdiag.analyses.flink.suspects import NamedCulprit, find_culprit, same_culprit
from flowdiag.analyses.flink.suspects.case import Case, Suspect, sync_share
from flowdiag.analyses.flink.suspects.load_signals import HALF_FULL
from flowdiag.analyses.flink.suspects.snapshot_signals import SNAPSHOT_SHARE
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import (
    COSTLY,
    ENOUGH_SAMPLES,
    QUEUE_BUFFERS,
    QUEUE_TIMES,
    Load,
    Root,
    build_view,
    busiest,
    by_task,
    cost_ratio,
    is_stalled,
    queue_ratio,
    roots,
    slow_taskmanager_of_task,
    unblocked_sources,
    were_sampled_alike,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Confidence, State, Vote
from flowdiag.analyses.queues.async_state import state_waits
from flowdiag.analyses.queues.facts import JobQueues, merge_gauges, time_span
from flowdiag.analyses.queues.loads import (
    ENOUGH_TIMES,
    Loads,
    has_long_queue,
    has_samples_over_time,
    has_task_order,
    lacks_samples,
    loads_in,
    loads_since_start,
    samples_in,
    task_windows,
)
from flowdiag.analyses.queues.movement import is_draining, job_stall
from flowdiag.analyses.queues.neighbours.lags import (
    direction_of,
    group_trend,
    is_falling_behind,
    job_trend,
    stays_short,
)
from flowdiag.analyses.queues.starts import (
    age_us,
    begins_near,
    has_restarted,
    has_resumed,
    restarted_at_end,
)
from flowdiag.analyses.queues.working import cpu_use

BRIDGE: Final = 1
"""Maximum number of consecutive windows in a spell that lack its root."""
FEW_SAMPLES: Final = 3
BACKLOG_S: Final = 10.0
"""Minimum lag in seconds. A shorter lag only fluctuates."""
CATCH_UP_US: Final = 600_000_000
WARM_UP_US: Final = 60_000_000
SHORT_US: Final = 300_000_000
BLOCKED: Final = 0.9
"""Minimum share of time that a source waits to show that it could read much more."""
SATURATED: Final = 0.9
"""Minimum share of time that every subtask of a saturated task is busy."""
QUEUED: Final = 0.75
"""Minimum mean share of input buffers in use that shows that records wait all the time."""
NEVER_IDLE: Final = 0.97
"""Minimum busy share of every subtask. With an empty input, the records alone do not keep a subtask this busy."""
PARTLY: Final = 0.1
"""Minimum share of time that upstream tasks wait for a saturated task, because its input is sometimes full."""
MOST_CHANCE_LATE: Final = 2
"""Maximum number of checkpoints for which a subtask may be late by chance."""
FEWEST_EXPIRED: Final = 2
"""Minimum number of checkpoints: a single checkpoint may expire for any reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A root of back pressure, and the time span in which it is the root.

    Args:
        task: the vertex.
        culprit: the culprit and the reasons.
        culprit_loads: the loads of the culprit subtasks, worst first.
        loads: the loads of all subtasks over the spell.
        whole: whether all subtasks of the vertex are busy.
        before: the tasks that wait for it, and the highest share of time that a subtask of each waits.
        samples: number of samples of the subtask with the fewest.
        age_us: time from the last start of the job to the end of the spell; infinite if unknown.
        blocks_sources: whether a source is back-pressured all the time.
        restarted: whether the job restarted within the spell, and some of its subtasks were sampled only afterwards. They
            are not comparable with the others, because a subtask that restores its state counts as busy.
        fatal: whether no checkpoint completes, or no record moves, at the end of the input.
        then: the next culprit, if tasks still wait after the spell.
    """

    task: str
    culprit: NamedCulprit
    culprit_loads: tuple[Load, ...]
    loads: Mapping[SubtaskKey, Load]
    whole: bool
    before: tuple[tuple[str, float], ...]
    windows: tuple[int, ...]
    first_us: int | None
    last_us: int | None
    samples: int
    state: State
    age_us: float = inf
    blocks_sources: bool = False
    after_start: bool = False
    resumed: bool = False
    restarted: bool = False
    ended_by_start: bool = False
    draining: bool = False
    keeps_up: bool = False
    fatal: bool = False
    then: NamedCulprit | None = None

    @property
    def cause(self) -> str | None:
        """A key of `CAUSES`, or None if unknown."""
        return self.culprit.cause

    @property
    def taskmanager(self) -> str | None:
        """The name of the culprit if it is a TaskManager, otherwise None."""
        return self.culprit.suspect.taskmanager or None

    @property
    def votes(self) -> tuple[Vote, ...]:
        return self.culprit.votes

    @property
    def confidence(self) -> Confidence:
        return self.culprit.confidence

    def merged_with(self, other: Spell) -> Spell:
        """Return this spell extended by the times of another spell with the same culprit."""
        firsts = [us for us in (self.first_us, other.first_us) if us is not None]
        lasts = [us for us in (self.last_us, other.last_us) if us is not None]
        return replace(
            self,
            windows=tuple(sorted({*self.windows, *other.windows})),
            first_us=min(firsts, default=None),
            last_us=max(lasts, default=None),
        )

    @property
    def duration_us(self) -> int:
        if self.first_us is None or self.last_us is None:
            return 0
        return self.last_us - self.first_us

    @property
    def blocks_no_task(self) -> bool:
        """Whether neither upstream tasks nor the task's buffers show records that wait. Never true for a source."""
        full = any((load.buffers or 0.0) >= HALF_FULL for load in self.culprit_loads)
        return bool(self.before) and not full and all(share < PARTLY for _, share in self.before)

    @property
    def is_ordinary(self) -> bool:
        """Whether this is the normal cost of a start, a restore or a rescaling, or of a job that keeps up with its source.

        A task that processes its backlog is busy in all its subtasks and catches up. Skewed or slow subtasks are only
        ordinary if they recover soon. A `fatal` spell is never ordinary. An ongoing spell is only ordinary in a young
        job, and never if it blocks the sources of a new job. The number of samples does not show the age.
        """
        if self.fatal:
            return False
        if (self.draining or self.keeps_up) and self.whole:
            return True
        if self.state is State.RECOVERED:
            by_start = self.after_start or self.ended_by_start
            return self.then is None and by_start and (self.whole or self.duration_us <= SHORT_US)
        if self.restarted and self.cause == "slow-taskmanager":
            return self.age_us < CATCH_UP_US
        if self.cause not in (None, "slow-operator"):
            return False
        if self.resumed:
            return self.age_us < CATCH_UP_US
        return self.age_us < WARM_UP_US and not self.blocks_sources


def find_roots(job: JobQueues, loads: Loads) -> list[Root]:
    """Return the roots of back pressure in one set of loads. Without a job graph, return tasks with full inputs.

    A deployment order without branches explains no back pressure that begins at the second branch of a job.
    """
    if has_task_order(job):
        found = [*_waiting_for_state(job, loads)]
        known = {root.task for root in found}
        found += [root for root in roots(loads, job.topology) if root.task not in known]
        known = {root.task for root in found}
        behind = [
            *_lagging_subtasks(job, loads, bool(found)),
            *_slow_taskmanagers(job, loads),
            *_saturated_tasks(job, loads),
        ]
        found += [root for root in behind if root.task not in known]
        if not found and job.topology.known_from == "deployment order":
            found = _roots_without_order(job, loads)
        return found or [*_limiting_without_waiters(job, loads)]
    return _roots_without_order(job, loads)


def _waiting_for_state(job: JobQueues, loads: Loads) -> Iterator[Root]:
    """Yield the tasks whose records wait for asynchronous state. Such a task may be busy or idle."""
    grouped = by_task(loads)
    for task in state_waits(job):
        before = [
            load for name in job.topology.upstream.get(task, ()) for load in grouped.get(name, ())
        ]
        if any(load.waits for load in before) and task in grouped:
            yield _root(job, grouped[task], grouped[task], before)


def _lagging_subtasks(job: JobQueues, loads: Loads, back_pressured: bool) -> list[Root]:
    """Return subtasks that lag while their siblings are idle, although no task waits for them yet.

    They are busy, and their input holds a long queue on average, while a subtask that keeps up empties its input.
    Alternatively, they spend much of their time on snapshots.

    Args:
        job: the job, with the capacity of its inputs and its checkpoints.
        loads: the loads of all subtasks.
        back_pressured: whether a root of back pressure was found, which explains late checkpoints.
    """
    grouped = by_task(loads)
    found = []
    for load in busiest(loads, job.topology):
        members = grouped[load.key.task]
        if not has_long_queue(job, load, members) and (
            back_pressured or not _delays_barriers(job, load, members)
        ):
            continue
        before = [
            other
            for name in job.topology.upstream.get(load.key.task, ())
            for other in grouped.get(name, ())
        ]
        blocks_upstream = any(load.waits for load in before)
        found.append(_root(job, [load], members, before, blocks_upstream=blocks_upstream))
    return found


def _slow_taskmanagers(job: JobQueues, loads: Loads) -> list[Root]:
    """Return tasks whose subtasks on one TaskManager are all busy and take twice as long per record as siblings
    elsewhere.

    These tasks count even if no task waits for them (see `pressure.slow_taskmanager_of_task`).
    """
    found = []
    for task, members in by_task(loads).items():
        spot = slow_taskmanager_of_task(task, members)
        if spot is None or task in job.topology.sources:
            continue
        slow = [load for load in members if load.taskmanager == spot.taskmanager]
        slow.sort(key=lambda load: (-(load.busy or 0.0), load.key))
        found.append(_root(job, slow, members, (), blocks_upstream=False))
    return found


def _saturated_tasks(job: JobQueues, loads: Loads) -> Iterator[Root]:
    """Yield tasks whose subtasks are all busy all the time, and whose input is full.

    Upstream tasks that are almost as slow wait only part of the time, or do not wait yet. If the input is full all
    the time, a lower busy time is enough: it may just have begun to rise.
    """
    grouped = by_task(loads)
    for task, members in grouped.items():
        upstream = job.topology.upstream.get(task, ())
        before = [load for name in upstream for load in grouped.get(name, ())]
        complete = len(members) >= job.topology.parallelism.get(task, 0)
        if not before or not complete or not _are_saturated(members):
            continue
        blocks_upstream = any(
            load.wait_measured and (load.back_pressured or 0.0) >= PARTLY for load in before
        )
        full = sum((load.buffers or 0.0) >= HALF_FULL for load in members)
        if blocks_upstream or full * 2 > len(members):
            yield _root(job, members, members, before, blocks_upstream=blocks_upstream)


def _limiting_without_waiters(job: JobQueues, loads: Loads) -> Iterator[Root]:
    """Yield tasks that no task waits for, but that hang or wait all the time instead of computing.

    Only their own time shows that they limit the job. A task that computes all the time may also be reading a
    backlog, unless its sources are idle. Rules use `saturated_without_waiters` so that they do not report such a job as healthy.
    """
    for members in saturated_without_waiters(job, loads):
        use = cpu_use(job, members, loads.values())
        waits = use is not None and use.waits
        if waits or job_stall(job) is not None or _reads_no_backlog(job, loads):
            yield _root(job, members, members, (), blocks_upstream=False)


def _reads_no_backlog(job: JobQueues, loads: Loads) -> bool:
    """Return whether metrics show the sources idle at least half of the time."""
    sources = [load for load in loads.values() if load.key.task in job.topology.sources]
    return bool(sources) and all(
        load.measured
        and load.wait_measured
        and (load.busy or 0.0) + (load.back_pressured or 0.0) <= 0.5
        for load in sources
    )


def saturated_without_waiters(job: JobQueues, loads: Loads) -> Iterator[list[Load]]:
    """Yield the subtasks of tasks that are busy all the time, although no task waits for them.

    One kind is the chain that forms a whole job, unless a lag shows that it keeps up. Others have an empty input:
    their time goes to timers, to snapshots, or to threads of their own.
    """
    alone = _chain(job, loads)
    if alone and all(map(_is_saturated, alone)):
        yield alone
    _, last_us = time_span(chain.from_iterable(job.samples.values()))
    young = age_us(job, last_us) < WARM_UP_US
    for task, members in by_task(loads).items() if not young else ():
        complete = len(members) >= job.topology.parallelism.get(task, 0) > 0
        if job.topology.upstream.get(task) and complete and all(map(_is_never_idle, members)):
            yield members


def unmeasured_chain(job: JobQueues, loads: Loads) -> list[Load]:
    """Return the subtasks of a job with a single task, if neither a busy time nor a lag shows whether the job keeps up.

    A chain that begins with a legacy source reports no busy time.
    """
    members = _chain(job, loads)
    return members if all(load.is_sampled and not load.measured for load in members) else []


def _chain(job: JobQueues, loads: Loads) -> list[Load]:
    """Return all subtasks of a job with a single task, or an empty list if a lag shows that the job keeps up."""
    members = sorted(loads.values(), key=lambda load: load.key)
    tasks = job.topology.tasks
    if len(tasks) != 1 or len(members) < max(job.topology.parallelism.get(tasks[0], 0), 1):
        return []
    return [] if _keeps_up(job) else members


@once
def _keeps_up(job: JobQueues) -> bool:
    """Return whether the lag is known and does not grow."""
    trend = job_trend(job)
    return trend is not None and not is_falling_behind(trend, BACKLOG_S)


def _are_saturated(members: Sequence[Load]) -> bool:
    queued = (
        load.measured and load.is_working and (load.buffers or 0.0) >= QUEUED for load in members
    )
    return all(map(_is_saturated, members)) or all(queued)


def _is_saturated(load: Load) -> bool:
    return load.measured and load.is_working and (load.busy or 0.0) >= SATURATED


def _is_never_idle(load: Load) -> bool:
    # A task that restores its state counts as busy, too.
    return _is_saturated(load) and (load.busy or 0.0) >= NEVER_IDLE and not is_stalled(load)


def _delays_barriers(job: JobQueues, load: Load, members: Sequence[Load]) -> bool:
    """Return whether a subtask spends much time in snapshots, or is repeatedly late and slow per record."""
    share = sync_share(job.job, load.key)
    if share is not None and share >= SNAPSHOT_SHARE:
        return True
    late = _late_checkpoints(job, {load.key})
    cost = cost_ratio(load, members)
    return len(late) >= MOST_CHANCE_LATE and cost is not None and cost >= COSTLY


def _roots_without_order(job: JobQueues, loads: Loads) -> list[Root]:
    """Return the busy tasks with full inputs while another task waits, for inputs without a job graph."""
    waiting = _waiting_loads(loads)
    if not waiting:
        return []
    found = []
    for members in by_task(loads).values():
        full = _with_full_inputs(members)
        if full and not any(load.waits for load in members):
            found.append(_root(job, full, members, waiting))
    return found


def _with_full_inputs(members: Sequence[Load]) -> list[Load]:
    """Return the busy subtasks of a task with long queues or, if all are busy, all of them."""
    busy = [load for load in members if load.is_working and load.measured]
    full = [load for load in busy if (queue_ratio(load, members) or 0) >= QUEUE_TIMES]
    all_busy = len(busy) == len(members) and (len(members) > 1 or _has_queue(busy[0]))
    return full or (busy if all_busy else [])


def _has_queue(load: Load) -> bool:
    """Return whether a subtask without siblings is saturated while buffers wait for it."""
    return _is_saturated(load) and (load.queue or 0.0) >= QUEUE_BUFFERS


def _waiting_loads(loads: Loads) -> list[Load]:
    """Return the subtasks that, according to measurements, wait most of the time."""
    return [load for load in loads.values() if load.waits and load.wait_measured]


def _root(
    job: JobQueues,
    subtasks: Sequence[Load],
    members: Sequence[Load],
    upstream: Sequence[Load],
    *,
    blocks_upstream: bool = True,
) -> Root:
    """Build a root from measured loads.

    Args:
        job: the job, with the parallelism of the task.
        subtasks: the busy subtasks.
        members: all known subtasks of the task.
        upstream: the subtasks that may wait for the task.
        blocks_upstream: whether they wait for it.
    """
    task = subtasks[0].key.task
    return Root(
        task=task,
        subtasks=tuple(subtasks),
        siblings=max(len(members), job.topology.parallelism.get(task, 0)),
        known=len(members),
        back_pressured_before=max((load.back_pressured or 0.0 for load in upstream), default=0.0),
        measured=True,
        blocks_upstream=blocks_upstream,
    )


@once
def find_spells(job: JobQueues) -> tuple[Spell, ...]:
    """Return all spells of back pressure of a job, ongoing spells first, then by confidence."""
    if has_samples_over_time(job):
        found = _spells_over_time(job)
        if found or not lacks_samples(job):
            return _rank_spells(found)
        loads = loads_since_start(job)
    else:
        loads = loads_in(job)
    if not job.totals:
        return ()  # a single response is not enough evidence against a subtask
    return _rank_spells(_spells(job, None, loads))


def _spells_over_time(job: JobQueues) -> list[Spell]:
    order = job.windows
    seen: dict[str, dict[int, Root]] = defaultdict(dict)
    for place, window in enumerate(order):
        for root in find_roots(job, loads_in(job, [window])):
            seen[root.task][place] = root
    found: list[Spell] = []
    for task, roots_at in seen.items():
        for run in _runs(list(roots_at)):
            stages = [order[low : high + 1] for low, high in _stages(run, roots_at)]
            parts = _stage_spells(job, task, stages) if len(stages) > 1 else []
            at_once = [order[run[0] : run[-1] + 1]]
            if len(parts) < 2:
                parts = _stage_spells(job, task, at_once)
            if run[-1] == max(roots_at):
                parts = [*parts[:-1], *(_extend_to_end(job, spell) for spell in parts[-1:])]
            found += parts
    return found


def _extend_to_end(job: JobQueues, spell: Spell) -> Spell:
    """Return a task's last spell as ongoing, if all later windows taken together show its culprit.

    A single window may contain too few samples of a queue, or a queue that is short for a moment.
    """
    if spell.state is not State.RECOVERED or spell.whole:
        return spell
    later = [window for window in job.windows if window > spell.windows[-1]]
    culprits = {load.key for load in spell.culprit_loads}
    roots_later = find_roots(job, loads_in(job, later))
    busy = {load.key for root in roots_later if root.task == spell.task for load in root.subtasks}
    if not culprits & busy:
        return spell
    return replace(spell, state=State.ONGOING, ended_by_start=False, fatal=_is_fatal(job))


def notable_spells(job: JobQueues) -> tuple[list[Spell], list[int] | None]:
    """Return the spells that are not ordinary, and the windows of the first spell, which the tables show."""
    found = [spell for spell in find_spells(job) if not spell.is_ordinary]
    if found and found[0].windows:
        return found, list(found[0].windows)
    return found, None


def _stage_spells(job: JobQueues, task: str, stages: Iterable[Sequence[int]]) -> list[Spell]:
    """Return one spell per stage of a task's run. Empty if two consecutive stages have the same culprit."""
    found: list[Spell] = []
    for windows in stages:
        for spell in _spells(job, windows, loads_in(job, windows), only=task):
            before = found[-1] if found else None
            if before is not None and same_culprit(before.culprit, spell.culprit):
                return []
            if before is not None:
                found[-1] = replace(before, state=State.RECOVERED, then=spell.culprit)
            found.append(spell)
    return found


def _stages(run: Sequence[int], roots_at: Mapping[int, Root]) -> list[tuple[int, int]]:
    """Split a run into parts with the same roots, and return each part's first and last position, in order.

    A single window with other roots is ignored, unless it is the first or the last.
    """
    stages: list[tuple[int, int, frozenset[SubtaskKey]]] = []
    for place in run:
        root = roots_at[place]
        keys = frozenset(load.key for load in root.subtasks)
        if stages and (root.whole or stages[-1][2] & keys):
            first, _, common = stages[-1]
            stages[-1] = (first, place, common if root.whole else common & keys)
        elif len(stages) > 1 and stages[-1][0] == stages[-1][1] and stages[-2][2] & keys:
            stages.pop()
            first, _, common = stages[-1]
            stages[-1] = (first, place, common & keys)
        else:
            stages.append((place, place, keys))
    return [(first, last) for first, last, _ in stages]


def _runs(places: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in places:
        if runs and place - runs[-1][-1] <= BRIDGE + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _rank_spells(found: Iterable[Spell]) -> tuple[Spell, ...]:
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


def _spells(
    job: JobQueues, windows: Sequence[int] | None, loads: Loads, only: str | None = None
) -> list[Spell]:
    found = []
    for root in find_roots(job, loads):
        if only is not None and root.task != only:
            continue
        samples = _samples_of(job, windows, [load.key for load in root.subtasks])
        enough = ENOUGH_TIMES if root.blocks_upstream else FEW_SAMPLES
        if windows is not None and samples < (enough if root.measured else ENOUGH_SAMPLES):
            continue
        spell = _judge_root(job, windows, loads, root, samples)
        if spell is None:
            continue
        # While a task starts, Flink counts all its time as busy.
        starts = spell.blocks_no_task and spell.cause == "slow-operator" and spell.is_ordinary
        if not starts:
            found.append(spell)
    return found


def _samples_of(job: JobQueues, windows: Sequence[int] | None, keys: Sequence[SubtaskKey]) -> int:
    """Return the number of load samples of the culprit subtask that has the fewest."""
    held = samples_in(job, windows)
    counts = []
    for key in keys:
        gauges = [
            gauge.n
            for name in ("busy", "is_back_pressured", "in_pool", "input_queue")
            if (gauge := merge_gauges(sample.gauges.get(name) for sample in held.get(key, ())))
            is not None
        ]
        counts.append(max(gauges, default=0))
    return min(counts, default=0)


def _judge_root(
    job: JobQueues,
    windows: Sequence[int] | None,
    loads: Loads,
    root: Root,
    samples: int,
) -> Spell | None:
    held = samples_in(job, windows)
    first_us, last_us = time_span(chain.from_iterable(held.values()))
    episode = _failing_episode(job.job, first_us, last_us)
    view = build_view(loads, job.topology, [root])
    during = " while upstream tasks waited" if root.blocks_upstream else ""
    by_window = partial(task_windows, job)
    case = Case(job.job, episode, view, end=root, during=during, windows=by_window)
    found = find_culprit(case)
    if found is None:
        return None
    state = _state(job, windows, root)
    return Spell(
        task=root.task,
        culprit=found,
        culprit_loads=_culprit_loads(root, found),
        loads=loads,
        whole=root.whole or root.siblings == 1,
        before=_upstream_waits(job, loads, root.task),
        windows=tuple(windows or ()),
        first_us=first_us,
        last_us=last_us,
        samples=samples,
        state=state,
        age_us=age_us(job, last_us),
        blocks_sources=any(
            load.wait_measured and (load.back_pressured or 0.0) >= BLOCKED
            for load in loads.values()
            if load.key.task in job.topology.sources
        ),
        after_start=begins_near(job.starts_us, first_us),
        resumed=has_resumed(job, first_us),
        restarted=has_restarted(job, first_us, last_us)
        and not were_sampled_alike(view.by_task[root.task]),
        ended_by_start=state is State.RECOVERED and restarted_at_end(job, last_us),
        draining=is_draining(held) or _works_off_backlog(job),
        keeps_up=_has_short_lag(job),
        fatal=state is State.ONGOING and _is_fatal(job),
    )


def _is_fatal(job: JobQueues) -> bool:
    return completes_no_checkpoint(job) or job_stall(job) is not None


@once
def _works_off_backlog(job: JobQueues) -> bool:
    """Return whether the lag of the job's consumer group shrinks. The source's own count may be outdated."""
    trend = group_trend(job)
    return trend is not None and direction_of(trend, BACKLOG_S) == "shrinking"


@once
def _has_short_lag(job: JobQueues) -> bool:
    """Return whether the job is never far behind its source, even though tasks wait."""
    trend = job_trend(job)
    return trend is not None and stays_short(trend, job, BACKLOG_S)


def _failing_episode(job: JobFacts, first_us: int | None, last_us: int | None) -> Episode:
    """Build an episode from the failed checkpoints during a spell."""
    low = first_us if first_us is not None else -(2**62)
    high = last_us if last_us is not None else 2**62
    found = [
        checkpoint
        for episode in all_spells(job)
        if (episode.last_us or low) >= low and (episode.first_us or high) <= high
        for checkpoint in episode.checkpoints
    ]
    return Episode(
        job=job.key,
        checkpoints=tuple(found),
        recovered=None,
        warm_up=False,
        since_us=first_us,
    )


def _culprit_loads(root: Root, found: NamedCulprit) -> tuple[Load, ...]:
    """Return the loads of the culprit subtasks: for a task or TaskManager, those where the back pressure starts."""
    loads = {Suspect.of(load.key): load for load in root.subtasks}
    named = [loads[suspect] for suspect in (found.suspect, *found.others) if suspect in loads]
    if found.suspect.kind == "taskmanager":
        named = [load for load in root.subtasks if load.taskmanager == found.suspect.taskmanager]
    return tuple(named or root.subtasks)


def _upstream_waits(job: JobQueues, loads: Loads, task: str) -> tuple[tuple[str, float], ...]:
    """Return the tasks directly upstream, and the highest share of time that a subtask of each waits."""
    if not has_task_order(job):
        waits = {
            (load.key.task, load.back_pressured or 0.0) for load in loads.values() if load.waits
        }
        return tuple(sorted(waits))
    grouped = by_task(loads)
    return tuple(
        (name, max((load.back_pressured or 0.0 for load in grouped.get(name, ())), default=0.0))
        for name in job.topology.upstream.get(task, ())
    )


def _late_checkpoints(job: JobQueues, keys: set[SubtaskKey]) -> set[int]:
    """Return the IDs of checkpoints that at least one of the subtasks acknowledged too late."""
    return {
        item.checkpoint
        for item in job.job.late
        if item.attempt.task is not None
        and item.attempt.subtask_index is not None
        and SubtaskKey(item.attempt.task, item.attempt.subtask_index) in keys
    }


def _state(job: JobQueues, windows: Sequence[int] | None, root: Root) -> State:
    """Return the state of a spell. It is `ONGOING` unless there are enough later samples of the culprit, or of the
    tasks that wait for it.
    """
    if windows is None:
        return State.ONGOING
    culprits = {load.key for load in root.subtasks}
    known = has_task_order(job)
    waiting = job.topology.upstream.get(root.task, ()) if root.blocks_upstream else ()
    later = [
        sample.samples
        for key, each in job.samples.items()
        if not known or key in culprits or key.task in waiting
        for sample in each
        if sample.window > windows[-1]
    ]
    return State.RECOVERED if later and max(later) >= FEW_SAMPLES else State.ONGOING


def subtask_name(job: JobQueues, key: SubtaskKey) -> str:
    return fmt.subtask_of(key.task, key.subtask_index, job.topology.parallelism.get(key.task))


def completes_no_checkpoint(job: JobQueues) -> bool:
    """Return whether no checkpoint completes at the end, as `flowdiag checkpoints` judges it."""
    series = [e for e in spells(episodes(job.job), job.job) if e.checkpoints]
    return bool(series) and j.fatal_at_end(job.job, series)


def awaits_barrier(job: JobQueues, windows: Sequence[int]) -> tuple[SubtaskKey, ...]:
    """Return the source subtasks whose barriers do not arrive in windows with expired checkpoints.

    This looks like back pressure, but no downstream task is slow.
    """
    held = samples_in(job, windows)
    failed = _failing_episode(job.job, *time_span(chain.from_iterable(held.values()))).checkpoints
    expired = [checkpoint for checkpoint in failed if checkpoint.status is Status.EXPIRED]
    if len(expired) < FEWEST_EXPIRED or settings.uses_unaligned_checkpoints(job.job, expired):
        return ()
    return unblocked_sources(loads_in(job, windows), job.topology)


def pressed_windows(job: JobQueues) -> list[int]:
    """Return the windows in which a task is back-pressured most of the time."""
    return [window for window in job.windows if _waiting_loads(loads_in(job, [window]))]
