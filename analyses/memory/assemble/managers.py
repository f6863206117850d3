"""Reads memory sizes of TaskManagers from the resource manager's log and from REST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.assemble.logged import add_totals
from flowdiag.analyses.memory.facts import MemoryProcess
from flowdiag.analyses.model.keys import Ref

Row = Mapping[str, Any]

_REST: Final = {
    "frameworkHeap": m.FRAMEWORK_HEAP,
    "taskHeap": m.TASK_HEAP,
    "frameworkOffHeap": m.FRAMEWORK_OFF_HEAP,
    "taskOffHeap": m.TASK_OFF_HEAP,
    "networkMemory": "taskmanager.memory.network",
    "managedMemory": m.MANAGED,
    "jvmMetaspace": "taskmanager.memory.jvm-metaspace.size",
    "jvmOverhead": "taskmanager.memory.jvm-overhead",
    "totalFlinkMemory": m.FLINK,
    "totalProcessMemory": m.PROCESS,
}

_SPEC: Final = {
    "frameworkHeapSize": m.FRAMEWORK_HEAP,
    "frameworkOffHeapSize": m.FRAMEWORK_OFF_HEAP,
    "taskHeapSize": m.TASK_HEAP,
    "taskOffHeapSize": m.TASK_OFF_HEAP,
    "networkMemSize": "taskmanager.memory.network",
    "managedMemorySize": m.MANAGED,
    "jvmMetaspaceSize": "taskmanager.memory.jvm-metaspace.size",
    "jvmOverheadSize": "taskmanager.memory.jvm-overhead",
}

# Up to Flink 1.9: the container size and its heap.
_OLD_SPEC: Final = re.compile(
    r"container size ([0-9]{1,9}) MB, JVM heap size ([0-9]{1,9}) MB, JVM direct memory limit"
)

_SPEC_ENTRY: Final = re.compile(r"(\w{1,40})=(?:[0-9.]{1,20}[kmgt]b \()?([0-9]{1,19}) bytes")


def with_rest(
    processes: list[MemoryProcess], common: ClusterFacts, version: str | None
) -> list[MemoryProcess]:
    """Add the sizes from `/taskmanagers`. A TaskManager without a log becomes a separate process."""
    versions = {job.version for job in common.jobs if job.version}
    for taskmanager, (sizes, incident) in sorted(_registrations(common).items()):
        found = MemoryProcess(
            role="taskmanager",
            source=incident.ref.source if incident.ref else None,
            taskmanager=taskmanager,
            host=incident.host,
            version=(next(iter(versions)) if len(versions) == 1 else None) or version,
            observed=sizes,
            origin="rest",
            refs={f"observed:{name}": incident.ref for name in sizes if incident.ref},
            slots=int(slots) if (slots := incident.text.get("slots", "")).isdecimal() else None,
        )
        _add_observed(processes, found)
    return processes


def _registrations(common: ClusterFacts) -> dict[str, tuple[dict[str, int], Incident]]:
    """Return the sizes in each TaskManager's last registration that contains sizes."""
    found: dict[str, tuple[dict[str, int], Incident]] = {}
    for incident in (*common.incidents, *(i for job in common.jobs for i in job.incidents)):
        if incident.kind != "taskmanager-registered" or not incident.taskmanager:
            continue
        texts = {name: incident.text.get(f"memory.{key}") or "" for key, name in _REST.items()}
        sizes = {name: int(text) for name, text in texts.items() if text.lstrip("-").isdecimal()}
        if sizes:
            found[incident.taskmanager] = (sizes, incident)
    return found


def _add_observed(processes: list[MemoryProcess], found: MemoryProcess) -> None:
    """Add observed sizes to the process of the same TaskManager, or add the process itself."""
    for index, known in enumerate(processes):
        if known.taskmanager != found.taskmanager:
            continue
        if not known.observed:
            known = replace(known, observed=found.observed, origin=found.origin)
        processes[index] = replace(
            known,
            container=known.container or found.container,
            slots=known.slots if known.slots is not None else found.slots,
        )
        return
    processes.append(found)


def with_specs(
    processes: list[MemoryProcess], rows: Iterable[Row], version: str | None
) -> list[MemoryProcess]:
    """Add the sizes of TaskManagers started by the resource manager (`TaskExecutorProcessSpec`)."""
    for row in rows:
        if row["what"] != "memory" or row["template"] != "yarn-taskmanager-starting":
            continue
        spec = (row["fields"] or {}).get("spec", "")
        sizes = {
            _SPEC[name]: int(size) for name, size in _SPEC_ENTRY.findall(spec) if name in _SPEC
        }
        if old := _OLD_SPEC.search(spec):
            sizes = {"taskmanager.heap.size": int(old[1]) * m.MIB, "heap": int(old[2]) * m.MIB}
        if not sizes:
            continue
        sizes = add_totals(sizes)
        ref = Ref(row["source"], row["offset"])
        manager = next((p for p in processes if p.source == row["source"]), None)
        found = MemoryProcess(
            role="taskmanager",
            source=row["source"],
            label=row["owner"],
            taskmanager=row["taskmanager"],
            host=row["host"],
            version=(manager.version if manager else None) or version,
            container=True,
            observed=sizes,
            origin="resource-manager",
            refs={f"observed:{name}": ref for name in sizes},
        )
        _add_observed(processes, found)
    return processes


def with_limits(processes: list[MemoryProcess], rows: Iterable[Row]) -> list[MemoryProcess]:
    """Add the pod size that the resource manager requested, printed as `<megabytes,cpus>`."""
    requested: dict[str, int] = {}
    for row in rows:
        if row["what"] == "memory" and row["template"] == "pod-creating" and row["taskmanager"]:
            megabytes = (row["fields"] or {}).get("resource", "").partition(",")[0].strip()
            if megabytes.isdecimal() and len(megabytes) < 10:
                requested[row["taskmanager"]] = int(megabytes) * m.MIB
    return [
        replace(process, container=True, container_limit=requested[process.taskmanager])
        if process.taskmanager in requested
        else process
        for process in processes
    ]
