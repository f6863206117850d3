"""Signals from the load of subtasks: busy and waiting time, queues, records and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.signals import SuspectVote, group_suspects, vote_for
from flowdiag.analyses.flink.tasks import pressure as p
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load, Root
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Evidence

HALF_FULL: Final = 0.5
"""Minimum mean share of input buffers in use of a subtask that falls behind. Its peaks must also reach `FULL`."""


def cited_work(loads: Iterable[Load]) -> tuple[Evidence, ...]:
    return tuple(work for load in loads if (work := load.work) is not None)


def end_of_back_pressure(case: Case) -> Iterator[SuspectVote]:
    """Vote for subtasks at which back pressure ends or, before any task waits, that fall behind."""
    for root in case.roots[:1]:
        chosen = _most_skewed(case, root)
        suspects, text = group_suspects(case, frozenset(load.key for load in chosen))
        if root.whole and len(chosen) == len(root.subtasks):
            suspects = frozenset({Suspect(task=root.task)})
            text = case.name(Suspect(task=root.task))
        taskmanager = only_taskmanager(case, root)
        if taskmanager is not None:
            suspects = frozenset({Suspect(taskmanager=taskmanager)})
        certain = root.measured and not root.blocked and len(suspects) == 1
        if len(root.subtasks) == root.known < root.siblings:
            # All subtasks with metrics are busy. If the others are busy as well, the task is the culprit.
            certain = False
            if root.known * 2 >= root.siblings:
                suspects |= {Suspect(task=root.task)}
        measure = "busy" if root.measured else "input buffers in use"
        detail = f"{measure} {fmt.percent(chosen[0].busy or 0)}"
        text = f"{text}: {detail} and not back-pressured"
        if root.blocks_upstream:
            before = fmt.percent(root.back_pressured_before)
            text += f", while upstream tasks wait up to {before} of the time"
            detail += " while upstream tasks wait"
        signal = "end-of-back-pressure" if root.blocks_upstream else "falling-behind"
        yield vote_for(signal, suspects, text, detail, cited_work(chosen), certain=certain)


def _most_skewed(case: Case, root: Root) -> list[Load]:
    """Return the skewed subtasks at an origin of back pressure. If none is skewed, return all of them."""
    skewed = [load for load in root.subtasks if is_skewed(case, load)]
    return skewed or list(root.subtasks)


def skew(case: Case, load: Load) -> float | None:
    """Return a subtask's data relative to its siblings', unless its records are more expensive by the same factor.

    The result is None if most siblings are clearly busier: they wait for something else, and the subtask only keeps
    up better. A subtask with a hot key is at least as busy as its siblings.
    """
    members = case.members(load.key.task)
    if _keeps_up_better(load, members):
        return None
    ratio = p.data_ratio(load, members, case.size(load.key.task))
    cost = p.cost_ratio(load, members)
    if ratio is not None and cost is not None and cost >= max(p.COSTLY, ratio):
        return None
    return ratio


def _keeps_up_better(load: Load, members: Iterable[Load]) -> bool:
    """Return whether most siblings are busier than the subtask. Among saturated ones, a smaller difference counts."""
    if load.busy is None:
        return False
    others = [other for other in members if other.key != load.key and other.busy is not None]
    least = p.AS_BUSY / 2 if load.busy >= p.SATURATED else p.AS_BUSY
    busier = [o for o in others if o.is_working and (o.busy or 0.0) - load.busy >= least]
    return len(busier) * 2 > len(others)


def is_skewed(case: Case, load: Load) -> bool:
    return (skew(case, load) or 0.0) >= p.SKEWED


def busiest_subtask(case: Case) -> Iterator[SuspectVote]:
    """Vote for busy subtasks whose siblings are idle or almost idle."""
    found = p.busiest(case.loads, case.topology)
    if not found or len(found) > 3:
        return
    suspects, text = group_suspects(case, frozenset(load.key for load in found))
    first = found[0]
    members = case.members(first.key.task)
    others = max(other.busy or 0.0 for other in members if other.key != first.key)
    among = "among idle siblings"
    if others > p.IDLE:
        among = f"while its siblings are busy at most {fmt.percent(others)}"
    share = fmt.percent(first.busy or 0)
    yield vote_for(
        "busiest-subtask",
        suspects,
        f"{text}: busy {share} of the time {among}",
        f"busy {share} {among}",
        cited_work(found),
    )


def is_evenly_loaded(case: Case, load: Load) -> bool:
    """Whether a subtask gets the usual share of data, or spends far more time on each record than its siblings."""
    if is_skewed(case, load):
        return False
    members = case.members(load.key.task)
    cost = p.cost_ratio(load, members)
    return p.data_ratio(load, members, case.size(load.key.task)) is not None or (
        cost is not None and cost >= p.COSTLY
    )


def only_taskmanager(case: Case, root: Root) -> str | None:
    """Return the TaskManager that runs all subtasks at an origin of back pressure and no other subtask of their task.

    Their data must not explain their load. In addition, several of them must be slow, or another task must lag there.
    """
    managers = {load.taskmanager for load in root.subtasks}
    manager = next(iter(managers))
    if len(managers) != 1 or manager is None:
        return None
    if any(is_skewed(case, load) or p.is_stalled(load) for load in root.subtasks):
        return None
    members = case.members(root.task)
    here = {load.key for load in members if load.taskmanager == manager}
    if here != {load.key for load in root.subtasks} or len(here) == len(members):
        return None
    several = 1 < len(here) <= len(members) / 2
    return manager if several or lagging_task(case, root.task, manager) is not None else None


def lagging_task(case: Case, task: str, taskmanager: str) -> str | None:
    """Return another task whose subtasks are far busier on this TaskManager than elsewhere."""
    for other, members in case.view.by_task.items():
        here = [load.busy or 0.0 for load in members if load.taskmanager == taskmanager]
        elsewhere = [load.busy or 0.0 for load in members if load.taskmanager != taskmanager]
        if other in (task, *case.topology.sources) or not here or not elsewhere:
            continue
        if min(here) >= p.PRESSED and min(here) >= p.COSTLY * (p.median(elsewhere) or 0.0):
            return other
    return None


def all_idle(case: Case) -> bool:
    """Return whether metrics show that no task is busy or waits. Without metrics, the result is False.

    Sources may wait for the barrier of a sibling (`pressure.unblocked_sources`).
    """
    sampled = [load for load in case.loads.values() if load.is_sampled]
    if all(load.busy is None for load in sampled):
        return False
    sources = case.topology.sources
    if not all(p.is_idle(load) for load in sampled if load.key.task not in sources):
        return False
    aligned = not case.unaligned and len(case.expired) >= case.fewest
    if aligned and p.unblocked_sources(case.loads, case.topology):
        return True
    return not any(load.waits and load.wait_measured for load in case.loads.values())


def subtask_votes(case: Case, suspect: Suspect) -> Iterator[SuspectVote]:
    """Vote in support of a suspected subtask. Alone, skew and queues prove nothing: healthy jobs have them too."""
    load = case.loads.get(SubtaskKey(suspect.task, suspect.subtask_index))
    if load is None:
        return
    name, members, cited = case.name(suspect), case.members(suspect.task), cited_work([load])
    ratio = p.data_ratio(load, members, case.size(suspect.task))
    if ratio is not None and ratio >= p.SKEWED:
        detail = case.data_share(load).text
        yield vote_for("records-in", {suspect}, f"{name} receives {detail}", detail, cited)
    queue = p.queue_ratio(load, members)
    if queue is not None and queue >= p.QUEUE_TIMES:
        buffers = fmt.plural(round(load.queue or 0), "buffer is", "buffers are")
        yield vote_for(
            "input-queue",
            {suspect},
            f"{buffers} queued at {name}, {queue:.1f} times as many as its siblings have",
            f"{queue:.1f} times the queue of its siblings",
            cited,
        )
    yield from _saturated_input(suspect, load)
    cost = p.cost_ratio(load, members)
    if case.at_end(load.key) and load.is_sampled and cost is not None and cost >= p.COSTLY:
        yield vote_for(
            "time-per-record",
            {suspect},
            f"{name} takes {cost:.1f} times as long per record as its siblings on other TaskManagers",
            f"{cost:.1f} times its siblings' time per record",
            cited,
        )
    if p.is_stalled(load):
        yield vote_for(
            "no-records", {suspect}, f"{name} receives no records", "no records in", cited
        )


def group_votes(case: Case, suspect: Suspect, worst: Load) -> Iterator[SuspectVote]:
    """Vote in support of a suspected task or TaskManager."""
    root = case.end_of(worst.key.task)
    if suspect.kind == "task" and root is not None and root.whole:
        text = f"{len(root.subtasks)} of {root.siblings} subtasks are equally busy"
        yield vote_for("whole-task-busy", {suspect}, text, text)
    yield from _saturated_input(suspect, worst)


def _saturated_input(suspect: Suspect, load: Load) -> Iterator[SuspectVote]:
    used, peak = load.buffers, load.buffers_peak
    if used is not None and (used >= p.FULL or (used >= HALF_FULL and (peak or 0.0) >= p.FULL)):
        text = f"{fmt.percent(used)} of its input buffers in use on average"
        yield vote_for("saturated-input", {suspect}, text, text, cited_work([load]))
