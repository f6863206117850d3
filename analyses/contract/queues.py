"""The types of `data` in reports of `flowdiag queues`.

Shares are between 0 and 1 of the time, and usages between 0 and 1 of the buffers (from 1.16 on, output pools may exceed
1). Unknown values are null. Values of a vertex are maxima over its subtasks, never means.
"""

from __future__ import annotations

import msgspec


class QueueGate(msgspec.Struct, frozen=True, kw_only=True):
    """Queued buffers in the remote channels of one input gate, as means of the samples."""

    gate: int
    samples: int
    total: float | None
    shortest: float | None
    longest: float | None
    mean: float | None


class QueueSubtask(msgspec.Struct, frozen=True, kw_only=True):
    """One subtask over the assessed period.

    `capacity` is the queue length at which its input is full. From Flink 1.9 on, it includes `local_backlog`, which
    counts the buffers that wait at producers on the same TaskManager.
    """

    subtask_index: int
    taskmanager: str | None
    host: str | None
    culprit: bool
    samples: int
    busy: float | None
    back_pressured: float | None
    idle: float | None
    records_in: float | None
    bytes_in: float | None
    queue_length: float | None
    queue_length_max: float | None
    capacity: int | None
    local_backlog: int | None
    floating_usage: float | None
    exclusive_usage: float | None
    output_usage: float | None
    saturated_share: float | None
    gates: list[QueueGate]


class QueueInput(msgspec.Struct, frozen=True, kw_only=True):
    """An edge into a vertex, with Flink's name for the ship strategy."""

    upstream: str
    ship_strategy: str | None


class QueueVertex(msgspec.Struct, frozen=True, kw_only=True):
    """One vertex of the job graph, sources first.

    `role` is root, back-pressured, fed-by-root, ok or unknown. `skew` is Flink's own score for incoming records, from 0
    (even) to 100. `graph_from` is the source of the edges: plan, archive, deployment order or metrics.
    """

    job_id: str
    job_name: str | None
    vertex_id: str | None
    name: str
    parallelism: int
    role: str
    busy: float | None
    back_pressured: float | None
    idle: float | None
    skew: float | None
    inputs: list[QueueInput]
    graph_from: str | None
    subtasks: list[QueueSubtask]
    total: int
    truncated: bool


class QueueTaskManager(msgspec.Struct, frozen=True, kw_only=True):
    """One TaskManager that runs subtasks of the job, with its mean usage over the assessed period."""

    job_id: str
    taskmanager: str
    host: str | None
    subtasks: int
    culprit: bool
    busy: float | None
    gc_share: float | None
    heap_used: float | None
    cpu: float | None
    segments: float | None
    segments_free: float | None
    segments_requested: float | None


class QueueFit(msgspec.Struct, frozen=True, kw_only=True):
    """An observed quantity, and its value in the fitted model."""

    name: str
    observed: float
    modelled: float


class QueueForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of the credit model for a change. The first forecast is without any change.

    `checkpoint_ms` is null if no checkpoint completes in the simulated time. `at_least_ms` is then how long the
    unfinished checkpoint has run.
    """

    change: str
    task: str
    records_per_s: float | None
    queue: float | None
    checkpoint_ms: int | None
    at_least_ms: int | None
    problem: str | None


class QueueWhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The credit model of one job, with the quality of its fit and its forecasts."""

    job_id: str
    job_name: str | None
    bottleneck: str | None
    problem: str | None
    fit: list[QueueFit]
    forecasts: list[QueueForecast]
    notes: list[str]


class QueueLagPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The number of records that wait in a source at one time."""

    at: str | None
    records: float


class QueueLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job is behind its source. `of` is a source task or a consumer group."""

    of: str
    first: float
    last: float
    per_s: float
    direction: str
    behind_ms: int | None
    first_seen: str | None
    last_seen: str | None
    points: list[QueueLagPoint] = []


class QueueFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The part that limits a job.

    `side` is source, processing or sink, or null if the job keeps up. `neighbour` is the external system that the job
    waits for. `busy` contains the mean busy share of the busiest task of each side.
    """

    job_id: str
    job_name: str | None
    side: str | None
    task: str | None
    neighbour: str | None
    text: str
    busy: dict[str, float]
    lag: QueueLag | None
