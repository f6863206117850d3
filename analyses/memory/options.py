"""What the memory model makes of the options of one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowdiag.analyses.memory import model as m
from flowdiag.analyses.options import version_of

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


def derive(
    role: str, options: Mapping[str, str], version: str | None, container: bool
) -> m.Derivation | None:
    """What the model makes of options; None where no total is among them."""
    if not any(key in options for key in TOTALS[role]):
        return None
    seen = version_of(version) or m.LATEST
    model = m.taskmanager_memory if role == "taskmanager" else m.jobmanager_memory
    return model(options, seen, container=container)
