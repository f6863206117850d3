"""The TaskManager on which every record takes longer than on the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load, slow_taskmanager


def loads(task: str, *busy: float) -> dict[SubtaskKey, Load]:
    """Return a task's loads on tm-1, tm-2, …, with 300 records for each subtask."""
    found = [
        Load(
            key=SubtaskKey(task, index),
            taskmanager=f"tm-{index + 1}",
            busy=share,
            back_pressured=0.0,
            records=300.0,
            queue=None,
            measured=True,
            wait_measured=True,
            samples=8,
            ref=None,
        )
        for index, share in enumerate(busy)
    ]
    return {load.key: load for load in found}


@pytest.mark.parametrize("busy", [0.1, 0.002, 0.0])
def test_two_tasks_show_a_slow_taskmanager(busy: float) -> None:
    """Busy times are rounded, so those of fast siblings may be 0."""
    slow = slow_taskmanager(loads("enrich", busy, 0.9, busy) | loads("sum", busy, 0.6, busy))
    assert slow is not None and (slow.taskmanager, slow.vertices) == ("tm-2", ("enrich", "sum"))


def test_a_single_slow_subtask_is_no_slow_taskmanager() -> None:
    assert slow_taskmanager(loads("enrich", 0.1, 0.9, 0.1) | loads("sum", 0.2, 0.2, 0.2)) is None
    assert slow_taskmanager(loads("enrich", 0.0, 0.9, 0.0) | loads("sum", 0.0, 0.05, 0.0)) is None


@pytest.mark.parametrize(
    ("busy", "waits", "slow"), [(0.1, 0.9, False), (0.4, 0.6, True), (0.1, 0.0, True)]
)
def test_subtasks_that_mostly_wait_show_no_slow_taskmanager(
    busy: float, waits: float, slow: bool
) -> None:
    """Their busy time went into barriers and timers, and a quota of the broker held their records back."""
    found = loads("orders", 0.02, busy, 0.02) | loads("price", 0.02, busy, 0.02)
    waiting = {key: replace(load, back_pressured=waits) for key, load in found.items()}
    assert (slow_taskmanager(waiting) is not None) is slow
