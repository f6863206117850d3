"""Defines the facts about a Flink job that all Flink topics share, as frozen values.

Spark measures them (`flowdiag.analyses.flink.lifecycle`), and the rules evaluate them without a JVM. Times are
microseconds since the epoch (UTC) after the clocks were settled, durations milliseconds, sizes bytes, and
subtask indexes 0-based. `None` always means "not in the input".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from flowdiag.analyses.model.derived import DerivedValues, once
from flowdiag.analyses.model.finding import Evidence, cite_part
from flowdiag.analyses.model.keys import JobKey, Process, Ref
from flowdiag.analyses.stacks import Stack
from flowdiag.parsers.focus import Focus

ZERO_JOB: Final = "0" * 32
"""The ID of every job in application mode with high availability."""


class Status(StrEnum):
    """The outcome of a checkpoint. `aborted` is harmless, such as after a cancellation or a newer checkpoint."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    DECLINED = "declined"
    FAILED = "failed"
    ABORTED = "aborted"
    IN_FLIGHT = "in_flight"

    @property
    def unsuccessful(self) -> bool:
        """Whether the checkpoint failed for a reason that matters.

        >>> Status.EXPIRED.unsuccessful, Status.ABORTED.unsuccessful
        (True, False)
        """
        return self in (Status.EXPIRED, Status.DECLINED, Status.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint or savepoint, from trigger to end."""

    job: JobKey
    run: int
    id: int
    status: Status
    type: (
        str  # checkpoint | unaligned-checkpoint | full-checkpoint | savepoint | stop-with-savepoint
    )
    triggered_us: int | None = None
    ended_us: int | None = None
    duration_ms: int | None = None
    finalization_ms: int | None = None
    bytes: int | None = None
    queue_ms: int | None = None
    reason: str | None = None
    reason_kind: str | None = None
    # subtasks that acknowledged and all subtasks, if REST, an archive or a dump shows them
    acknowledged: int | None = None
    subtasks: int | None = None
    trigger_ref: Ref | None = None
    end_ref: Ref | None = None

    @property
    def is_savepoint(self) -> bool:
        """Whether a user requested the checkpoint."""
        return "savepoint" in self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution attempt of a subtask: its identity and its place."""

    job: JobKey | None
    attempt_id: str
    vertex_id: str | None = None
    task: str | None = None
    subtask_index: int | None = None
    parallelism: int | None = None
    attempt: int | None = None
    taskmanager: str | None = None
    host: str | None = None
    deployed_us: int | None = None
    ended_us: int | None = None
    ref: Ref | None = None

    @property
    def subtask(self) -> str | None:
        """The subtask in Flink's notation.

        >>> Attempt(job=None, attempt_id="a", subtask_index=2, parallelism=6).subtask
        '3/6'
        """
        if self.subtask_index is None:
            return None
        return f"{self.subtask_index + 1}/{self.parallelism or '?'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAcknowledgement:
    """An acknowledgement that arrived after its checkpoint had expired.

    `expired` is False if the expiry line is missing, so that the end of the checkpoint is unknown. The report
    contract calls these `unmatched`. Late messages of declined or aborted checkpoints are harmless and
    left out.
    """

    job: JobKey
    run: int
    checkpoint: int
    attempt: Attempt
    received_us: int | None
    after_trigger_ms: int | None
    after_expiry_ms: int | None
    expired: bool
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """A subtask's refusal of a checkpoint, with the deepest cause."""

    job: JobKey
    run: int
    checkpoint: int
    attempt: Attempt
    time_us: int | None
    reason: str | None
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A vertex of the job graph. `order` counts from the sources and is None if unknown.

    `description` is Flink's own text about its operators. It mentions most windows even if the user named the operators.
    """

    job: JobKey
    vertex_id: str | None
    task: str
    parallelism: int
    order: int | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The known part of the job graph. `source` is where it comes from (`plan`, `archive`, `deployment order`)."""

    job: JobKey
    vertices: tuple[Vertex, ...]
    edges: tuple[tuple[str, str], ...]  # (upstream task, downstream task)
    source: str
    # (upstream task, downstream task, Flink's name for the ship strategy), if a plan contains it
    shipping: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskCheckpoint:
    """One subtask's report on one checkpoint (REST, archive, DEBUG dump or DEBUG lines)."""

    job: JobKey
    checkpoint: int
    vertex_id: str | None
    task: str | None
    subtask_index: int
    acknowledged: bool
    end_to_end_ms: int | None = None
    sync_ms: int | None = None
    async_ms: int | None = None
    alignment_ms: int | None = None
    start_delay_ms: int | None = None
    bytes: int | None = None
    taskmanager: str | None = None
    source: str = "rest"  # rest | archive | dump | debug
    ref: Ref | None = None

    @property
    def cited(self) -> Evidence | None:
        """The record to cite, or None. A REST response covers all subtasks of a vertex."""
        return cite_part(self.ref, Focus(task=self.task, subtask_index=self.subtask_index))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskLoad:
    """Metrics of one subtask over a window, in Flink's units.

    `first_us` and `last_us` are the times of the first and the last sample, or None for totals since the start.

    Busy, idle and back-pressured times are medians in milliseconds per second (0 to 1000), usages are 0 to 1.
    `records_in` and `bytes_in` are increases over the window. A counter that restarts counts from zero.
    """

    job: JobKey | None
    task: str
    subtask_index: int
    taskmanager: str | None
    host: str | None
    samples: int
    busy: float | None = None
    idle: float | None = None
    back_pressured: float | None = None
    is_back_pressured: float | None = None  # share of the samples
    records_in: float | None = None
    records_out: float | None = None
    bytes_in: float | None = None
    input_queue: float | None = None
    in_pool_usage: float | None = None
    out_pool_usage: float | None = None
    alignment_ms: float | None = None
    start_delay_ms: float | None = None
    ref: Ref | None = None
    first_us: int | None = None
    last_us: int | None = None
    window: int | None = None  # number of the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """The time that a TaskManager spent in garbage collection within one window."""

    taskmanager: str
    host: str | None
    gc_ms: float
    span_ms: float
    samples: int
    first_us: int
    last_us: int
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A dated event that may explain a fault, such as a failure, a restart, a lost TaskManager or a stuck task.

    Kinds of failures: task-failure, job-failure, exception, taskmanager-lost, worker-lost, out-of-memory,
    network-buffers, no-resource, task-stuck, snapshot-failed, async-failure, external-failure.
    `unreachable` is a server to which a process's clients cannot connect within ten seconds.
    Kinds of job events: started, submitted, restart, restored, rescaled, savepoint, cancelled, finished,
    leadership, coordinator-stopped. Kinds of warnings: abort-notified, barrier-delayed, network-memory,
    not-triggered. `silent` is a log without records for `duration_ms`, whose process is in `text`.
    """

    kind: str
    time_us: int | None
    job: JobKey | None = None
    task: str | None = None
    subtask_index: int | None = None
    parallelism: int | None = None
    attempt_id: str | None = None
    taskmanager: str | None = None
    host: str | None = None
    checkpoint: int | None = None
    duration_ms: int | None = None
    cause: str | None = None
    text: dict[str, str] = field(default_factory=dict)
    ref: Ref | None = None


BREAKS: Final = frozenset(
    {
        "job-failing",
        "job-failure",
        "job-restarting",
        "restart",
        "restored",
        "cancelled",
        "suspended",
        "finished",
        "coordinator-stopped",
    }
)
"""Kinds of incidents that end the checkpoints in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A configuration value; `source` is `rest`, `log` (printed option) or `observed` (inferred)."""

    job: JobKey | None
    key: str
    value: str
    source: str
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """All facts of one job, ordered by time."""

    key: JobKey
    name: str | None
    version: str | None
    checkpoints: tuple[Checkpoint, ...] = ()
    late: tuple[LateAcknowledgement, ...] = ()
    declines: tuple[Decline, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    graph: Graph | None = None
    subtask_checkpoints: tuple[SubtaskCheckpoint, ...] = ()
    loads: tuple[SubtaskLoad, ...] = ()
    incidents: tuple[Incident, ...] = ()
    settings: tuple[Setting, ...] = ()
    first_us: int | None = None
    last_us: int | None = None
    garbage: tuple[Garbage, ...] = ()  # collections on the TaskManagers that run the job
    stacks: tuple[Stack, ...] = ()
    # Cache of `flowdiag.analyses.model.derived.once`.
    derived: DerivedValues = field(
        default_factory=DerivedValues, init=False, repr=False, compare=False
    )

    @property
    def runs(self) -> int:
        """The number of runs. Checkpoint IDs start over in each run."""
        return _runs(self)

    def setting(self, key: str) -> str | None:
        """Return the value of an option. REST takes precedence over printed values, and printed values over inferred
        ones.
        """
        order = {"rest": 0, "log": 1, "observed": 2}
        found = sorted(
            (s for s in self.settings if s.key == key), key=lambda s: order.get(s.source, 3)
        )
        return found[0].value if found else None


UNKNOWN_JOB: Final = JobFacts(key=JobKey(cluster="", job_id=""), name=None, version=None)
"""The placeholder for a job that no record names. It allows any version and has no settings."""


@once
def _runs(job: JobFacts) -> int:
    return max((checkpoint.run for checkpoint in job.checkpoints), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts of a Flink cluster that all Flink topics share."""

    jobs: tuple[JobFacts, ...]
    processes: tuple[Process, ...]
    incidents: tuple[Incident, ...] = ()  # incidents whose job is unknown
    stacks: tuple[Stack, ...] = ()  # threads whose job is unknown
    has_jobmanager_log: bool = False
    has_rest: bool = False
    # Cache of `flowdiag.analyses.model.derived.once`.
    derived: DerivedValues = field(
        default_factory=DerivedValues, init=False, repr=False, compare=False
    )


def original_host(host: str | None) -> str | None:
    """Return the host in a metric scope, or None if `_` replaced its dots (1.13+). Host names contain no `_`.

    >>> original_host("worker-1_flink_example"), original_host("worker-1")
    (None, 'worker-1')
    """
    return None if host is None or "_" in host else host
