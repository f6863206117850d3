"""The memory pools of a process and their nesting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from flowdiag.analyses.contract.memory import MemoryProcess

_TM: Final = "taskmanager.memory."
_JM: Final = "jobmanager.memory."


class Pool(NamedTuple):
    """A memory pool; `depth` is its nesting level."""

    depth: int
    label: str
    name: str  # name of the pool, or of the sum of several pools
    flag: str = ""  # the JVM flag that limits it


_TASKMANAGER: Final = (
    Pool(0, "process", f"{_TM}process.size"),
    Pool(1, "Flink", f"{_TM}flink.size"),
    Pool(2, "JVM heap", "heap", "-Xmx"),
    Pool(3, "framework", f"{_TM}framework.heap.size"),
    Pool(3, "task", f"{_TM}task.heap.size"),
    Pool(2, "managed", f"{_TM}managed.size"),
    Pool(2, "direct", "direct", "MaxDirectMemorySize"),
    Pool(3, "framework", f"{_TM}framework.off-heap.size"),
    Pool(3, "task", f"{_TM}task.off-heap.size"),
    Pool(3, "network", f"{_TM}network"),
    Pool(1, "metaspace", f"{_TM}jvm-metaspace.size", "MaxMetaspaceSize"),
    Pool(1, "JVM overhead", f"{_TM}jvm-overhead"),
)
_JOBMANAGER: Final = (
    Pool(0, "process", f"{_JM}process.size"),
    Pool(1, "Flink", f"{_JM}flink.size"),
    Pool(2, "JVM heap", f"{_JM}heap.size", "-Xmx"),
    Pool(2, "off-heap", f"{_JM}off-heap.size"),
    Pool(1, "metaspace", f"{_JM}jvm-metaspace.size", "MaxMetaspaceSize"),
    Pool(1, "JVM overhead", f"{_JM}jvm-overhead"),
)
_LEGACY: Final = (
    Pool(0, "total", "taskmanager.heap.size"),
    Pool(1, "cut off for the container", "containerized.heap-cutoff"),
    Pool(1, "JVM heap", "heap", "-Xmx"),
    Pool(1, "network", "taskmanager.network.memory"),
    Pool(1, "managed", "taskmanager.memory.size"),
)
_OPTIONS: Final = {
    f"{_TM}network": (f"{_TM}network.fraction", f"{_TM}network.min", f"{_TM}network.max"),
    f"{_TM}jvm-overhead": tuple(f"{_TM}jvm-overhead.{name}" for name in ("fraction", "min", "max")),
    f"{_JM}jvm-overhead": tuple(f"{_JM}jvm-overhead.{name}" for name in ("fraction", "min", "max")),
    f"{_TM}managed.size": (f"{_TM}managed.size", f"{_TM}managed.fraction"),
}


def group_by_size(processes: Iterable[MemoryProcess]) -> list[list[MemoryProcess]]:
    """Group processes of the same role, version and sizes."""
    groups: dict[object, list[MemoryProcess]] = {}
    for process in processes:
        key = (
            process.role,
            process.version,
            tuple(sorted(process.derived.items())),
            tuple(sorted(process.observed.items())),
            process.segments,
        )
        groups.setdefault(key, []).append(process)
    return list(groups.values())


def sizes_of(process: MemoryProcess) -> dict[str, int]:
    """Return the bytes of each pool, observed or else derived, with the sums of `with_sums`."""
    return with_sums({**process.derived, **process.observed})


def with_sums(pools: Mapping[str, int]) -> dict[str, int]:
    """Add the sum of those pools that share a single limit in Flink."""
    found = dict(pools)
    for name, parts in (
        ("heap", (f"{_TM}framework.heap.size", f"{_TM}task.heap.size")),
        (
            "direct",
            (f"{_TM}framework.off-heap.size", f"{_TM}task.off-heap.size", f"{_TM}network"),
        ),
    ):
        if all(part in pools for part in parts):
            found.setdefault(name, sum(pools[part] for part in parts))
    return found


def pools_of(process: MemoryProcess, shown: Mapping[str, int]) -> tuple[Pool, ...]:
    """Return the memory pools of a process, outermost first. They depend on its role and Flink version."""
    if process.role == "jobmanager":
        return _JOBMANAGER
    legacy = "heap" in process.derived and f"{_TM}process.size" not in shown
    return _LEGACY if legacy else _TASKMANAGER


def configured_value(process: MemoryProcess, name: str) -> str:
    """Return the options that the user set for a pool, or an empty string."""
    options = process.configured
    values = []
    for key in _OPTIONS.get(name, (name,)):
        if key in options:
            short = key.rpartition(".")[2]
            values.append(options[key] if key == name else f"{short} {options[key]}")
    return ", ".join(values)
