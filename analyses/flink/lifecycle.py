"""Checkpoints, attempts and incidents in the logs, measured with Spark.

Every function takes resolved events (`flowdiag.analyses.flink.clocks.apply`) and returns a query.
`facts` are the queries with small results, tagged by `what`, which one action collects. The
queries are in `sql/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.frames import PLACE, kept, unplaced
from flowdiag.analyses.engine.sql import Part, Queries, lines, words
from flowdiag.analyses.flink.job import ZERO_JOB
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Events in the life of one checkpoint.
OF_CHECKPOINT: Final = (
    Event.CHECKPOINT_TRIGGERED,
    Event.CHECKPOINT_COMPLETED,
    Event.CHECKPOINT_EXPIRED,
    Event.CHECKPOINT_DECLINED,
    Event.CHECKPOINT_DISCARDED,
    Event.CHECKPOINT_FAILED,
    Event.CHECKPOINT_STATUS,
)
# Records that rules need one by one. The queries limit those of tasks to failures.
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
# Records that name an attempt, and perhaps its task and place.
OF_ATTEMPT: Final = (
    Event.DEPLOYED,
    Event.TASK_STATE,
    Event.TASK_RECEIVED,
    Event.LATE_ACKNOWLEDGEMENT,
    Event.ACKNOWLEDGED,
    Event.CHECKPOINT_DECLINED,
    Event.ACKNOWLEDGE_REFUSED,
)

# Names of the gauges by meaning; the mean of their samples counts (catalogue/flink.md 5.3).
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
"""Metrics to keep: the measured ones, and two that identify an idle TaskManager."""


# Columns that no query needs once events are resolved; each of them costs every query time.
_RESOLVED_COLUMNS: Final = ("local_us", "utc_us", "clock", "process", "metric", "application")


def _meanings() -> dict[str, str]:
    """Return the key in `LOADS` or `COUNTERS` for each metric name."""
    return {name: key for key, names in {**LOADS, **COUNTERS}.items() for name in names}


SQL: Final = Queries(
    "flowdiag.analyses.flink",
    {
        "zero_job": ZERO_JOB,
        "of_checkpoint": words(*OF_CHECKPOINT),
        "of_attempt": words(*OF_ATTEMPT),
        "incidents": words(*INCIDENTS),
        "parts": words(*PARTS),
        "place": PLACE,
        "first_place": unplaced("min(place)"),
        "load_names": words(*_meanings()),
        "load_keys": " ".join(f"WHEN '{name}' THEN '{key}'" for name, key in _meanings().items()),
        "load_means": lines(
            f"sum(total) FILTER (WHERE key = '{key}') / sum(n) FILTER (WHERE key = '{key}') AS {key}"
            for key in LOADS
        ),
        "counters": words(*COUNTERS),
        "load_increases": lines(
            f"max(increase) FILTER (WHERE key = '{key}') AS {key}" for key in COUNTERS
        ),
    },
)


def once(events: DataFrame) -> DataFrame:
    """Drop duplicate records: HA replicas, aggregated copies in addition to local logs, repeated lines.

    Records are equal if they have the same text at the same instant. TaskManager records must also come
    from the same TaskManager, because their lines often name no subject. The first by (source, offset)
    is kept. Metric rows, bookkeeping, and columns that only served to resolve time and owner are left
    out.
    """
    settled = ", ".join(name for name in events.columns if name not in _RESOLVED_COLUMNS)
    return SQL.run("once", events=events, settled=settled)


def with_runs(events: DataFrame) -> DataFrame:
    """Number the runs of each job: add (job_cluster, run) to rows of checkpoints.

    Checkpoint ids grow within a run, across failovers, too. A trigger whose id is not above that of the
    previous record starts a new run. A status without a trigger time starts none (DEBUG dumps log one
    after the trigger's own). The same trigger has the same timestamp in the log and in a REST response.
    `job_cluster` is empty if job ids are globally unique.
    """
    return SQL.run("with_runs", events=events)


def checkpoints(lives: DataFrame) -> Part:
    """Return one row per checkpoint from rows with runs: its trigger and its ends.

    Columns: job_cluster, job_id, run, checkpoint, triggered_us, type. Further columns hold the values of
    the completion line, those of REST (rest_…) and the cause in each kind of end. Each kind of record has
    its earliest (time_us, source, offset).
    """
    return SQL.part("checkpoints", lives=lives)


def attempts(events: DataFrame) -> Part:
    """Return one row per execution attempt: its name, number, place and lifetime.

    The place comes from the deploy line. This contains the attempt id from 1.12; before, the transition
    of the same task to DEPLOYING is right above it. Otherwise it is the TaskManager whose own log
    contains the attempt, or that in a message of the attempt (late, acknowledge, decline, failure).
    """
    return SQL.part("attempts", events=events)


def acknowledgements(lives: DataFrame) -> Part:
    """Return late acknowledgements and declines from rows with runs.

    The driver joins them with checkpoints and attempts when it assembles facts, because it has all three
    by then. In Spark the two joins cost more than the rest of the query.

    Returns:
        what (`late` or `decline`), job, run, checkpoint, attempt columns, time_us, cause, source, offset.
    """
    return SQL.part("acknowledgements", lives=lives)


def incidents(events: DataFrame) -> Part:
    """Return the records that rules need one by one, including failed tasks and asynchronous parts."""
    return SQL.part("incidents", events=events)


def unreachable(events: DataFrame) -> Part:
    """Return the servers that clients cannot reach: one row per process, server and ten seconds."""
    return SQL.part("unreachable", events=events)


def parts(events: DataFrame) -> Part:
    """Return the reports of subtasks: one row per (job, checkpoint, subtask, origin).

    DEBUG lines of TaskManagers name a task but no job; REST, archives and dumps name a vertex.
    """
    return SQL.part("parts", events=events)


def facts(events: DataFrame) -> list[Part]:
    """Return the queries for the input of `flowdiag.analyses.flink.assemble`, without metrics."""
    lives = kept(with_runs(events))
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
    """Return the metrics of subtasks over the given spans: one row per subtask and window.

    Args:
        events: resolved events; only rows of metrics in task scope count.
        spans_us: closed intervals; None or empty for all of the input.
        width_us: length of a window in whole minutes, because metrics are per minute; None: one window.
        by_id: whether to tell jobs apart by their IDs as well, because several have the same name. Reports in logs
            contain no ID, so those of a subtask no longer continue its REST responses.

    Returns:
        cluster, job_id (None unless `by_id`), job_name, task, subtask_index, taskmanager, host, window, samples, one column per key of
        `LOADS` (mean of the samples) and of `COUNTERS` (increase), first_us, last_us (of the samples),
        ref (source, offset). A counter that restarts counts from zero. Of a metric with two names, the
        larger one is complete.
    """
    inside, window = _where(spans_us, width_us)
    job_id = "job_id" if by_id else "CAST(NULL AS STRING)"
    return SQL.part("loads", events=events, inside=inside, window=window, job_id=job_id)


def garbage(
    events: DataFrame, spans_us: list[tuple[int, int]] | None, width_us: int | None = None
) -> Part:
    """Return the time in garbage collection over the given spans: one row per TaskManager and window.

    Args:
        events, spans_us, width_us: as in `loads`; rows of metrics in the scope of a TaskManager count.

    Returns:
        cluster, taskmanager, host, window, gc_ms (of all collectors), span_ms, samples, first_us, last_us
        (of the samples), ref (source, offset).
    """
    inside, window = _where(spans_us, width_us)
    return SQL.part("garbage", events=events, inside=inside, window=window)


def _where(spans_us: list[tuple[int, int]] | None, width_us: int | None) -> tuple[str, str]:
    """Return SQL expressions: whether a metric row is within the spans, and the number of its window."""
    inside = " OR ".join(f"time_us BETWEEN {low} AND {high}" for low, high in spans_us or ())
    return inside or "true", f"time_us DIV {width_us}" if width_us else "0"
