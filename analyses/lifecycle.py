"""What the logs say about checkpoints, attempts and incidents, measured with Spark.

Every function takes resolved events (`flowdiag.analyses.resolve`) and returns a DataFrame; `facts_frame`
unites the small results so that one action brings all of them, told apart by `what`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.resolve import ZERO_JOB
from flowdiag.parsers.schema import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
# A trigger begins a checkpoint; a status from REST repeats the trigger with its time stamp.
TRIGGERS: Final = (Event.CHECKPOINT_TRIGGERED, Event.CHECKPOINT_STATUS)

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
    Event.CHECKPOINT_ID_RESET,
    Event.SCHEDULER_SWITCHED,
    Event.REQUEST_IN_QUEUE,
    Event.TASKMANAGER_REGISTERED,
    Event.TASKMANAGER_LOST,
    Event.WORKER,
    Event.LEADERSHIP,
    Event.RESOURCE_FAILURE,
    Event.TASK_STUCK,
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


def once(events: DataFrame) -> DataFrame:
    """Drop records that stand twice: an HA replica, an aggregated copy beside the local one, a doubled line.

    Two records are the same when they say the same at the same instant; the first by (source, offset) is
    kept. Metric rows and bookkeeping are left out.
    """
    from pyspark.sql import functions as F

    said = [
        "event",
        "time_us",
        "shown_us",
        "job_id",
        "checkpoint",
        "attempt_id",
        "task",
        "vertex_id",
        "subtask_index",
        "epoch_ms",
        "from_state",
        "to_state",
        "taskmanager",
        "host",
        "duration_ms",
        "bytes",
        "cause",
    ]
    digest = F.xxhash64(*said, F.to_json("fields"))
    return (
        events.where(~F.col("event").isin(Event.METRIC.value, Event.SPLIT.value, Event.KNOWN.value))
        .groupBy("event", digest.alias("digest"))
        .agg(F.min_by(F.struct(*events.columns), F.struct("source", "offset")).alias("row"))
        .select("row.*")
    )


def job_key() -> Column:
    """The cluster where job ids may repeat, the empty string where they are unique in the world."""
    from pyspark.sql import functions as F

    repeats = F.col("job_id").isin("", ZERO_JOB) | F.col("job_id").isNull()
    return F.when(repeats, F.col("cluster")).otherwise(F.lit(""))


def with_runs(events: DataFrame) -> DataFrame:
    """Number the runs of each job: rows of checkpoints in, the same + (job_cluster, run) out.

    Checkpoint ids grow within a run, over failovers too; a trigger with an id that is not above that of
    the record before it begins a new run. Ordered by the trigger time stamp where there is one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keyed = events.withColumn("job_cluster", job_key()).withColumn(
        "at_us", F.coalesce(F.col("epoch_ms") * 1000, F.col("time_us"))
    )
    in_order = Window.partitionBy("job_cluster", "job_id").orderBy(
        F.col("at_us").asc_nulls_first(), "source", "offset"
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_trigger = F.col("event").isin(*[event.value for event in TRIGGERS])
    # The same trigger seen in the log and in a REST answer carries the same time stamp.
    again = (
        is_trigger
        & (F.col("checkpoint") <= F.lag("checkpoint", 1).over(in_order))
        & ~F.col("epoch_ms").eqNullSafe(F.lag("epoch_ms", 1).over(in_order))
    )
    return (
        keyed.withColumn("again", F.coalesce(again.cast("int"), F.lit(0)))
        .withColumn("run", F.sum("again").over(so_far).cast("int") + 1)
        .drop("again", "at_us")
    )


def checkpoints(events: DataFrame) -> DataFrame:
    """One row per checkpoint from rows with runs: its trigger, its ends and what each of them says.

    Columns: job_cluster, job_id, run, checkpoint, triggered_us, type, completed_us, duration_ms,
    finalization_ms, bytes, expired_us, declined_us, failed_us, discarded_us, reason, rest_status,
    rest_reason, acknowledged, subtasks, and the (source, offset) of the trigger and of each end.
    """
    from pyspark.sql import functions as F

    def when(*kinds: Event) -> Column:
        return F.col("event").isin(*[kind.value for kind in kinds])

    def first(kind: Event, value: str | Column) -> Column:
        column = F.col(value) if isinstance(value, str) else value
        return F.min_by(
            F.when(when(kind), column), F.when(when(kind), F.struct("time_us", "offset"))
        )

    def ref(*kinds: Event) -> Column:
        return F.min(F.when(when(*kinds), F.struct("time_us", "source", "offset")))

    status = Event.CHECKPOINT_STATUS
    triggered_ms = F.max(F.when(when(*TRIGGERS), F.col("epoch_ms")))
    return (
        events.where(F.col("event").isin(*[event.value for event in OF_CHECKPOINT]))
        .where(F.col("checkpoint").isNotNull())
        .groupBy("job_cluster", "job_id", "run", "checkpoint")
        .agg(
            F.lit("checkpoint").alias("what"),
            F.min("cluster").alias("cluster"),
            F.coalesce(
                triggered_ms * 1000,
                F.min(F.when(when(Event.CHECKPOINT_TRIGGERED), F.col("time_us"))),
            ).alias("triggered_us"),
            first(Event.CHECKPOINT_TRIGGERED, F.col("fields")["type"]).alias("type"),
            F.min(F.when(when(status), F.col("fields")["type"])).alias("rest_type"),
            F.min(F.when(when(status), F.col("fields")["is_savepoint"])).alias("rest_savepoint"),
            F.max(F.when(when(status), F.col("fields")["status"])).alias("rest_status"),
            F.max(F.when(when(status), F.col("cause"))).alias("rest_reason"),
            F.max(F.when(when(status), F.col("duration_ms"))).alias("rest_duration_ms"),
            F.max(F.when(when(status), F.col("bytes"))).alias("rest_bytes"),
            F.max(
                F.when(when(status), F.col("fields")["num_acknowledged_subtasks"].cast("int"))
            ).alias("acknowledged"),
            F.max(F.when(when(status), F.col("fields")["num_subtasks"].cast("int"))).alias(
                "subtasks"
            ),
            first(Event.CHECKPOINT_COMPLETED, "duration_ms").alias("duration_ms"),
            first(Event.CHECKPOINT_COMPLETED, F.col("fields")["finalization_ms"])
            .cast("long")
            .alias("finalization_ms"),
            first(Event.CHECKPOINT_COMPLETED, "bytes").alias("bytes"),
            F.max(F.when(when(Event.CHECKPOINT_FAILED), F.col("cause"))).alias("failed_cause"),
            F.max(F.when(when(Event.CHECKPOINT_DISCARDED), F.col("cause"))).alias(
                "discarded_cause"
            ),
            first(Event.CHECKPOINT_DECLINED, "cause").alias("declined_cause"),
            ref(Event.CHECKPOINT_TRIGGERED).alias("trigger"),
            ref(status).alias("status_record"),
            ref(Event.CHECKPOINT_COMPLETED).alias("completed"),
            ref(Event.CHECKPOINT_EXPIRED).alias("expired"),
            ref(Event.CHECKPOINT_DECLINED).alias("declined"),
            ref(Event.CHECKPOINT_FAILED).alias("failed"),
            ref(Event.CHECKPOINT_DISCARDED).alias("discarded"),
        )
    )


def attempts(events: DataFrame) -> DataFrame:
    """One row per execution attempt: its name, its number, its place, its life.

    The place comes from the deploy line (with the attempt id from 1.12 on; before, the transition to
    DEPLOYING of the same task stands right above it), else from the TaskManager whose own log shows the
    attempt, else from a message of the attempt that names it (late, acknowledge, decline, failure).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    deployed = F.col("event") == Event.DEPLOYED.value
    transition = F.col("event") == Event.TASK_STATE.value
    to_deploying = transition & (F.col("to_state") == "DEPLOYING")
    relevant = events.where(
        F.col("event").isin(
            Event.DEPLOYED.value,
            Event.TASK_STATE.value,
            Event.TASK_RECEIVED.value,
            Event.LATE_ACKNOWLEDGEMENT.value,
            Event.ACKNOWLEDGED.value,
            Event.CHECKPOINT_DECLINED.value,
            Event.ACKNOWLEDGE_REFUSED.value,
        )
    )
    same_task = Window.partitionBy(
        "source", "owner", "task", "subtask_index", "parallelism"
    ).orderBy("offset")
    so_far = same_task.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    named = relevant.withColumn(
        "attempt_id",
        F.coalesce(
            "attempt_id",
            F.when(
                deployed,
                F.last(F.when(to_deploying, F.col("attempt_id")), ignorenulls=True).over(so_far),
            ),
        ),
    ).where(F.col("attempt_id").isNotNull())
    on_taskmanager = (F.col("role") == "taskmanager") & F.col("event").isin(
        Event.TASK_STATE.value, Event.TASK_RECEIVED.value
    )
    place = F.when(
        deployed, F.struct(F.lit(0).alias("rank"), "taskmanager", "host", "source", "offset")
    )
    own = F.when(
        on_taskmanager & F.coalesce("writer_taskmanager", "writer_host").isNotNull(),
        F.struct(
            F.lit(1).alias("rank"),
            F.col("writer_taskmanager").alias("taskmanager"),
            F.col("writer_host").alias("host"),
            "source",
            "offset",
        ),
    )
    told = F.when(
        ~on_taskmanager & F.coalesce("taskmanager", "host").isNotNull(),
        F.struct(F.lit(2).alias("rank"), "taskmanager", "host", "source", "offset"),
    )
    name = F.when(
        F.col("task").isNotNull(),
        F.struct("source", "offset", "task", "subtask_index", "parallelism"),
    )
    ended = F.col("to_state").isin("FINISHED", "CANCELED", "FAILED")
    return (
        named.groupBy("attempt_id")
        .agg(
            F.lit("attempt").alias("what"),
            F.min(name).alias("name"),
            F.min(F.coalesce(place, own, told)).alias("place"),
            F.min("vertex_id").alias("vertex_id"),
            F.min(F.when(F.col("task").isNull(), F.col("subtask_index"))).alias("id_subtask_index"),
            F.max("attempt").alias("attempt"),
            F.min(F.when(~transition | (F.col("role") != "taskmanager"), F.col("job_id"))).alias(
                "job_id"
            ),
            F.min(F.when(deployed | to_deploying, F.col("time_us"))).alias("deployed_us"),
            F.min("time_us").alias("first_us"),
            F.max(F.when(transition & ended, F.col("time_us"))).alias("ended_us"),
            F.max_by(
                F.when(transition, F.col("to_state")),
                F.when(transition, F.struct("time_us", "offset")),
            ).alias("to_state"),
            F.min(F.when(F.col("role") == "jobmanager", F.struct("source", "owner"))).alias(
                "jobmanager"
            ),
            F.min("cluster").alias("cluster"),
        )
        .select(
            "what",
            "attempt_id",
            F.col("name.task").alias("task"),
            F.coalesce("name.subtask_index", "id_subtask_index").alias("subtask_index"),
            F.col("name.parallelism").alias("parallelism"),
            "vertex_id",
            "attempt",
            F.col("place.taskmanager").alias("taskmanager"),
            F.col("place.host").alias("host"),
            F.coalesce("place.source", "name.source").alias("source"),
            F.coalesce("place.offset", "name.offset").alias("offset"),
            "job_id",
            "deployed_us",
            "first_us",
            "ended_us",
            "to_state",
            F.col("jobmanager.source").alias("jobmanager_source"),
            F.col("jobmanager.owner").alias("jobmanager_owner"),
            "cluster",
        )
    )


def acknowledgements(events: DataFrame, checkpoints: DataFrame, attempts: DataFrame) -> DataFrame:
    """Late acknowledgements and declines, placed: each joined with its checkpoint and its attempt.

    Args:
        events: rows with runs.
        checkpoints: of `checkpoints`.
        attempts: of `attempts`.

    Returns:
        what (`late` or `decline`), job, run, checkpoint, attempt columns, time_us, triggered_us,
        expired_us, cause, source, offset. Ids that do not join keep nulls; nothing is guessed.
    """
    from pyspark.sql import functions as F

    said = (
        events.where(
            F.col("event").isin(Event.LATE_ACKNOWLEDGEMENT.value, Event.CHECKPOINT_DECLINED.value)
        )
        .select(
            F.when(F.col("event") == Event.LATE_ACKNOWLEDGEMENT.value, F.lit("late"))
            .otherwise(F.lit("decline"))
            .alias("what"),
            "job_cluster",
            "job_id",
            "run",
            "checkpoint",
            "attempt_id",
            "taskmanager",
            "host",
            "vertex_id",
            "task",
            "subtask_index",
            "attempt",
            "time_us",
            "cause",
            "source",
            "offset",
        )
        .alias("s")
    )
    ends = checkpoints.select(
        "job_cluster",
        "job_id",
        "run",
        "checkpoint",
        "triggered_us",
        F.col("expired.time_us").alias("expired_us"),
    ).alias("c")
    who = attempts.select(
        "attempt_id",
        "task",
        "subtask_index",
        "parallelism",
        "vertex_id",
        "attempt",
        "taskmanager",
        "host",
    ).alias("a")
    same_checkpoint = (
        (F.col("s.job_cluster") == F.col("c.job_cluster"))
        & F.col("s.job_id").eqNullSafe(F.col("c.job_id"))
        & (F.col("s.run") == F.col("c.run"))
        & (F.col("s.checkpoint") == F.col("c.checkpoint"))
    )
    return (
        said.join(ends, on=same_checkpoint, how="left")
        .join(who, on=F.col("s.attempt_id") == F.col("a.attempt_id"), how="left")
        .select(
            "s.what",
            "s.job_cluster",
            "s.job_id",
            "s.run",
            "s.checkpoint",
            "s.attempt_id",
            F.coalesce("a.task", "s.task").alias("task"),
            F.coalesce("a.subtask_index", "s.subtask_index").alias("subtask_index"),
            "a.parallelism",
            F.coalesce("a.vertex_id", "s.vertex_id").alias("vertex_id"),
            F.coalesce("a.attempt", "s.attempt").alias("attempt"),
            F.coalesce("s.taskmanager", "a.taskmanager").alias("taskmanager"),
            F.coalesce("s.host", "a.host").alias("host"),
            "s.time_us",
            "c.triggered_us",
            "c.expired_us",
            "s.cause",
            "s.source",
            "s.offset",
        )
    )


def incidents(events: DataFrame) -> DataFrame:
    """The records that rules look at one by one, and failures of tasks."""
    from pyspark.sql import functions as F

    failed = (F.col("event") == Event.TASK_STATE.value) & (F.col("to_state") == "FAILED")
    placed = F.col("event") == Event.PLACED.value
    asynchronous = (F.col("event") == Event.ASYNCHRONOUS_PART.value) & (
        F.col("level").isin("INFO", "WARN", "ERROR") | F.col("cause").isNotNull()
    )
    return events.where(
        F.col("event").isin(*[event.value for event in INCIDENTS]) | failed | placed | asynchronous
    ).select(
        F.lit("incident").alias("what"),
        "event",
        "template",
        "source",
        "offset",
        "owner",
        "time_us",
        "role",
        "level",
        "logger",
        "thread",
        "cluster",
        "job_id",
        "job_name",
        "vertex_id",
        "task",
        "subtask_index",
        "parallelism",
        "attempt_id",
        "attempt",
        F.coalesce("taskmanager", "writer_taskmanager").alias("taskmanager"),
        F.coalesce("host", "writer_host").alias("host"),
        "checkpoint",
        "duration_ms",
        "bytes",
        "from_state",
        "to_state",
        "cause",
        "fields",
    )


def parts(events: DataFrame) -> DataFrame:
    """What each subtask reported for each checkpoint: one row per (job, checkpoint, subtask, source kind).

    DEBUG lines of TaskManagers name a task and no job; REST, archives and dumps name a vertex.
    """
    from pyspark.sql import functions as F

    kinds = [event.value for event in PARTS]
    debug = ~F.col("event").isin(Event.CHECKPOINT_SUBTASK.value, Event.CHECKPOINT_VERTEX.value)
    return (
        events.where(F.col("event").isin(*kinds) & F.col("checkpoint").isNotNull())
        .groupBy(
            "job_id",
            "checkpoint",
            "vertex_id",
            "task",
            "subtask_index",
            F.when(debug, F.col("attempt_id")).alias("attempt_id"),
            F.when(debug, F.lit("debug"))
            .otherwise(F.coalesce(F.col("fields")["origin"], F.lit("rest")))
            .alias("origin"),
        )
        .agg(
            F.lit("part").alias("what"),
            F.max("parallelism").alias("parallelism"),
            F.max("duration_ms").alias("duration_ms"),
            F.max("bytes").alias("bytes"),
            F.max("taskmanager").alias("taskmanager"),
            F.max("host").alias("host"),
            F.max("writer_taskmanager").alias("writer_taskmanager"),
            F.min("time_us").alias("time_us"),
            F.sort_array(F.collect_set("event")).alias("events"),
            F.max_by("fields", F.struct("time_us", "source", "offset")).alias("fields"),
            F.max(
                F.when(F.col("event") == Event.SYNCHRONOUS_PART.value, F.col("duration_ms"))
            ).alias("sync_ms"),
            F.max(
                F.when(
                    F.col("event") == Event.SYNCHRONOUS_PART.value,
                    F.col("fields")["alignment_ms"].cast("long"),
                )
            ).alias("alignment_ms"),
            F.max(
                F.when(F.col("event") == Event.ASYNCHRONOUS_PART.value, F.col("duration_ms"))
            ).alias("async_ms"),
            F.min(F.struct("source", "offset")).alias("ref"),
        )
        .select("*", F.col("ref.source").alias("source"), F.col("ref.offset").alias("offset"))
        .drop("ref")
    )


def facts_frame(events: DataFrame) -> DataFrame:
    """Everything that `flowdiag.analyses.assemble` needs but metrics, in one frame."""
    from pyspark.sql import functions as F

    kinds = [*[event.value for event in OF_CHECKPOINT], Event.LATE_ACKNOWLEDGEMENT.value]
    lives = with_runs(events.where(F.col("event").isin(*kinds) & F.col("checkpoint").isNotNull()))
    ends = checkpoints(lives)
    places = attempts(events)
    return (
        ends.unionByName(places, allowMissingColumns=True)
        .unionByName(acknowledgements(lives, ends, places), allowMissingColumns=True)
        .unionByName(incidents(events), allowMissingColumns=True)
        .unionByName(parts(events), allowMissingColumns=True)
    )


# Names of the gauges by what they mean; later Flink versions first (catalogue/flink.md 5.3).
LOADS: Final = {
    "busy": ("busyTimeMsPerSecond",),
    "idle": ("idleTimeMsPerSecond",),
    "back_pressured": ("backPressuredTimeMsPerSecond",),
    "is_back_pressured": ("isBackPressured",),
    "input_queue": (
        "Shuffle.Netty.Input.Buffers.inputQueueLength",
        "buffers.inputQueueLength",
    ),
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


def loads(events: DataFrame, spans_us: list[tuple[int, int]] | None) -> DataFrame:
    """What each subtask's metrics say over the given spans: one row per subtask.

    Args:
        events: resolved events; only rows of metrics in task scope count.
        spans_us: closed intervals in which to look; None for all of the input.

    Returns:
        job_name, task, subtask_index, taskmanager, host, samples, one column per key of `LOADS` (mean of
        the samples) and of `COUNTERS` (increase; a counter that restarts counts from zero).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    wanted = {name: key for key, names in {**LOADS, **COUNTERS}.items() for name in names}
    mapping = F.create_map(*[F.lit(item) for pair in wanted.items() for item in pair])
    inside = F.lit(True)
    if spans_us:
        inside = F.lit(False)
        for low, high in spans_us:
            inside = inside | F.col("time_us").between(low, high)
    subtask = ["job_name", "task", "subtask_index", "taskmanager", "host"]
    rows = (
        events.where((F.col("event") == Event.METRIC.value) & F.col("subtask_index").isNotNull())
        .where(F.col("metric.scope") == "task")
        .where(F.col("metric.name").isin(*wanted) & (F.col("metric.count") > 0) & inside)
        .select(
            *subtask,
            "time_us",
            "source",
            "offset",
            mapping[F.col("metric.name")].alias("key"),
            "metric.*",
        )
        .drop("kind", "scope", "operator", "min", "max")
    )
    series = Window.partitionBy(*subtask, "name").orderBy("time_us", "source", "offset")
    before = F.lag("last", 1).over(series)
    rows = rows.withColumn(
        "increase",
        F.greatest(F.col("last") - F.col("first"), F.lit(0.0))
        + F.when(before.isNull(), F.lit(0.0))
        .when(F.col("first") >= before, F.col("first") - before)
        .otherwise(F.col("first")),
    )

    def mean(key: str) -> Column:
        mine = F.col("key") == key
        return (F.sum(F.when(mine, F.col("sum"))) / F.sum(F.when(mine, F.col("count")))).alias(key)

    def increase(key: str) -> Column:
        # The same metric may be reported under two names: the larger one is the complete one.
        return F.max(F.when(F.col("key") == key, F.col("total"))).alias(key)

    totals = rows.groupBy(*subtask, "key", "name").agg(
        F.sum("increase").alias("total"),
        F.sum("sum").alias("sum"),
        F.sum("count").alias("count"),
        F.min(F.struct("source", "offset")).alias("ref"),
    )
    return totals.groupBy(*subtask).agg(
        F.lit("load").alias("what"),
        F.max("count").alias("samples"),
        *[mean(key) for key in LOADS],
        *[increase(key) for key in COUNTERS],
        F.min("ref").alias("ref"),
    )
