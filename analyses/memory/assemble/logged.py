"""Reads the memory options, pools and limits of a process from its log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import MemoryProcess
from flowdiag.analyses.model.keys import Process, Ref
from flowdiag.parsers.rows import Event

Row = Mapping[str, Any]

# Options that the start scripts add automatically. All other dynamic options come from the user.
_BY_SCRIPTS: Final = frozenset(
    {
        "taskmanager.cpu.cores",
        m.FRAMEWORK_HEAP,
        m.FRAMEWORK_OFF_HEAP,
        m.TASK_HEAP,
        m.TASK_OFF_HEAP,
        m.NETWORK_MIN,
        m.NETWORK_MAX,
        m.MANAGED,
        "taskmanager.memory.jvm-metaspace.size",
        "taskmanager.memory.jvm-overhead.min",
        "taskmanager.memory.jvm-overhead.max",
        "taskmanager.numberOfTaskSlots",
        "jobmanager.memory.heap.size",
        "jobmanager.memory.off-heap.size",
        "jobmanager.memory.jvm-metaspace.size",
        "jobmanager.memory.jvm-overhead.min",
        "jobmanager.memory.jvm-overhead.max",
        "external-resources",
    }
)

_POOLS: Final = {
    "Total Process Memory": m.PROCESS,
    "Total Flink Memory": m.FLINK,
    "Managed": m.MANAGED,
    "Network": "taskmanager.memory.network",
    "JVM Metaspace": "taskmanager.memory.jvm-metaspace.size",
    "JVM Overhead": "taskmanager.memory.jvm-overhead",
    "JVM Heap": "jobmanager.memory.heap.size",
    "Off-heap": "jobmanager.memory.off-heap.size",
}


def processes_in_logs(
    rows: Iterable[Row], writers: Iterable[Process], version: str | None, container: bool | None
) -> list[MemoryProcess]:
    """Return the processes whose logs contain memory records, one per stream.

    Args:
        rows: include the rows of `measure.frames`.
        writers: the processes that wrote the streams.
        version: Flink's version, from the command line.
        container: whether they run in containers, from the command line.
    """
    streams: dict[tuple[int, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        template = row["template"] or ""
        if (
            row["what"] == "memory"
            and template not in ("yarn-taskmanager-starting", "pod-creating")
            and not template.startswith("operator-")
        ):
            streams[(row["source"], row["owner"])].append(row)
    by_stream = {(w.source, w.label): w for w in writers}
    found = []
    for key, records in sorted(streams.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        writer = by_stream.get(
            key, Process(source=key[0], label=key[1], role="unknown", cluster="")
        )
        made = _process(sorted(records, key=lambda r: r["offset"]), writer, version, container)
        if made is not None:
            found.append(made)
    return found


def _process(
    records: Sequence[Row], writer: Process, version: str | None, container: bool | None
) -> MemoryProcess | None:
    """Return the last process start in a stream. Later values replace earlier ones."""
    found = _ProcessRecords(role=writer.role if writer.role in _ROLES else None)
    for row in records:
        found.add(row)
    role, component, values = found.role, found.component, found.values
    if role is None and ("taskmanager" in component or "taskexecutor" in component):
        role = "taskmanager"
    if role is None or not (found.configured or found.observed or values):
        return None
    first = records[0]
    return MemoryProcess(
        role=role,
        source=first["source"],
        label=first["owner"],
        taskmanager=writer.taskmanager if role == "taskmanager" else None,
        host=writer.host,
        version=writer.version or version,
        container=(
            bool(re.search("yarn|kubernetes|mesos", component)) if container is None else container
        ),
        configured=found.configured,
        refs=found.refs,
        observed=add_totals(found.observed),
        origin="log" if found.observed else None,
        segments=values.get("segments"),
        segment_bytes=values.get("segment_bytes"),
        heap_max=values.get("heap_max"),
        direct_limit=values.get("direct_limit"),
        metaspace_limit=values.get("metaspace_limit"),
    )


_ROLES: Final = ("taskmanager", "jobmanager")


@dataclass(slots=True, kw_only=True)
class _ProcessRecords:
    """Collects the values in the records of a stream, in record order."""

    role: str | None
    configured: dict[str, str] = field(default_factory=dict)
    refs: dict[str, Ref] = field(default_factory=dict)
    observed: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    within_heap: bool = True  # pools are listed starting with the heap's
    component: str = ""

    def add(self, row: Row) -> None:
        fields = row["fields"] or {}
        template = row["template"] or ""
        if template == "memory-report":
            self.role = "taskmanager" if fields.get("process") == "TaskExecutor" else "jobmanager"
            self.observed, self.within_heap = {}, True
        elif template.startswith("memory-pool-"):
            self._add_pool(row, fields.get("pool", ""))
        elif template == "heap-size":
            self.values["heap_max"] = int(fields["heap_mib"]) * m.MIB
        elif template == "network-buffers":
            self.values["segments"] = int(fields["segments"])
            self.values["segment_bytes"] = int(fields["segment_bytes"])
            self.refs["segments"] = _ref(row)
        elif template in ("jvm-direct-limit", "jvm-metaspace-limit"):
            name = template.removeprefix("jvm-").replace("-", "_")
            self.values[name] = _jvm_size(fields.get(name, ""))
        elif row["event"] == Event.PROCESS_STARTED:
            self.component = fields.get("component", "").lower()
        elif row["event"] == Event.CONFIGURATION and fields.get("key"):
            self._add_option(row, fields)

    def _add_pool(self, row: Row, pool: str) -> None:
        self.within_heap = self.within_heap and pool != "Managed"
        name = _pool_name(pool, self.role, self.within_heap)
        if name and row["bytes"] is not None:
            self.observed[name] = row["bytes"]
            self.refs[f"observed:{name}"] = _ref(row)

    def _add_option(self, row: Row, fields: Mapping[str, str]) -> None:
        key, value = fields["key"], fields.get("value", "")
        dynamic = (fields.get("origin") or "").startswith("dynamic")
        by_script = dynamic or (row["template"] or "").startswith("argument-")
        if by_script and key in _BY_SCRIPTS:
            _from_script(self.observed, key, value)
        else:
            self.configured[key] = value
            self.refs[key] = _ref(row)


def _ref(row: Row) -> Ref:
    return Ref(row["source"], row["offset"])


def _pool_name(pool: str, role: str | None, within_heap: bool) -> str | None:
    if pool == "Framework":
        return m.FRAMEWORK_HEAP if within_heap else m.FRAMEWORK_OFF_HEAP
    if pool == "Task":
        return m.TASK_HEAP if within_heap else m.TASK_OFF_HEAP
    name = _POOLS.get(pool)
    if name and role == "jobmanager":
        return name.replace("taskmanager.", "jobmanager.", 1)
    return name


def _from_script(observed: dict[str, int], key: str, text: str) -> None:
    """Add a size that a start script calculated and passed on, such as `…=134217728b`."""
    try:
        size = m.parse_size(text)
    except m.MemoryOptionError:
        return
    name = {m.NETWORK_MIN: "taskmanager.memory.network"}.get(key, key)
    name = name.removesuffix(".min") if name.endswith("jvm-overhead.min") else name
    if name.startswith(("taskmanager.memory.", "jobmanager.memory.")) and not name.endswith(
        (".max", ".min")
    ):
        observed.setdefault(name, size)


def add_totals(observed: dict[str, int]) -> dict[str, int]:
    """Add each total whose parts are all known."""
    parts = (
        m.FRAMEWORK_HEAP,
        m.TASK_HEAP,
        m.FRAMEWORK_OFF_HEAP,
        m.TASK_OFF_HEAP,
        m.MANAGED,
        "taskmanager.memory.network",
    )
    around = ("taskmanager.memory.jvm-metaspace.size", "taskmanager.memory.jvm-overhead")
    if all(name in observed for name in parts):
        observed.setdefault(m.FLINK, sum(observed[name] for name in parts))
        if all(name in observed for name in around):
            total = observed[m.FLINK] + sum(observed[name] for name in around)
            observed.setdefault(m.PROCESS, total)
    return observed


def _jvm_size(text: str) -> int:
    units = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
    digits = text.rstrip("kKmMgGtT")
    return int(digits or 0) * units.get(text[-1:].lower(), 1)
