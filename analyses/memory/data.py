"""Builds `data.processes` and `data.buffers` of the report from the facts of `flowdiag memory`."""

from __future__ import annotations

from collections.abc import Sequence

from flowdiag.analyses.contract import memory as wire
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.memory import facts as x
from flowdiag.analyses.memory.model import MEMORY_KEYS

# Options to show in addition to those of the model.
_ALSO = (
    "taskmanager.numberOfTaskSlots",
    "state.backend",
    "state.backend.type",
    "state.backend.rocksdb.memory.managed",
    "taskmanager.network.memory.buffers-per-channel",
    "taskmanager.network.memory.floating-buffers-per-gate",
    "taskmanager.network.memory.buffer-debloat.enabled",
)


def memory_processes(
    facts: x.MemoryFacts, names: Sequence[str], max_rows: int
) -> list[wire.MemoryProcess]:
    """Return at most `max_rows` processes. `names` contains the source names by index."""
    return [_process(process, names) for process in facts.processes[:max_rows]]


def _process(process: x.MemoryProcess, names: Sequence[str]) -> wire.MemoryProcess:
    derived = process.derived
    memory = derived.memory if derived else None
    return wire.MemoryProcess(
        role=process.role,
        source=names[process.source] if process.source is not None else None,
        label=process.label,
        taskmanager=process.taskmanager,
        host=process.host,
        version=process.version,
        container=process.container,
        configured={
            key: clean(text)
            for key, text in sorted(process.configured.items())
            if key in MEMORY_KEYS or key in _ALSO
        },
        derived=memory.pools() if memory is not None else {},
        observed=dict(process.observed),
        observed_from=process.origin,
        jvm_parameters=memory.jvm_parameters if memory is not None else None,
        remarks=[clean(remark.text) for remark in derived.remarks] if derived else [],
        error=[clean(text) for text in derived.error] if derived else [],
        segments=process.segments,
        segment_bytes=process.segment_bytes,
        heap_max_bytes=process.heap_max,
        direct_limit_bytes=process.direct_limit,
        metaspace_limit_bytes=process.metaspace_limit,
        usage=_usage(process.usage),
    )


def _usage(usage: x.Usage | None) -> wire.MemoryUsage | None:
    if usage is None:
        return None
    return wire.MemoryUsage(
        samples=usage.samples,
        heap_max_bytes=usage.heap_max,
        floors_bytes=list(usage.floors),
        peak_bytes=usage.peak,
        full_collections=usage.full_pauses,
        longest_pause_ms=usage.longest_pause_ms or None,
    )


def memory_buffers(facts: x.MemoryFacts, max_rows: int) -> list[wire.MemoryBuffers]:
    """Return the network buffers of each TaskManager, with shortages first."""
    ranked = sorted(facts.buffers, key=lambda needs: (-needs.missing, needs.taskmanager))
    return [
        wire.MemoryBuffers(
            taskmanager=needs.taskmanager,
            host=needs.host,
            segments=needs.segments,
            segment_bytes=needs.segment_bytes,
            required=needs.required,
            desired=needs.desired,
            missing=needs.missing,
            any_placement=needs.any_placement,
            smallest_bytes=needs.smallest,
            tasks=[
                wire.TaskBuffers(
                    job=need.job,
                    task=need.task,
                    subtask_index=need.subtask_index,
                    channels=sum(gate.channels for gate in need.gates),
                    required=need.required,
                    desired=need.desired,
                )
                for need in needs.tasks[:max_rows]
            ],
        )
        for needs in ranked[:max_rows]
    ]
