"""RocksDB has no memory limit.

What it reports
---------------
Jobs with the RocksDB state backend whose TaskManagers have almost no managed memory, or set
`state.backend.rocksdb.memory.managed` to `false`.

Why it matters
--------------
RocksDB allocates memory outside the JVM. If managed memory limits RocksDB, the block caches and write buffers of
all states in a slot share that memory. Without a limit, RocksDB uses more memory with every column family until
the container is killed.

How it decides
--------------
The rule takes the state backend from REST responses, the log or the configuration. It derives the size of managed
memory from the options, or takes it from the process's log. Less managed memory than `min-memory` per slot counts as
none.

What to do
----------
Keep `state.backend.rocksdb.memory.managed` at `true` and the managed memory fraction at its default of 0.4.

False alarms
------------
`state.backend.rocksdb.memory.fixed-per-slot` and `fixed-per-tm` also limit RocksDB. The rule does not report
TaskManagers with one of these options. If a container was killed for its memory, CP303 reports the missing limit.
"""

from dataclasses import replace

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import current_pools, derive_with
from flowdiag.analyses.memory.native import SWITCH, is_unlimited, uses_rocksdb, was_killed

DEFAULT_SHARE = 0.4


class Limits(h.Limits):
    min_memory: float = h.limit(
        64, "MiB", "minimum managed memory per slot; write buffers alone need this much"
    )


def judge(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report the first affected process, on behalf of the cluster."""
    for process in facts.processes:
        if not uses_rocksdb(facts, process):
            continue
        off = is_unlimited(facts, process)
        if off and was_killed(facts):
            return
        memory = current_pools(process)
        managed = memory.managed if memory is not None else None
        slots = _slots(process)
        if off or (
            managed is not None and managed < limits.min_memory * h.model.MIB * (slots or 1)
        ):
            found = _finding(process, managed, slots, off=off)
            # Only a finding about the job can join the incident about its slow operators.
            yield replace(found, job=facts.jobs[0].key) if len(facts.jobs) == 1 else found
            return


def _slots(process: h.MemoryProcess) -> int | None:
    """Return the slots of a TaskManager as reported by REST or, failing that, as configured."""
    if process.slots:
        return process.slots
    text = process.configured.get("taskmanager.numberOfTaskSlots", "").strip()
    return max(1, int(text)) if text.isdecimal() and len(text) < 6 else None


def _finding(
    process: h.MemoryProcess, managed: int | None, slots: int | None, *, off: bool
) -> h.Finding:
    title = "RocksDB is not limited to managed memory"
    # A configured size overrides the fraction.
    sized = h.model.MANAGED in process.configured
    option = SWITCH if off else h.model.MANAGED if sized else h.model.MANAGED_FRACTION
    proposed = None
    if not off:
        memory_for = f" for {h.fmt.plural(slots, 'slot')}" if slots is not None else ""
        title = f"RocksDB has {h.fmt.size(managed)} of managed memory{memory_for}"
        if (memory := current_pools(process)) is not None:
            size = int(DEFAULT_SHARE * memory.flink) // h.model.MIB * h.model.MIB
            share = h.model.as_option(size) if sized else f"{DEFAULT_SHARE}"
            proposed = share if derive_with(process, {option: share}) is not None else None
    configured = process.configured.get(h.model.MANAGED)
    configured = configured or process.configured.get(h.model.MANAGED_FRACTION)
    return h.process_finding(
        process,
        title=title,
        cause="unmanaged-rocksdb",
        rank=h.Rank.MECHANISM,
        option=option,
        measurements=(h.measurement("managed-memory", managed, "bytes"),),
        evidence=h.cite([(process.refs.get(SWITCH if off else h.model.MANAGED), None)]),
        actions=(
            h.remedy_action(
                "unmanaged-rocksdb",
                "bound" if off else "share",
                option=option,
                current="false" if off else configured,
                proposed=proposed,
                version=process.version,
            ),
        ),
    )


RULE = h.Rule("MM303", judge, Limits, whole=True, causes=("unmanaged-rocksdb",), needs="backends")
