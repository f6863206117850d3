"""Assigns GC logs, which do not name their process, to processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flowdiag.analyses.flink.assemble.collectors import Candidate, owner
from flowdiag.analyses.memory.facts import MemoryProcess, Usage


def with_usages(
    processes: Sequence[MemoryProcess], usages: Sequence[Usage], names: Mapping[int, str]
) -> list[MemoryProcess]:
    """Add heap usage from GC logs to processes. An unassigned log becomes a separate process.

    If there is only one GC log and one TaskManager, they belong together, whatever their names.

    Args:
        processes: known from logs, responses and configurations.
        usages: one per GC log.
        names: the names of all inputs, by index.
    """
    found = [*processes]
    workers = [i for i, p in enumerate(found) if p.role == "taskmanager" and p.usage is None]
    if len(usages) == 1 and len(workers) == 1:
        found[workers[0]] = replace(found[workers[0]], usage=usages[0])
        return found
    for usage in usages:
        candidates = [
            Candidate(None if p.source is None else names.get(p.source), (p.taskmanager, p.host))
            for p in found
        ]
        place = owner(names.get(usage.source, ""), candidates)
        if place is None or found[place].usage is not None:
            found.append(MemoryProcess(role="unknown", source=usage.source, usage=usage))
        else:
            found[place] = replace(found[place], usage=usage)
    return found
