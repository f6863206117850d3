"""Measures checkpoints, attempts and incidents in logs, with Spark.

Every function takes resolved events (`flowdiag.analyses.flink.clocks.apply`) and returns a query.
`facts` returns the queries with small results, tagged by `what`, which one action collects. The
SQL is in `sql/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.frames import PLACE, cached_frame, place_struct
from flowdiag.analyses.engine.sql import Part, Queries, join_columns, sql_literals
from flowdiag.analyses.flink.job import ZERO_JOB
from flowdiag.parsers import packing
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Events in the life of a checkpoint.
OF_CHECKPOINT: Final = (
    Event.CHECKPOINT_TRIGGERED,
    Event.CHECKPOINT_COMPLETED,
    Event.CHECKPOINT_EXPIRED,
    Event.CHECKPOINT_DECLINED,
    Event.CHECKPOINT_DISCARDED,
    Event.CHECKPOINT_FAILED,
    Event.CHECKPOINT_STATUS,
)
# Records that rules need individually. For tasks, the queries keep only failures.
INCIDENTS: Final = (
    Event.JOB_SUBMITTED,
    Event.JOB_STARTED,
    Event.JOB_STATE,
    Event.JOB_FINISHED,
    Event.JOB_RESTARTING,
    Event.RESTORED,
    Event.SAVEPOINT_REQUESTED,
    Event.COORDINATOR_STOPPED,
    Event.CHECKPOINT_NOT_TRIGGERED,
    Event.CHECKPOINT_FAILED,
    Event.CHECKPOINT_ID_RESET,
    Event.SCHEDULER_SWITCHED,
    Event.REQUEST_IN_QUEUE,
    Event.TASKMANAGER_REGISTERED,
    Event.TASKMANAGER_LOST,
    Event.WORKER,
    Event.LEADERSHIP,
    Event.EXCEPTION,
    Event.FAILURE,
    Event.PROCESS_STOPPED,
    Event.RESOURCE_FAILURE,
    Event.TASK_STUCK,
    Event.SNAPSHOT_FAILED,
    Event.ABORT_NOTIFIED,
    Event.DECLINE_IGNORED,
    Event.BARRIER_DELAYED,
    Event.NETWORK_MEMORY,
    Event.EXTERNAL_FAILURE,
    Event.SERVER,
    Event.OFFSET_RESET,
    Event.PARTITIONS,
    Event.COMMIT_FAILED,
    Event.SLOT_CREATED,
    Event.UPLOAD_INTERRUPTED,
    Event.REFUSED,
    Event.ACKNOWLEDGE_REFUSED,
    Event.CHECKPOINT_CONFIG,
    Event.CHECKPOINT_COUNTS,
    Event.CONFIGURATION,
    Event.GRAPH_CREATED,
    Event.VERTEX,
    Event.EDGE,
    Event.PLACED,
    Event.THREAD,
)
# Parts of a snapshot in DEBUG lines of TaskManagers, REST, archives and dumps.
PARTS: Final = (
    Event.CHECKPOINT_SUBTASK,
    Event.CHECKPOINT_VERTEX,
    Event.ACKNOWLEDGED,
    Event.CHECKPOINT_STARTED,
    Event.SYNCHRONOUS_PART,
    Event.ASYNCHRONOUS_PART,
)
# Records that name an attempt and possibly its task and place.
OF_ATTEMPT: Final = (
    Event.DEPLOYED,
    Event.TASK_STATE,
    Event.TASK_RECEIVED,
    Event.LATE_ACKNOWLEDGEMENT,
    Event.ACKNOWLEDGED,
    Event.CHECKPOINT_DECLINED,
    Event.ACKNOWLEDGE_REFUSED,
)

# Names of the gauges by meaning. Samples are averaged.
LOADS: Final = {
    "busy": ("busyTimeMsPerSecond",),
    "idle": ("idleTimeMsPerSecond",),
    "back_pressured": ("backPressuredTimeMsPerSecond",),
    "is_back_pressured": ("isBackPressured",),
    "input_queue": ("Shuffle.Netty.Input.Buffers.inputQueueLength", "buffers.inputQueueLength"),
    "in_pool_usage": ("Shuffle.Netty.Input.Buffers.inPoolUsage", "buffers.inPoolUsage"),
    "out_pool_usage": ("Shuffle.Netty.Output.Buffers.outPoolUsage", "buffers.outPoolUsage"),
    "alignment_ns": ("checkpointAlignmentTime",),
    "start_delay_ns": ("checkpointStartDelayNanos",),
}
COUNTERS: Final = {
    "records_in": ("numRecordsIn",),
    "records_out": ("numRecordsOut",),
    "bytes_in": ("numBytesIn",),
}
METRICS: Final = frozenset(
    name for names in (*LOADS.values(), *COUNTERS.values()) for name in names
) | {"Status.JVM.CPU.Load", "Status.JVM.GarbageCollector.*.Time"}
"""Metrics to keep: the metrics that the topics measure, and two that identify idle TaskManagers."""


# Columns that no query needs once events are resolved. Each would slow down every query.
_RESOLVED_COLUMNS: Final = (
    "local_us",
    "utc_us",
    "clock",
    "process",
    "scope",
    "operator",
    "metrics",
    "loads",
    "application",
)


_NUMBERS: Final = {name: number for number, name in enumerate(packing.LOADS)}


def _load_columns() -> dict[str, str]:
    """Return the placeholders of `loads.sql`. The columns of each metric end with its number in the table."""
    counters = {key: _NUMBERS[name] for key, (name,) in COUNTERS.items()}
    means = []
    for key, names in LOADS.items():
        numbers = [_NUMBERS[name] for name in names]
        total, n = (_sum_expression(f"sum({column}_{{}})", numbers) for column in ("total", "n"))
        means.append(f"{total} / nullif(1024 * {n}, 0) AS {key}")
    values = [f"loads.`{name}`.count AS n_{number}" for name, number in _NUMBERS.items()]
    # Sums of whole numbers are exact in any order, so repeated runs give the same result.
    values += [
        f"rint(loads.`{name}`.sum * 1024) AS total_{_NUMBERS[name]}"
        for names in LOADS.values()
        for name in names
    ]
    values += [
        f"loads.`{name}`.{value} AS {value}_{_NUMBERS[name]}"
        for (name,) in COUNTERS.values()
        for value in ("first", "last")
    ]
    return {
        "load_values": join_columns(values),
        "load_counts": ", ".join(f"n_{number}" for number in _NUMBERS.values()),
        "samples": ", ".join(f"sum(n_{number})" for number in _NUMBERS.values()),
        "lags": join_columns(
            f"lag(last_{number}) IGNORE NULLS OVER in_order AS before_{number}"
            for number in counters.values()
        ),
        "load_means": join_columns(means),
        "load_increases": join_columns(
            f"{_INCREASE.format(number)} AS {key}" for key, number in counters.items()
        ),
    }


def _sum_expression(term: str, numbers: Sequence[int]) -> str:
    """Return SQL for the sum of terms that may be null.

    >>> _sum_expression("sum(n_{})", [1]), _sum_expression("n_{}", [1, 2])
    ('sum(n_1)', '(coalesce(n_1, 0) + coalesce(n_2, 0))')
    """
    terms = [term.format(number) for number in numbers]
    if len(terms) == 1:
        return terms[0]
    return f"({' + '.join(f'coalesce({each}, 0)' for each in terms)})"


# A counter that falls has restarted at zero. A single sample shows no increase.
_INCREASE: Final = """sum(IF(last_{0} IS NULL OR (before_{0} IS NULL AND n_{0} = 1), NULL, greatest(last_{0} - first_{0}, 0) + CASE
    WHEN before_{0} IS NULL THEN 0 WHEN first_{0} >= before_{0} THEN first_{0} - before_{0}
    ELSE first_{0} END))"""


SQL: Final = Queries(
    "flowdiag.analyses.flink",
    {
        "zero_job": ZERO_JOB,
        "of_checkpoint": sql_literals(*OF_CHECKPOINT),
        "of_attempt": sql_literals(*OF_ATTEMPT),
        "incidents": sql_literals(*INCIDENTS),
        "parts": sql_literals(*PARTS),
        "place": PLACE,
        "first_place": place_struct("min(place)"),
        **_load_columns(),
    },
)


def once(events: DataFrame) -> DataFrame:
    """Drop duplicate records, which come from HA replicas, collected copies of local logs and repeated lines.

    Records are equal if they have the same text at the same instant. TaskManager records must also come from the same
    TaskManager, because they often name no subject. The first record by (source, offset) is kept. Metric rows,
    bookkeeping, and the columns used only to resolve time and owner are left out.
    """
    settled = ", ".join(name for name in events.columns if name not in _RESOLVED_COLUMNS)
    return SQL.run("once", events=events, settled=settled)


def with_runs(events: DataFrame) -> DataFrame:
    """Number the runs of each job and add (job_cluster, run) to checkpoint rows.

    Checkpoint IDs increase within a run, even across failovers. A trigger whose ID is not higher than the ID of
    the previous record starts a new run. A status without a trigger time does not (DEBUG dumps log one
    after the actual trigger). The same trigger has the same timestamp in the log and in a REST response.
    `job_cluster` is empty if job IDs are globally unique.
    """
    return SQL.run("with_runs", events=events)


def checkpoints(lives: DataFrame) -> Part:
    """Return one row per checkpoint from numbered rows, with its trigger and its ends.

    Columns: job_cluster, job_id, run, checkpoint, triggered_us, type. Further columns hold the values of
    the completion line, those of REST (rest_…) and the cause for each kind of end. For each kind of record,
    the earliest one is referenced as (time_us, source, offset).
    """
    return SQL.part("checkpoints", lives=lives)


def attempts(events: DataFrame) -> Part:
    """Return one row per execution attempt: its name, number, place and lifetime.

    The place comes from the deploy line, which contains the attempt ID from Flink 1.12 on. In older logs, the same
    task's transition to DEPLOYING is right above it. Otherwise, the place is the TaskManager whose own log contains
    the attempt, or the TaskManager in a message of the attempt (late, acknowledge, decline, failure).
    """
    return SQL.part("attempts", events=events)


def acknowledgements(lives: DataFrame) -> Part:
    """Return late acknowledgements and declines from numbered rows.

    The driver joins them with checkpoints and attempts when it assembles facts, because it has all three
    by then. In Spark, the two joins would cost more than the rest of the query.

    Returns:
        what (`late` or `decline`), job, run, checkpoint, attempt columns, time_us, cause, source, offset.
    """
    return SQL.part("acknowledgements", lives=lives)


def incidents(events: DataFrame) -> Part:
    """Return the records that rules need individually, including failed tasks and asynchronous parts."""
    return SQL.part("incidents", events=events)


def unreachable(events: DataFrame) -> Part:
    """Return the unreachable servers, one row per process, server and period of ten seconds."""
    return SQL.part("unreachable", events=events)


def parts(events: DataFrame) -> Part:
    """Return the reports of subtasks, one row per (job, checkpoint, subtask, origin).

    DEBUG lines of TaskManagers name a task but no job. REST responses, archives and dumps name a vertex.
    """
    return SQL.part("parts", events=events)


def facts(events: DataFrame) -> list[Part]:
    """Return the queries for the input of `flowdiag.analyses.flink.assemble`, without metrics."""
    lives = cached_frame(with_runs(events))
    return [
        checkpoints(lives),
        attempts(events),
        acknowledgements(lives),
        incidents(events),
        unreachable(events),
        parts(events),
    ]


def placement(events: DataFrame) -> list[Part]:
    """Return the queries for attempts and incidents, without checkpoints."""
    return [attempts(events), incidents(events)]


def loads(
    events: DataFrame,
    spans_us: list[tuple[int, int]] | None,
    width_us: int | None = None,
    *,
    by_id: bool = False,
) -> Part:
    """Return the metrics of subtasks over the given spans, one row per subtask and window.

    Args:
        events: resolved events, of which only metrics in task scope count.
        spans_us: closed intervals; None or empty for the whole input.
        width_us: window length in whole minutes, because metrics are per minute; None for a single window.
        by_id: whether to separate jobs by ID as well, because several have the same name. Metric reports in logs
            contain no ID, so they no longer continue a subtask's REST responses.

    Returns:
        cluster, job_id (None unless `by_id`), job_name, task, subtask_index, taskmanager, host, window, samples, one
        column per key of `LOADS` (mean of the samples) and of `COUNTERS` (increase), first_us, last_us (of the
        samples), ref (source, offset). A counter that restarts counts from zero. If a metric has two names, the
        larger value is the complete one.
    """
    inside, window = _window_expressions(spans_us, width_us)
    job_id = "job_id" if by_id else "CAST(NULL AS STRING)"
    return SQL.part("loads", events=events, inside=inside, window=window, job_id=job_id)


def garbage(
    events: DataFrame, spans_us: list[tuple[int, int]] | None, width_us: int | None = None
) -> Part:
    """Return the garbage collection time over the given spans, one row per TaskManager and window.

    Args:
        events, spans_us, width_us: as in `loads`, but for metrics in TaskManager scope.

    Returns:
        cluster, taskmanager, host, window, gc_ms (of all collectors), span_ms, samples, first_us, last_us
        (of the samples), ref (source, offset).
    """
    inside, window = _window_expressions(spans_us, width_us)
    return SQL.part("garbage", events=events, inside=inside, window=window)


def _window_expressions(
    spans_us: list[tuple[int, int]] | None, width_us: int | None
) -> tuple[str, str]:
    """Return two SQL expressions: whether a metric row is within the spans, and the number of its window."""
    inside = " OR ".join(f"time_us BETWEEN {low} AND {high}" for low, high in spans_us or ())
    return inside or "true", f"time_us DIV {width_us}" if width_us else "0"
