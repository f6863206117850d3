"""Determines which options apply to a process and derives its sizes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import ConfigFile, MemoryProcess
from flowdiag.analyses.memory.options import ENVIRONMENT, TOTALS, derive
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.units import version_of


def with_options(
    process: MemoryProcess,
    all_processes: Sequence[MemoryProcess],
    of_files: Mapping[str, str],
    refs: Mapping[str, Ref],
    given: Mapping[str, str],
) -> MemoryProcess:
    """Complete the options of a process from its JobManager's log and from files, then derive its sizes."""
    configured, places = dict(process.configured), dict(process.refs)
    totals = TOTALS[process.role]
    if process.role == "taskmanager" and not any(key in configured for key in totals):
        # In a container, a TaskManager gets its sizes from the JobManager, whose log lists the options.
        manager = next((p for p in all_processes if p.role == "jobmanager" and p.configured), None)
        if manager is not None:
            configured = {**manager.configured, **configured}
            places = {**manager.refs, **places}
    if not any(key in configured for key in totals):
        configured, places = {**of_files, **configured}, {**refs, **places}
    configured |= given
    return replace(
        process,
        configured=configured,
        refs=places,
        derived=derive(process.role, configured, process.version, process.container),
    )


def processes_in_configurations(
    options: Mapping[str, str],
    refs: Mapping[str, Ref],
    files: Sequence[ConfigFile],
    version: str | None,
    container: bool | None,
    running: set[str],
) -> list[MemoryProcess]:
    """Return processes described by options, for roles without a known running process."""
    found = []
    on_kubernetes = any(file.read.carrier == "FlinkDeployment" for file in files)
    for role in ("jobmanager", "taskmanager"):
        option_names = [ENVIRONMENT.get(key, key) for key in options]
        mine = [key for key in option_names if key.startswith(f"{role}.") and key in m.MEMORY_KEYS]
        if role in running or not mine:
            continue
        inside = on_kubernetes if container is None else container
        derived = derive(role, options, version, inside)
        seen = version_of(version) or m.LATEST
        if derived is None and role == "taskmanager" and seen >= (1, 10):
            derived = m.taskmanager_memory(options, seen, container=inside)
        found.append(
            MemoryProcess(
                role=role,
                source=files[-1].source if files else None,
                version=version,
                container=inside,
                configured=dict(options),
                refs=dict(refs),
                derived=derived,
            )
        )
    return found
