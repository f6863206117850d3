"""Subtasks that are busy without using the CPU: CPU load of processes against busy time of their subtasks."""

from __future__ import annotations

import pytest

from flowdiag.analyses.queues.working import CpuUse


@pytest.mark.parametrize(
    ("cores", "busy", "waits"),
    [
        (0.06, 2.0, True),  # two subtasks that wait for HTTP all the time
        (1.9, 2.0, False),  # two subtasks that compute
        (0.2, 0.4, False),  # too little work to judge
    ],
)
def test_busy_subtasks_wait_if_their_processes_use_few_cores(
    cores: float, busy: float, waits: bool
) -> None:
    assert CpuUse(cores=cores, available=4.0, busy=busy).waits is waits
