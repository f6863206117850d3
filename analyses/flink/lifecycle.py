"""What the logs say about checkpoints, attempts and incidents, measured with Spark.

Every function takes resolved events (`flowdiag.analyses.flink.clocks.apply`) and returns a DataFrame;
`facts_frame` unites the small results so that one action brings all of them, told apart by `what`. The
queries stand in `sql/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.frames import PLACE, kept, unplaced
from flowdiag.analyses.engine.sql import Queries, lines, words
from flowdiag.analyses.flink.job import ZERO_JOB
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Events that belong to the life of one checkpoint.
OF_CHECKPOINT: Final = (
    Event.CHECKPOINT_TRIGGERED,
    Event.CHECKPOINT_COMPLETED,
    Event.CHECKPOINT_EXPIRED,
    Event.CHECKPOINT_DECLINED,
    Event.CHECKPOINT_DISCARDED,
    Event.CHECKPOINT_FAILED,
    Event.CHECKPOINT_STATUS,
)
# Records that rules want one by one. Those of tasks are restricted to failures below.
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
    Event.RESOURCE_FAILURE,
    Event.TASK_STUCK,
    Event.SNAPSHOT_FAILED,
    Event.ABORT_NOTIFIED,
    Event.DECLINE_IGNORED,
    Event.BARRIER_DELAYED,
    Event.NETWORK_MEMORY,
    Event.EXTERNAL_FAILURE,
    Event.ACKNOWLEDGE_REFUSED,
    Event.CHECKPOINT_CONFIG,
    Event.CHECKPOINT_COUNTS,
    Event.CONFIGURATION,
    Event.GRAPH_CREATED,
    Event.VERTEX,
    Event.EDGE,
    Event.PLACED,
)
# Parts of a snapshot as DEBUG lines of TaskManagers, REST, archives and dumps tell them.
PARTS: Final = (
    Event.CHECKPOINT_SUBTASK,
    Event.CHECKPOINT_VERTEX,
    Event.ACKNOWLEDGED,
    Event.CHECKPOINT_STARTED,
    Event.SYNCHRONOUS_PART,
    Event.ASYNCHRONOUS_PART,
)
# Records that name an attempt and may say what it is and where it runs.
OF_ATTEMPT: Final = (
    Event.DEPLOYED,
    Event.TASK_STATE,
    Event.TASK_RECEIVED,
    Event.LATE_ACKNOWLEDGEMENT,
    Event.ACKNOWLEDGED,
    Event.CHECKPOINT_DECLINED,
    Event.ACKNOWLEDGE_REFUSED,
)

# Names of the gauges by what they mean; the mean of the samples is taken (catalogue/flink.md 5.3).
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
"""What to keep of metric reports: what is measured, and one that tells an idle TaskManager's name."""


# Columns that nobody asks for once events are resolved; each costs every query time.
_SETTLED: Final = ("local_us", "utc_us", "clock", "process", "metric", "application")


def _meanings() -> dict[str, str]:
    """The key of `LOADS` or of `COUNTERS` by the name of a metric."""
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
    """Drop records that stand twice: an HA replica, an aggregated copy beside the local one, a doubled line.

    Two records are the same when they say the same at the same instant, on a TaskManager also of the
    same TaskManager, since its lines often name nobody; the first by (source, offset) is kept. Metric
    rows and bookkeeping are left out, and so are columns that told time and owner, which are settled.
    """
    settled = ", ".join(name for name in events.columns if name not in _SETTLED)
    return SQL.run("once", events=events, settled=settled)


def with_runs(events: DataFrame) -> DataFrame:
    """Number the runs of each job: rows of checkpoints in, the same + (job_cluster, run) out.

    Checkpoint ids grow within a run, over failovers too; a trigger with an id that is not above that of
    the record before it begins a new run. A status that does not say when the checkpoint was triggered
    (DEBUG dumps log one behind the trigger's own) begins none. The same trigger seen in the log and in a
    REST answer carries the same time stamp. `job_cluster` is empty where job ids are unique in the world.
    """
    return SQL.run("with_runs", events=events)


def checkpoints(lives: DataFrame) -> DataFrame:
    """One row per checkpoint from rows with runs: its trigger, its ends and what each of them says.

    Columns: job_cluster, job_id, run, checkpoint, triggered_us, type, what completion prints, what
    REST says (rest_…), the cause that each kind of end names, and per kind of record the earliest
    (time_us, source, offset).
    """
    return SQL.run("checkpoints", lives=lives)


def attempts(events: DataFrame) -> DataFrame:
    """One row per execution attempt: its name, its number, its place, its life.

    The place comes from the deploy line (with the attempt id from 1.12 on; before, the transition to
    DEPLOYING of the same task stands right above it), else from the TaskManager whose own log shows the
    attempt, else from a message of the attempt that names it (late, acknowledge, decline, failure).
    """
    return SQL.run("attempts", events=events)


def acknowledgements(lives: DataFrame) -> DataFrame:
    """Late acknowledgements and declines, as they are told: rows with runs in.

    They are joined with their checkpoints and attempts when facts are assembled, since the driver has
    all three by then: in Spark the two joins cost more than everything else about them.

    Returns:
        what (`late` or `decline`), job, run, checkpoint, attempt columns, time_us, cause, source, offset.
    """
    return SQL.run("acknowledgements", lives=lives)


def incidents(events: DataFrame) -> DataFrame:
    """The records that rules look at one by one, failures of tasks and of asynchronous parts among them."""
    return SQL.run("incidents", events=events)


def parts(events: DataFrame) -> DataFrame:
    """What each subtask reported for each checkpoint: one row per (job, checkpoint, subtask, origin).

    DEBUG lines of TaskManagers name a task and no job; REST, archives and dumps name a vertex.
    """
    return SQL.run("parts", events=events)


def facts_frame(events: DataFrame) -> DataFrame:
    """Everything that `flowdiag.analyses.flink.assemble` needs but metrics, in one frame."""
    lives = kept(with_runs(events))
    return (
        checkpoints(lives)
        .unionByName(attempts(events), allowMissingColumns=True)
        .unionByName(acknowledgements(lives), allowMissingColumns=True)
        .unionByName(incidents(events), allowMissingColumns=True)
        .unionByName(parts(events), allowMissingColumns=True)
    )


def placement_frame(events: DataFrame) -> DataFrame:
    """What ran where, and what happened to it: attempts and incidents without checkpoints."""
    return attempts(events).unionByName(incidents(events), allowMissingColumns=True)


def loads(
    events: DataFrame, spans_us: list[tuple[int, int]] | None, width_us: int | None = None
) -> DataFrame:
    """What each subtask's metrics say over the given spans: one row per subtask and window.

    Args:
        events: resolved events; only rows of metrics in task scope count.
        spans_us: closed intervals in which to look; None or empty for all of the input.
        width_us: length of a window, whole minutes, since metrics come by the minute; None: one window.

    Returns:
        cluster, job_name, task, subtask_index, taskmanager, host, window, samples, one column per key of `LOADS`
        (mean of the samples) and of `COUNTERS` (increase; a counter that restarts counts from zero; where
        a metric is reported under two names the larger is the complete one), first_us, last_us (of the
        samples), ref (source, offset).
    """
    inside, window = _where(spans_us, width_us)
    return SQL.run("loads", events=events, inside=inside, window=window)


def garbage(
    events: DataFrame, spans_us: list[tuple[int, int]] | None, width_us: int | None = None
) -> DataFrame:
    """What garbage collectors took of the time over the given spans: one row per TaskManager and window.

    Args:
        events, spans_us, width_us: as in `loads`; rows of metrics in the scope of a TaskManager count.

    Returns:
        cluster, taskmanager, host, window, gc_ms (of all collectors), span_ms, samples, first_us, last_us
        (of the samples), ref (source, offset).
    """
    inside, window = _where(spans_us, width_us)
    return SQL.run("garbage", events=events, inside=inside, window=window)


def _where(spans_us: list[tuple[int, int]] | None, width_us: int | None) -> tuple[str, str]:
    """Whether a row of a metric lies in some spans, and the number of its window, for a query."""
    inside = " OR ".join(f"time_us BETWEEN {low} AND {high}" for low, high in spans_us or ())
    return inside or "true", f"time_us DIV {width_us}" if width_us else "0"
