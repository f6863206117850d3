"""`data` of `flowdiag startup`: the wire types that other programs read (architecture.md)."""

from __future__ import annotations

import msgspec


class StepSubject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last task or TaskManager that a step waited for; unknown keys are absent."""

    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    host: str | None = None


class StartStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step; `ended_at` is null if it never ended, and `duration_ms` is then the time so far.

    The percentiles are over tasks, where each takes the step on its own.
    """

    step: str
    started_at: str | None
    ended_at: str | None
    duration_ms: int | None
    subject: StepSubject | None
    tasks: int | None
    p50_ms: int | None
    p95_ms: int | None
    max_ms: int | None


class StartAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job: `cold` or `restart`, with the failure that a restart followed."""

    job_id: str
    job_name: str | None
    number: int
    kind: str
    cause: str | None
    trigger: str | None
    started_at: str | None
    running_at: str | None
    running_after_ms: int | None
    held: str | None
    slowest: str | None
    tasks: int
    expected_tasks: int | None
    required_slots: int | None
    acquired_slots: int | None
    restored: bool
    steps: list[StartStep]


class StartWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A starting TaskManager."""

    taskmanager: str
    host: str | None
    requested_at: str | None
    started_at: str | None
    registered_at: str | None
    ended_at: str | None
    diagnostics: str | None


class TaskManagerShare(msgspec.Struct, frozen=True, kw_only=True):
    """The number of tasks of a job that one TaskManager ran."""

    taskmanager: str
    host: str | None
    tasks: int


class JobScheduling(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is scheduled, as far as it is logged, and where its last running start put its tasks.

    `parallelism` is that of the widest vertex, which is the number of slots that slot sharing needs.
    """

    job_id: str
    job_name: str | None
    scheduler: str | None
    scheduling_strategy: str | None
    failover_strategy: str | None
    restart_strategy: str | None
    tasks: int
    parallelism: int | None
    required_slots: int | None
    acquired_slots: int | None
    spread: list[TaskManagerShare]
