"""RocksDB without a bound on its memory.

What it reports
---------------
The RocksDB state backend with managed memory of size 0, with `state.backend.rocksdb.memory.managed`
switched off, or (up to 1.9) without any bound.

Why it matters
--------------
RocksDB allocates outside of the JVM. Bounded by managed memory, block cache and write buffers of all states
in a slot share it; unbounded they grow with every column family until the container is killed.

How it decides
--------------
The backend comes from REST, the log or the configuration, the sizes from the model or the process; managed
memory below `least` for each slot counts as none.

What to do
----------
Leave the switch on and give managed memory its share (0.4 by default).

False alarms
------------
`state.backend.rocksdb.memory.fixed-per-slot` or `fixed-per-tm` bound it too, and are not reported.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import (
    current,
    tried,
)

_SWITCH: Final = "state.backend.rocksdb.memory.managed"
_FIXED: Final = (
    "state.backend.rocksdb.memory.fixed-per-slot",
    "state.backend.rocksdb.memory.fixed-per-tm",
)
_DEFAULT_SHARE: Final = 0.4


class Unmanaged(h.Limits):
    """Thresholds of MM303."""

    least: float = h.limit(64, "MiB", "per slot; below it write buffers alone take everything")


def judge(facts: h.MemoryFacts, limits: Unmanaged) -> h.Iterator[h.Finding]:
    """One finding for the cluster, about the first process of which it is true."""
    if "rocksdb" not in facts.backends.values():
        return
    for process in facts.processes:
        if process.role != "taskmanager" or any(key in process.configured for key in _FIXED):
            continue
        off = process.configured.get(_SWITCH, "true").strip().lower() == "false"
        memory = current(process)
        managed = memory.managed if memory is not None else None
        slots = _slots(process)
        if off or (managed is not None and managed < limits.least * h.model.MIB * slots):
            yield _finding(process, managed, slots, off=off)
            return


def _slots(process: h.MemoryProcess) -> int:
    text = process.configured.get("taskmanager.numberOfTaskSlots", "1").strip()
    return max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1


def _finding(process: h.MemoryProcess, managed: int | None, slots: int, *, off: bool) -> h.Finding:
    set_to = process.configured.get(h.model.MANAGED) or process.configured.get(
        h.model.MANAGED_FRACTION
    )
    # A size that is set wins over the fraction.
    sized = h.model.MANAGED in process.configured
    option = _SWITCH if off else h.model.MANAGED if sized else h.model.MANAGED_FRACTION
    return h.of_process(
        process,
        title="RocksDB is not bound by managed memory"
        if off
        else f"RocksDB has {h.fmt.size(managed)} of managed memory for {h.fmt.plural(slots, 'slot')}",
        cause="unmanaged-rocksdb",
        rank=h.Rank.MECHANISM,
        option=_SWITCH if off else h.model.MANAGED_FRACTION,
        measurements=(h.measurement("managed-memory", managed, "bytes"),),
        evidence=h.cite([(process.refs.get(_SWITCH if off else h.model.MANAGED), None)]),
        actions=(
            h.advised(
                "unmanaged-rocksdb",
                "bound" if off else "share",
                option=option,
                current="false" if off else set_to,
                proposed=None if off else _share(process, option),
                version=process.version,
            ),
        ),
    )


def _share(process: h.MemoryProcess, option: str) -> str | None:
    """Flink's default share, as the option wants it; None where Flink would refuse it."""
    memory = current(process)
    if memory is None:
        return None
    share = f"{_DEFAULT_SHARE}"
    size = int(_DEFAULT_SHARE * memory.flink) // h.model.MIB * h.model.MIB
    wanted = share if option == h.model.MANAGED_FRACTION else h.model.as_option(size)
    return wanted if tried(process, {option: wanted}) is not None else None


RULE: Final = h.Rule("MM303", judge, Unmanaged, whole=True, causes=("unmanaged-rocksdb",))
