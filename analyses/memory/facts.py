"""What one run of `flowdiag memory` knows, as plain frozen values. Sizes are bytes, times microseconds.

Pools have the names of Flink's options, as `memory_model.TaskManagerMemory.pools` gives them. `None`
and absent keys mean "the input does not say".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flowdiag.analyses.flink.buffers import TaskNeed
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.memory.model import Derivation
from flowdiag.analyses.model.keys import Process, Ref
from flowdiag.parsers.flink.options import OptionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How full the heap was over time: the memory logger, or the JVM's own log."""

    samples: int
    first_us: int | None
    last_us: int | None
    heap_max: int | None
    # Smallest used heap in each quarter of the samples, oldest first: what garbage collection leaves.
    floors: tuple[int, ...] = ()
    peak: int | None = None
    full_pauses: int = 0
    full_pause_ms: float = 0.0
    longest_pause_ms: float = 0.0
    left_after_full: int | None = None
    source: int = 0
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProcess:
    """One process, or one that a configuration describes.

    Args:
        role: `taskmanager` or `jobmanager`.
        source: index of the input that tells of it; None for options of the command line.
        label: its name in that input, where several share it.
        version: of Flink, with the patch where known; None: unknown, the model takes the newest.
        container: on YARN or Kubernetes.
        configured: options as the user gave them, by key.
        refs: where an option or an observed size stands.
        derived: what the model makes of the options; None where none is about memory.
        observed: sizes as the process itself, REST or its resource manager print them.
        origin: where `observed` comes from: `log`, `rest`, `resource-manager`.
        segments, segment_bytes: of the network buffer pool, as allocated.
        container_limit: what the container may use, where Kubernetes or YARN says.
    """

    role: str
    source: int | None = None
    label: str | None = None
    taskmanager: str | None = None
    host: str | None = None
    version: str | None = None
    container: bool = False
    configured: Mapping[str, str] = field(default_factory=dict)
    refs: Mapping[str, Ref] = field(default_factory=dict)
    derived: Derivation | None = None
    observed: Mapping[str, int] = field(default_factory=dict)
    origin: str | None = None
    segments: int | None = None
    segment_bytes: int | None = None
    heap_max: int | None = None
    direct_limit: int | None = None
    metaspace_limit: int | None = None
    container_limit: int | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration file that was given."""

    source: int
    name: str
    read: OptionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A container that Kubernetes ended or does not start, as `kubectl` shows it."""

    reason: str
    exit_code: int | None
    pod: str | None
    limit: int | None
    text: str
    ref: Ref

    @property
    def for_memory(self) -> bool:
        """Whether its memory was the reason: nodes also evict for their disk, and pods wait for a node."""
        return self.reason in _FOR_MEMORY and _OTHER_RESOURCE.search(self.text) is None

    @property
    def waits(self) -> bool:
        """Whether the pod is not there for another reason than its memory."""
        return self.reason in WAITING and not self.for_memory


WAITING: Final = frozenset(
    {
        "FailedScheduling",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CrashLoopBackOff",
        "Evicted",
    }
)
_FOR_MEMORY: Final = ("OOMKilled", "OOMKilling", "SystemOOM", "Evicted")
_OTHER_RESOURCE: Final = re.compile(
    r"ephemeral-storage|nodefs|imagefs|inodes|DiskPressure|PIDPressure|\bpids?\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferNeeds:
    """The network buffers of one TaskManager.

    Args:
        segments: that exist, as allocated, else as derived; None where neither is known.
        required, desired: what the tasks placed there need and would like, in the round of
            deployment in which they needed most.
        any_placement: segments that are enough wherever the scheduler puts the subtasks.
    """

    taskmanager: str
    host: str | None
    segments: int | None
    segment_bytes: int
    required: int
    desired: int
    any_placement: int = 0
    tasks: tuple[TaskNeed, ...] = ()
    process: MemoryProcess | None = None

    @property
    def missing(self) -> int:
        """Segments that are missing; 0 if all pools fit."""
        return 0 if self.segments is None else max(0, self.required - self.segments)

    @property
    def smallest(self) -> int:
        """Network memory in bytes that is just enough, whatever the placement."""
        return max(self.required, self.any_placement) * self.segment_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """What the rules of `flowdiag memory` judge."""

    processes: tuple[MemoryProcess, ...]
    files: tuple[ConfigFile, ...] = ()
    jobs: tuple[JobFacts, ...] = ()
    buffers: tuple[BufferNeeds, ...] = ()
    kills: tuple[Kill, ...] = ()
    writers: tuple[Process, ...] = ()
    # State backend by job, as REST or a log names it: heap | rocksdb | other; absent: unknown.
    backends: Mapping[str, str] = field(default_factory=dict)
