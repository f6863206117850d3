"""What the memory model makes of the options of one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.memory import model as m

TOTALS: Final = {
    "taskmanager": (
        m.PROCESS,
        m.FLINK,
        m.TASK_HEAP,
        "taskmanager.heap.size",
        "taskmanager.heap.mb",
    ),
    "jobmanager": (
        "jobmanager.memory.process.size",
        "jobmanager.memory.flink.size",
        "jobmanager.memory.heap.size",
        "jobmanager.heap.size",
        "jobmanager.heap.mb",
    ),
}
"""The options of which one at least has to be set, by role."""


ENVIRONMENT: Final = {
    "FLINK_TM_HEAP": "taskmanager.heap.size",
    "FLINK_TM_HEAP_MB": "taskmanager.heap.mb",
    "FLINK_JM_HEAP": "jobmanager.heap.size",
    "FLINK_JM_HEAP_MB": "jobmanager.heap.mb",
    "FLINK_TM_MEM_MANAGED_SIZE": "taskmanager.memory.size",
    "FLINK_TM_MEM_MANAGED_FRACTION": "taskmanager.memory.fraction",
    "FLINK_TM_OFFHEAP": "taskmanager.memory.off-heap",
    "FLINK_TM_NET_BUF_FRACTION": "taskmanager.network.memory.fraction",
    "FLINK_TM_NET_BUF_MIN": "taskmanager.network.memory.min",
    "FLINK_TM_NET_BUF_MAX": "taskmanager.network.memory.max",
}
"""Variables that the start scripts read before the options of that meaning, and the options (`config.sh`)."""


def with_environment(
    options: Mapping[str, str], version: tuple[int, int], *, container: bool
) -> Mapping[str, str]:
    """Options as the scripts see them: up to 1.9 (JobManager: 1.10) variables win outside of containers.

    >>> with_environment({"FLINK_TM_HEAP": "3g"}, (1, 9), container=False)["taskmanager.heap.size"]
    '3g'
    >>> with_environment({"FLINK_TM_HEAP": "3g"}, (1, 10), container=False)
    {'FLINK_TM_HEAP': '3g'}
    """
    known = [name for name in ENVIRONMENT if name in options]
    if not known or container:
        return options
    found = dict(options)
    for name in known:
        last = (1, 10) if name.startswith("FLINK_JM") else (1, 9)
        if version <= last:
            found[ENVIRONMENT[name]] = options[name]
    return found


def derive(
    role: str, options: Mapping[str, str], version: str | None, container: bool
) -> m.Derivation | None:
    """What the model makes of options; None where no total is among them."""
    seen = version_of(version) or m.LATEST
    options = with_environment(options, seen, container=container)
    if not any(key in options for key in TOTALS[role]):
        return None
    model = m.taskmanager_memory if role == "taskmanager" else m.jobmanager_memory
    return model(options, seen, container=container)
