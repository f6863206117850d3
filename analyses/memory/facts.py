"""The facts of one `flowdiag memory` run, as plain frozen values. Sizes are bytes, times microseconds.

Pools are named after Flink's options, as in `model.TaskManagerMemory.pools`. `None` and absent keys mean
that the input does not contain the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.flink.judging import job_failed
from flowdiag.analyses.flink.tasks.buffers import TaskNeed
from flowdiag.analyses.memory.model import Derivation
from flowdiag.analyses.model.keys import Process, Ref
from flowdiag.parsers.flink.options import OptionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Heap usage over time, from Flink's memory logger or the JVM's own log."""

    samples: int
    first_us: int | None
    last_us: int | None
    heap_max: int | None
    # Smallest used heap in each quarter of the samples, oldest first: what remains in use after collections.
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
    """A running process, or one that a configuration describes.

    Args:
        role: `taskmanager` or `jobmanager`.
        source: index of the input that describes it; None for command-line options.
        label: its name within an input that describes several processes.
        version: Flink's version, with the patch level if known. If None, the model uses the newest version.
        container: whether it runs on YARN or Kubernetes.
        configured: options as set by the user, by key.
        refs: the record behind an option or an observed size.
        derived: the sizes that the model derives; None without memory options.
        observed: sizes as printed by the process, REST or the resource manager.
        origin: source of `observed`: `log`, `rest` or `resource-manager`.
        segments, segment_bytes: of the network buffer pool, as allocated.
        container_limit: limit set by Kubernetes or YARN.
        slots: as reported by REST.
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
    slots: int | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration file from the input."""

    source: int
    name: str
    read: OptionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A container that Kubernetes or YARN ended or cannot start, according to its own reports.

    Args:
        time_us: when it ended or when an event last reported the problem, if known.
        restarts: restarts of the container, if known.
        heap: heap of an executor, as Spark sets it for the container.
        node: where the container ran, or the node itself.
        count: how often events reported the problem.
        component: jobmanager or taskmanager, if the pod's labels show it.
    """

    reason: str
    exit_code: int | None
    pod: str | None
    limit: int | None
    text: str
    ref: Ref
    time_us: int | None = None
    restarts: int | None = None
    count: int = 1
    heap: int | None = None
    node: str | None = None
    component: str | None = None

    @property
    def is_for_memory(self) -> bool:
        """Whether memory was the reason. Nodes also evict pods for disk space, and pods wait for a node."""
        if self.reason == "Evicted":
            return _OTHER_RESOURCE.search(self.text) is None
        return self.reason in _FOR_MEMORY

    @property
    def waits(self) -> bool:
        """Whether the pod is not running, for a reason other than memory."""
        return self.reason in WAITING and not self.is_for_memory


WAITING: Final = frozenset(
    {
        "FailedScheduling",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CrashLoopBackOff",
        "Evicted",
        "Preempted",
        "NodeLost",
        "NodeShutdown",
        "CreateContainerConfigError",
        "FailedMount",
        "FailedAttachVolume",
        "ProbeKilled",
        "Unscheduled",
        "LocalizationFailed",
        "AttemptsExhausted",
        "TokenExpired",
        "DisksFailed",
        "Killed",
        "NodeUnhealthy",
        "NodePressure",
        "Throttled",
        "SubmissionFailed",
        "OperatorWarning",
        "RolledBack",
        "SavepointFailed",
        "JobFailed",
        "DriverFailed",
        "ExecutorFailed",
        "ClockProblem",
        "NodeNotReady",
        "NodeDecommissioned",
    }
)
_FOR_MEMORY: Final = ("OOMKilled", "OOMKilling", "SystemOOM")
_OTHER_RESOURCE: Final = re.compile(
    r"ephemeral|emptyDir|nodefs|imagefs|inodes|DiskPressure|PIDPressure|\bpids?\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferNeeds:
    """The network buffers of one TaskManager.

    Args:
        segments: existing segments, as allocated or, if that is unknown, as derived; None if both are unknown.
        required, desired: needs of the tasks placed there, in the deployment round with the highest need.
        any_placement: segments that are enough for any placement of the subtasks.
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
        """The number of missing segments, or 0 if all pools fit."""
        return 0 if self.segments is None else max(0, self.required - self.segments)

    @property
    def smallest(self) -> int:
        """The smallest network memory, in bytes, that is enough for any placement."""
        return max(self.required, self.any_placement) * self.segment_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """The input for the rules of `flowdiag memory`."""

    processes: tuple[MemoryProcess, ...]
    files: tuple[ConfigFile, ...] = ()
    jobs: tuple[JobFacts, ...] = ()
    buffers: tuple[BufferNeeds, ...] = ()
    kills: tuple[Kill, ...] = ()
    writers: tuple[Process, ...] = ()
    # State backend by job, from REST or a log: heap | rocksdb | other; absent if unknown.
    backends: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None  # the engine of all logs, if they agree

    @property
    def managed_is_free(self) -> bool:
        """Whether all state is on the heap, and no log shows Python workers that use managed memory."""
        python = (each.configured.get(_PYTHON) == "true" for each in self.processes)
        return set(self.backends.values()) == {"heap"} and not any(python)


_PYTHON: Final = "python.fn-execution.memory.managed"


def times_of(items: Iterable[Incident | Kill]) -> list[int]:
    """Return the known times of incidents and kills."""
    return [item.time_us for item in items if item.time_us is not None]


_BEFORE_US: Final = 2_000_000
_AFTER_US: Final = 60_000_000
"""The JobManager notices a killed process when its connections break, or at the latest after the heartbeat timeout."""


def lost_at(facts: MemoryFacts, time_us: int | None) -> str | None:
    """Return the TaskManager that the first record of a loss after a kill names, or None.

    The kernel's report of a kill has no name that Flink knows.
    """
    if time_us is None:
        return None
    named = (
        (incident.time_us, name)
        for job in facts.jobs
        for incident in job.incidents
        if incident.time_us is not None and (name := _lost_in(incident)) is not None
    )
    near = [each for each in named if time_us - _BEFORE_US <= each[0] <= time_us + _AFTER_US]
    return min(near, default=(0, None))[1]


def _lost_in(incident: Incident) -> str | None:
    name = incident.text.get("lost_taskmanager")
    if name is None and incident.kind == "taskmanager-lost":
        name = incident.taskmanager
    return None if name in ("", "null", "unknown") else name


def has_recovered(facts: MemoryFacts, time_us: int | None, place: str | None) -> bool:
    """Return whether the affected jobs run again after a problem, and no job failed for good.

    Args:
        facts: the facts of all jobs in the input.
        time_us: time of the problem. If None, the recovery is unknown, too.
        place: the pod or container. Only jobs that lost it are affected, or all jobs if none names it.
    """
    if time_us is None:
        return False
    affected = [job for job in facts.jobs if _names(job, place)] or facts.jobs
    return bool(affected) and all(
        not job_failed(job)
        and any(
            i.kind == "job-running" and i.time_us is not None and i.time_us > time_us
            for i in job.incidents
        )
        for job in affected
    )


def _names(job: JobFacts, place: str | None) -> bool:
    return place is not None and any(
        place in (i.taskmanager, i.text.get("lost_taskmanager")) for i in job.incidents
    )


def share_in_full_collections(facts: MemoryFacts, process: MemoryProcess) -> float | None:
    """Return the share of the logged time that a process spent in full collections, or None if unknown."""
    usage = process.usage
    spans = [
        writer.last_us - writer.first_us
        for writer in facts.writers
        if writer.source == process.source
        and writer.first_us is not None
        and writer.last_us is not None
    ]
    if usage is None or not usage.full_pauses or len(spans) != 1 or spans[0] <= 0:
        return None
    return min(1.0, usage.full_pause_ms * 1000 / spans[0])
