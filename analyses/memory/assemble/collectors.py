"""Whose log of the garbage collector it is: it names no process itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flowdiag.analyses.flink.collectors import Candidate, owner
from flowdiag.analyses.memory.facts import MemoryProcess, Usage


def with_usages(
    processes: Sequence[MemoryProcess], usages: Sequence[Usage], names: Mapping[int, str]
) -> list[MemoryProcess]:
    """The processes with what logs of the garbage collector tell; a log of nobody is a process of its own.

    One log and one TaskManager belong together whatever they are called.

    Args:
        processes: of logs, answers and configurations.
        usages: one per log of a collector.
        names: of all inputs, by index.
    """
    found = [*processes]
    workers = [i for i, p in enumerate(found) if p.role == "taskmanager" and p.usage is None]
    if len(usages) == 1 and len(workers) == 1:
        found[workers[0]] = replace(found[workers[0]], usage=usages[0])
        return found
    for usage in usages:
        place = _owner(names.get(usage.source, ""), found, names)
        if place is None or found[place].usage is not None:
            found.append(MemoryProcess(role="unknown", source=usage.source, usage=usage))
        else:
            found[place] = replace(found[place], usage=usage)
    return found


def _owner(name: str, processes: Sequence[MemoryProcess], names: Mapping[int, str]) -> int | None:
    """Which process a log of a collector belongs to, by the name of the log."""
    return owner(
        name,
        [
            Candidate(None if p.source is None else names.get(p.source), (p.taskmanager, p.host))
            for p in processes
        ],
    )
