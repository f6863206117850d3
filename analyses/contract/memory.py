"""The types of `data` in reports of `flowdiag memory`. Sizes are bytes."""

from __future__ import annotations

import msgspec


class MemoryUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Heap usage: the minimum in each quarter of the time, and the full collections."""

    samples: int
    heap_max_bytes: int | None
    floors_bytes: list[int]
    peak_bytes: int | None
    full_collections: int
    longest_pause_ms: float | None


class MemoryProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process, with its memory areas by the names of Flink's options.

    `configured` contains the options that are set, `derived` the sizes that Flink derives from them, and `observed` the
    sizes from the process, REST or its resource manager (`observed_from`). `error` is Flink's own message if it
    rejects the options.
    """

    role: str
    source: str | None
    label: str | None
    taskmanager: str | None
    host: str | None
    version: str | None
    container: bool
    configured: dict[str, str]
    derived: dict[str, int]
    observed: dict[str, int]
    observed_from: str | None
    jvm_parameters: str | None
    remarks: list[str]
    error: list[str]
    segments: int | None
    segment_bytes: int | None
    heap_max_bytes: int | None
    direct_limit_bytes: int | None
    metaspace_limit_bytes: int | None
    usage: MemoryUsage | None


class TaskBuffers(msgspec.Struct, frozen=True, kw_only=True):
    """The network buffers of one subtask, in segments."""

    job: str
    task: str
    subtask_index: int
    channels: int
    required: int
    desired: int


class MemoryBuffers(msgspec.Struct, frozen=True, kw_only=True):
    """The network buffers of one TaskManager, in segments. `smallest_bytes` is enough for any placement."""

    taskmanager: str
    host: str | None
    segments: int | None
    segment_bytes: int
    required: int
    desired: int
    missing: int
    any_placement: int
    smallest_bytes: int
    tasks: list[TaskBuffers]
