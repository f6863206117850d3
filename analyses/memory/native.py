"""Whether RocksDB's memory outside the JVM has a limit."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess

SWITCH: Final = "state.backend.rocksdb.memory.managed"
_FIXED: Final = (
    "state.backend.rocksdb.memory.fixed-per-slot",
    "state.backend.rocksdb.memory.fixed-per-tm",
)


def uses_rocksdb(facts: MemoryFacts, process: MemoryProcess) -> bool:
    """Return whether a process is a TaskManager with RocksDB that has no fixed size."""
    rocksdb = "rocksdb" in facts.backends.values() and process.role == "taskmanager"
    return rocksdb and not any(key in process.configured for key in _FIXED)


def is_unlimited(facts: MemoryFacts, process: MemoryProcess) -> bool:
    """Return whether the configuration of a TaskManager removes the limit of RocksDB."""
    off = process.configured.get(SWITCH, "true").strip().lower() == "false"
    return off and uses_rocksdb(facts, process)


def was_killed(facts: MemoryFacts) -> bool:
    """Return whether the platform or the kernel killed a container for its memory."""
    return any(kill.is_for_memory for kill in facts.kills)
