"""Memory options that newer Flink versions ignore, with their replacements."""

from __future__ import annotations

NOT_SET = "(not set)"


# Removed in Flink 2.0: option and replacement.
_REMOVED = {
    "taskmanager.heap.size": "taskmanager.memory.process.size",
    "taskmanager.heap.mb": "taskmanager.memory.process.size",
    "jobmanager.heap.size": "jobmanager.memory.process.size",
    "jobmanager.heap.mb": "jobmanager.memory.process.size",
    "taskmanager.network.numberOfBuffers": "taskmanager.memory.network.min",
    "taskmanager.network.memory.buffers-per-channel": "(fixed: 2)",
    "taskmanager.network.memory.floating-buffers-per-gate": "(fixed: 8)",
    "taskmanager.network.memory.max-buffers-per-channel": "(fixed: 10)",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "(fixed: 20)",
}


# Ignored since Flink 1.10.
_IGNORED = {
    "taskmanager.memory.fraction": "taskmanager.memory.managed.fraction",
    "taskmanager.memory.off-heap": "(managed memory is always off-heap)",
    "taskmanager.memory.preallocate": NOT_SET,
    # Environment variables of the start scripts in Flink 1.9.
    "FLINK_TM_HEAP": "taskmanager.memory.process.size",
    "FLINK_TM_NET_BUF_MIN": "taskmanager.memory.network.min",
    "FLINK_TM_NET_BUF_MAX": "taskmanager.memory.network.max",
}


def ignored_in(version: tuple[int, int]) -> dict[str, str]:
    """Return the options that have no effect in a version, with their replacements."""
    return (_IGNORED if version >= (1, 10) else {}) | (_REMOVED if version >= (2, 0) else {})
