"""Signals for a TaskManager: slow records, garbage collection, and the placement of late subtasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.suspects.case import Case, Suspect
from flowdiag.analyses.flink.suspects.load_signals import cited_work, lagging_task, only_taskmanager
from flowdiag.analyses.flink.suspects.signals import SuspectVote, vote_for
from flowdiag.analyses.flink.tasks.placement import Pattern
from flowdiag.analyses.model import fmt

_SIGNIFICANT: Final = 0.01  # p-value, corrected for the number of TaskManagers


def time_per_record(case: Case) -> Iterator[SuspectVote]:
    """Vote for the TaskManager on which every record is slow."""
    slow = case.slow_taskmanager
    if slow is None:
        return
    vertices = fmt.plural(len(slow.vertices), "vertex", "vertices")
    yield vote_for(
        "time-per-record",
        {Suspect(taskmanager=slow.taskmanager)},
        f"subtasks on {slow.taskmanager} take {slow.ratio:.1f} times as long per record as their "
        f"siblings, in {vertices}",
        f"{slow.ratio:.1f} times the siblings' time per record",
        cited_work(
            load
            for load in case.loads.values()
            if load.taskmanager == slow.taskmanager and load.key.task in slow.vertices
        ),
        certain=len(slow.vertices) > 1,
    )


def same_taskmanager(case: Case) -> Iterator[SuspectVote]:
    """Vote for the TaskManager that runs exactly the subtasks of a task at which back pressure ends.

    Versions without busy times need this signal, as do jobs with too few records to measure their cost.
    """
    for root in case.roots[:1]:
        name = only_taskmanager(case, root)
        if name is None or (
            case.slow_taskmanager is not None and case.slow_taskmanager.taskmanager == name
        ):
            continue
        other = lagging_task(case, root.task, name)
        tasks = "" if other is None else f", and those of {fmt.shorten(other)} lag there as well"
        task = fmt.shorten(root.task)
        yield vote_for(
            "same-taskmanager",
            {Suspect(taskmanager=name)},
            f"{name} runs exactly the slow subtasks of {task} and none of the others{tasks}",
            f"all its subtasks of {fmt.shorten(root.task, 40)} are slow",
            cited_work(root.subtasks),
        )


def late_placement(case: Case) -> Iterator[SuspectVote]:
    """Vote for the TaskManager that runs all late subtasks."""
    placed = case.placement
    if placed.pattern is not Pattern.ONE_TASKMANAGER or placed.taskmanager is None:
        return
    share = next(s for s in placed.shares if s.taskmanager == placed.taskmanager)
    number = f"{share.late} of them"
    if share.expected:
        number += f", {fmt.number(share.expected)} expected"
    if share.p_value is not None:
        number += f"; {fmt.chance(share.p_value)}"
    yield vote_for(
        "placement",
        {Suspect(taskmanager=placed.taskmanager)},
        f"all late subtasks whose siblings were on time run on {placed.taskmanager} ({number})",
        f"all late subtasks whose siblings were on time run there ({number})",
        certain=share.p_value is not None and share.p_value <= _SIGNIFICANT,
    )


def garbage_collection(case: Case) -> Iterator[SuspectVote]:
    """Vote for TaskManagers that pause for garbage collection."""
    for name, found in sorted(case.collecting.items()):
        share = f"{100 * found.share:.0f}% of its time collecting garbage"
        yield vote_for(
            "garbage-collection",
            {Suspect(taskmanager=name)},
            f"{name} spends {share}",
            share,
            found.refs[:2],
        )
