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
The backend comes from REST, the log or the configuration, the sizes from the model or the process.

What to do
----------
Leave the switch on and give managed memory its share (0.4 by default).

False alarms
------------
`state.backend.rocksdb.memory.fixed-per-slot` or `fixed-per-tm` bound it too, and are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.advice import current
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.memory.words import process_subject
from flowdiag.analyses.rule import Limits, Rule, limit

_SWITCH: Final = "state.backend.rocksdb.memory.managed"
_FIXED: Final = (
    "state.backend.rocksdb.memory.fixed-per-slot",
    "state.backend.rocksdb.memory.fixed-per-tm",
)


class UnmanagedRocksdbLimits(Limits):
    """What MM303 compares with."""

    least: float = limit(64, "MiB", "per slot; below it write buffers alone take everything")


def judge(facts: MemoryFacts, limits: UnmanagedRocksdbLimits) -> Iterator[Finding | Inconclusive]:
    """One finding for the cluster."""
    if "rocksdb" not in facts.backends.values():
        return
    for process in facts.processes:
        if process.role != "taskmanager" or any(key in process.configured for key in _FIXED):
            continue
        off = process.configured.get(_SWITCH, "true").strip().lower() == "false"
        memory = current(process)
        text = process.configured.get("taskmanager.numberOfTaskSlots", "1").strip()
        slots = max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1
        small = memory is not None and memory.managed < limits.least * m.MIB * slots
        if not off and not small:
            continue
        size = memory.managed if memory is not None else None
        yield Finding(
            job=None,
            severity=Severity.WARNING,
            state=State.ONGOING,
            subject=process_subject(process),
            title="RocksDB is not bound by managed memory"
            if off
            else f"RocksDB has {j.bytes_text(size)} of managed memory for "
            f"{j.count_text(slots, 'slot')}",
            cause="unmanaged-rocksdb",
            rank=Rank.MECHANISM,
            option=_SWITCH if off else m.MANAGED_FRACTION,
            explain="Its block cache and write buffers lie outside of the JVM and of every pool.",
            measurements=(Measurement(name="managed-memory", value=size, unit="bytes"),),
            evidence=cite([(process.refs.get(_SWITCH if off else m.MANAGED), None)]),
            actions=(
                Action(
                    text="Let managed memory bound it",
                    option=_SWITCH,
                    current="false",
                    proposed="true",
                    restart_needed=True,
                )
                if off
                else Action(
                    text="Give managed memory its share",
                    option=m.MANAGED_FRACTION,
                    current=process.configured.get(m.MANAGED)
                    or process.configured.get(m.MANAGED_FRACTION),
                    proposed="0.4",
                    restart_needed=True,
                ),
            ),
        )
        return


RULE: Final = Rule("MM303", judge, UnmanagedRocksdbLimits, whole=True)
