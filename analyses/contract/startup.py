"""The types of `data` in reports of `flowdiag startup`."""

from __future__ import annotations

import msgspec


class StepSubject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last task or TaskManager that a step waited for. Unknown keys are absent."""

    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    host: str | None = None


class StartStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step. If it never ended, `ended_at` is null and `duration_ms` is the time so far.

    For a step that each task takes on its own, the percentiles are over tasks.
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
    """One start of a job: `cold`, or `restart` with the failure that preceded it."""

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
    """How a job is scheduled according to the log, and where its last successful start placed the tasks.

    `parallelism` is the highest parallelism of a vertex, which is the number of slots required with slot sharing.
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
