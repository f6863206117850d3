"""The facts of `flowdiag startup`, as plain frozen values. Times are microseconds since the epoch, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.model.keys import JobKey, Process, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTimes:
    """When an execution attempt reached each state."""

    attempt_id: str
    task: str | None
    subtask_index: int | None
    parallelism: int | None
    attempt: int | None
    taskmanager: str | None
    host: str | None
    scheduled_us: int | None = None
    deploying_us: int | None = None
    initializing_us: int | None = None
    running_us: int | None = None
    ended_us: int | None = None
    end_state: str | None = None
    own_ended_us: int | None = None  # when its own TaskManager saw it fail or canceled it
    ref: Ref | None = None

    @property
    def begins_us(self) -> int | None:
        """The time of the earliest known state."""
        known = (self.scheduled_us, self.deploying_us, self.initializing_us, self.running_us)
        return min((us for us in known if us is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The spread of durations across tasks or TaskManagers, in milliseconds."""

    count: int
    p50_ms: int
    p95_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a start, with its start and end, and the last task or TaskManager that it waited for.

    `ended_us` is None if the step never ended. In that case, `held_us` is when it was last in progress.
    """

    name: str
    started_us: int | None
    ended_us: int | None
    held_us: int | None = None
    spread: Spread | None = None
    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    host: str | None = None
    note: str | None = None
    refs: tuple[Ref, ...] = ()

    @property
    def duration_ms(self) -> int | None:
        """The duration, or the time elapsed so far."""
        end = self.ended_us if self.ended_us is not None else self.held_us
        if self.started_us is None or end is None:
            return None
        return max(0, (end - self.started_us) // 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The required and acquired slots of a start. None means that no log shows the number."""

    required: int | None
    acquired: int | None
    taskmanagers: int
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """State read by one TaskManager in one start. `finished_us` is None if reading never ended."""

    taskmanager: str | None
    host: str | None
    started_us: int
    finished_us: int | None
    handles: int
    download: bool = False
    ref: Ref | None = None

    def took_ms(self, horizon_us: int | None = None) -> int | None:
        """Return the duration, or the time until `horizon_us`."""
        end = self.finished_us if self.finished_us is not None else horizon_us
        return None if end is None else max(0, end - self.started_us) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    """The trace span of an initialization (1.19+): the longest duration of each part across subtasks, in milliseconds.

    Args:
        download_ms: downloading state from the checkpoint storage to the local disk.
        rebuild_ms: opening the store and loading the state into it.
        initialize_ms: all of `initializeState`, including both of the above.
        gate_ms, mailbox_ms: reading in-flight data, and waiting for the task thread.
        bytes: restored state of the subtask with the most state.
    """

    download_ms: int | None = None
    rebuild_ms: int | None = None
    initialize_ms: int | None = None
    gate_ms: int | None = None
    mailbox_ms: int | None = None
    bytes: int | None = None
    ref: Ref | None = None

    @property
    def restored_ms(self) -> int | None:
        """The time spent on state, or None if the span has no such part."""
        known = [took for took in (self.download_ms, self.rebuild_ms) if took is not None]
        return sum(known) if known else None

    @property
    def longest(self) -> tuple[str, int] | None:
        """The longest part and its duration."""
        parts = {
            "download": self.download_ms,
            "rebuild": self.rebuild_ms,
            "in-flight-data": self.gate_ms,
        }
        known = {name: took for name, took in parts.items() if took is not None}
        return max(known.items(), key=lambda item: item[1], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A message about a communication problem between a process and a peer, with the number of its occurrences.

    Args:
        kind: template ID of the message.
        peer: host of the remote process, or another key that separates messages of the same kind.
        address: `host:port` of the remote process in the RPC layer.
        cause: deepest cause in the first message.
        values: fields of the first message.
        resource: `namespace/name`, if the Kubernetes Operator logs it.
        times: times of the first fifty messages.
    """

    kind: str
    count: int
    first_us: int | None
    last_us: int | None
    role: str | None = None
    job_id: str | None = None
    taskmanager: str | None = None
    host: str | None = None
    peer: str | None = None
    address: str | None = None
    cause: str | None = None
    size: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    resource: str | None = None
    times: tuple[int, ...] = ()
    source: int | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyCollection:
    """A minute in which a TaskManager spent much time in garbage collection."""

    taskmanager: str | None
    host: str | None
    first_us: int
    last_us: int
    gc_ms: int
    span_ms: int
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a job, either the first or one after a failure or rescale.

    Args:
        kind: `cold`, `restart`, or `rescale` if the adaptive scheduler changed the parallelism.
        trigger, cause: for restarts, the kind of the failure and its text.
        steps: the steps in order.
        running_us: when the last task reached RUNNING; None if it never did.
        held: name of the step in which the start got stuck; None if it reached RUNNING.
        tasks: the execution attempts of this start.
        expected: number of tasks in the job, if known.
        restored: whether state was restored.
    """

    job: JobKey
    number: int
    kind: str
    started_us: int
    ended_us: int | None
    trigger: str | None = None
    cause: str | None = None
    trigger_ref: Ref | None = None
    steps: tuple[Step, ...] = ()
    running_us: int | None = None
    held: str | None = None
    tasks: tuple[TaskTimes, ...] = ()
    expected: int | None = None
    slots: Slots | None = None
    restored: bool = False
    failed_us: int | None = None
    restores: tuple[Restore, ...] = ()
    initialization: Initialization | None = None

    def step(self, name: str | None) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    @property
    def slowest(self) -> Step | None:
        """The slowest step. The first checkpoint (which waits for its interval) and parts of other steps do not count."""
        excluded = ("first-checkpoint", "workers", "restore")
        timed = [s for s in self.steps if s.duration_ms is not None and s.name not in excluded]
        return max(timed, key=lambda s: s.duration_ms or 0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """A change of the parallelism by the adaptive scheduler.

    Args:
        cause: `requirements`, `new-resources`, `failure` or `unknown`.
        before, after: the slots in use, which equal the parallelism of the widest task.
        desired: the slots that the job requested at that time.
        failure: kind of the failure, for a rescale after a failure.
    """

    time_us: int
    cause: str
    before: int
    after: int
    desired: int | None = None
    failure: str | None = None
    taskmanager: str | None = None
    host: str | None = None
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The slots that a job uses at the end of the input, and the slots it requests."""

    used: int
    desired: int
    since_us: int | None
    last_us: int | None
    ref: Ref | None = None

    @property
    def lasts_ms(self) -> int | None:
        """How long the job has used this many slots while requesting at least as many, in ms."""
        if self.since_us is None or self.last_us is None:
            return None
        return max(0, self.last_us - self.since_us) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A TaskManager on its way from request, grant and start to registration and end."""

    name: str
    host: str | None = None
    requested_us: int | None = None
    started_us: int | None = None
    registered_us: int | None = None
    ended_us: int | None = None
    diagnostics: str | None = None
    ref: Ref | None = None

    @property
    def is_only_ended(self) -> bool:
        """Whether the input shows the end of the TaskManager, but neither its request nor its start."""
        return self.requested_us is None and self.started_us is None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarts:
    job: JobFacts
    starts: tuple[Start, ...]
    scheduler: str | None = None
    restart_strategy: str | None = None
    failover_strategy: str | None = None
    adaptive: bool = False
    cancelled: bool = False
    ended: str | None = None  # final state
    ended_us: int | None = None
    ended_cause: str | None = None
    ended_ref: Ref | None = None
    rescales: tuple[Rescale, ...] = ()
    usage: Usage | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether the last start with tasks ran without a failure, or the job finished."""
        if self.ended in ("FINISHED", "FAILED"):
            return self.ended == "FINISHED"
        last = next((start for start in reversed(self.starts) if start.tasks), None)
        return last is not None and last.running_us is not None and last.failed_us is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupFacts:
    """The facts that the rules of `flowdiag startup` judge."""

    common: ClusterFacts
    jobs: tuple[JobStarts, ...]
    workers: tuple[Worker, ...] = ()
    cluster_steps: tuple[Step, ...] = ()
    requested_workers: int | None = None  # requests still open at the end
    first_request_us: int | None = None
    last_request_ref: Ref | None = None
    last_us: int | None = None
    mode: str | None = None  # yarn | kubernetes | standalone
    troubles: tuple[Trouble, ...] = ()
    # When each client's log shows that its job was accepted, by source.
    accepted_us: Mapping[int, int] = field(default_factory=dict)
    collecting: tuple[HeavyCollection, ...] = ()

    def of_kind(self, *kinds: str) -> tuple[Trouble, ...]:
        """Return the troubles of these kinds, earliest first."""
        return tuple(trouble for trouble in self.troubles if trouble.kind in kinds)

    @property
    def running(self) -> bool:
        """Whether the last start of every job reached RUNNING or the job finished."""
        return bool(self.jobs) and all(job.is_healthy for job in self.jobs)

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes that wrote the logs."""
        return self.common.processes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarting(JobStarts):
    """The starts of a job and of its cluster, as rules see them."""

    cluster: StartupFacts

    @classmethod
    def of(cls, job: JobStarts, cluster: StartupFacts) -> JobStarting:
        """Combine a job with its cluster."""
        return cls(**{f.name: getattr(job, f.name) for f in fields(JobStarts)}, cluster=cluster)
