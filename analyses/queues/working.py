"""Checks whether busy tasks compute or wait, by comparing the CPU load of their processes with their busy time.

Flink counts a task as busy while its thread waits inside an operator, for example for a response. If the subtasks of
a process are busy for two seconds per second but use a tenth of a core, they wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.pressure import Load
from flowdiag.analyses.model.finding import Measurement
from flowdiag.analyses.queues.facts import JobQueues, merge_gauges

WAITS: Final = 0.3
"""Maximum number of cores per busy subtask of tasks that wait. It is above 0 because other threads also need CPU."""
BUSY_ENOUGH: Final = 0.9
"""Minimum busy time of all subtasks, in seconds per second. The load of other threads hides less work than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """The cores that TaskManagers use, and the time that their subtasks are busy.

    Args:
        cores: number of cores in use, all TaskManagers together.
        available: number of cores of their hosts.
        busy: busy seconds per second of their subtasks.
    """

    cores: float
    available: float
    busy: float

    @property
    def waits(self) -> bool:
        return self.busy >= BUSY_ENOUGH and self.cores <= WAITS * self.busy

    @property
    def clause(self) -> str:
        """A clause about the cores used and the time busy."""
        return (
            f"its TaskManagers use {self.cores:.2f} of {self.available:g} cores while their subtasks are busy for "
            f"{self.busy:.1f} s per second, so the task waits instead of computing"
        )

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (
            Measurement(
                name="cores-in-use",
                value=round(self.cores, 3),
                unit="cores",
                population="mean, on the culprit's TaskManagers",
            ),
            Measurement(
                name="busy-subtasks",
                value=round(self.busy, 3),
                unit="subtasks",
                population="mean, on these TaskManagers",
            ),
        )


def cpu_use(job: JobQueues, culprits: Iterable[Load], loads: Iterable[Load]) -> CpuUse | None:
    """Return how much CPU the TaskManagers of the culprits use, or None if their load or cores are unknown."""
    names = {load.taskmanager for load in culprits}
    cores = available = 0.0
    for name in names:
        gauge = merge_gauges(
            machine.gauges.get("cpu") for machine in job.taskmanagers.get(name or "", ())
        )
        if gauge is None or gauge.mean < 0 or name not in job.cores:
            return None
        cores += gauge.mean * job.cores[name]
        available += job.cores[name]
    busy = sum(load.busy or 0.0 for load in loads if load.taskmanager in names)
    return CpuUse(cores=cores, available=available, busy=busy) if names else None
