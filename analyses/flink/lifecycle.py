"""What the logs say about checkpoints, attempts and incidents, measured with Spark.

Every function takes resolved events (`flowdiag.analyses.flink.clocks.settle`) and returns a DataFrame; `facts_frame`
unites the small results so that one action brings all of them, told apart by `what`. The queries are
SQL text, since building them from `Column` objects takes a call into the JVM for every operator: six
thousand of them, a good second of a run that should last three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.engine.frames import PLACE, kept, unplaced
from flowdiag.analyses.flink.clocks.settle import ZERO_JOB
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
) | {"Status.JVM.CPU.Load"}
"""What to keep of metric reports: what `loads` measures, and one that tells an idle TaskManager's name."""


# Columns that nobody asks for once events are resolved; each costs every query time.
_SETTLED: Final = ("local_us", "utc_us", "clock", "process", "metric", "application")


def _in(*events: Event) -> str:
    """A list of event kinds for SQL."""
    return "(" + ", ".join(f"'{event.value}'" for event in events) + ")"


def _query(text: str, **frames: DataFrame) -> DataFrame:
    """Run one SQL text over frames that it names in braces."""
    spark = next(iter(frames.values())).sparkSession
    named: dict[str, Any] = dict(frames)
    return spark.sql(text, **named)


def once(events: DataFrame) -> DataFrame:
    """Drop records that stand twice: an HA replica, an aggregated copy beside the local one, a doubled line.

    Two records are the same when they say the same at the same instant, on a TaskManager also of the
    same TaskManager, since its lines often name nobody; the first by (source, offset) is kept. Metric
    rows and bookkeeping are left out, and so are columns that told time and owner, which are settled.
    """
    wanted = ", ".join(name for name in events.columns if name not in _SETTLED)
    return _query(
        f"""
        SELECT row.* FROM (
          SELECT min_by(struct({wanted}), struct(source, offset)) AS row
          FROM {{events}}
          WHERE event NOT IN {_in(Event.METRIC, Event.SPLIT, Event.KNOWN)}
          GROUP BY event, xxhash64(
            time_us, shown_us, job_id, checkpoint, attempt_id, task, vertex_id, subtask_index, epoch_ms,
            from_state, to_state, taskmanager, host, duration_ms, bytes, cause, map_entries(fields),
            IF(role = 'taskmanager', coalesce(writer_taskmanager, concat_ws(':', source, owner)), NULL))
        )
        """,
        events=events,
    )


def with_runs(events: DataFrame) -> DataFrame:
    """Number the runs of each job: rows of checkpoints in, the same + (job_cluster, run) out.

    Checkpoint ids grow within a run, over failovers too; a trigger with an id that is not above that of
    the record before it begins a new run. A status that does not say when the checkpoint was triggered
    (DEBUG dumps log one behind the trigger's own) begins none. The same trigger seen in the log and in a
    REST answer carries the same time stamp. `job_cluster` is empty where job ids are unique in the world.
    """
    return _query(
        f"""
        WITH keyed AS (
          SELECT *,
            IF(coalesce(job_id, '') IN ('', '{ZERO_JOB}'), cluster, '') AS job_cluster,
            coalesce(epoch_ms * 1000, time_us) AS at_us
          FROM {{events}}
          WHERE event IN {_in(*OF_CHECKPOINT, Event.LATE_ACKNOWLEDGEMENT)} AND checkpoint IS NOT NULL
        ), begun AS (
          SELECT *,
            coalesce(event IN {_in(*TRIGGERS)}
              AND (event = '{Event.CHECKPOINT_TRIGGERED}' OR epoch_ms IS NOT NULL)
              AND checkpoint <= lag(checkpoint) OVER in_order
              AND NOT epoch_ms <=> lag(epoch_ms) OVER in_order, false) AS again
          FROM keyed
          WINDOW in_order AS (
            PARTITION BY job_cluster, job_id ORDER BY at_us ASC NULLS FIRST, source, offset)
        )
        SELECT * EXCEPT (again, at_us),
          1 + count_if(again) OVER (
            PARTITION BY job_cluster, job_id ORDER BY at_us ASC NULLS FIRST, source, offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
        FROM begun
        """,
        events=events,
    )


def checkpoints(lives: DataFrame) -> DataFrame:
    """One row per checkpoint from rows with runs: its trigger, its ends and what each of them says.

    Columns: job_cluster, job_id, run, checkpoint, triggered_us, type, what completion prints, what
    REST says (rest_…), the cause that each kind of end names, and per kind of record the earliest
    (time_us, source, offset).
    """

    def where(*events: Event) -> str:
        return f"FILTER (WHERE event IN {_in(*events)})"

    def earliest(*events: Event) -> str:
        return f"min(struct(time_us, source, offset)) {where(*events)}"

    completed, status = where(Event.CHECKPOINT_COMPLETED), where(Event.CHECKPOINT_STATUS)
    return _query(
        f"""
        SELECT 'checkpoint' AS what, job_cluster, job_id, run, checkpoint,
          min(cluster) AS cluster,
          coalesce(max(epoch_ms) {where(*TRIGGERS)} * 1000,
                   min(time_us) {where(Event.CHECKPOINT_TRIGGERED)}) AS triggered_us,
          min(fields['type']) {where(Event.CHECKPOINT_TRIGGERED)} AS type,
          min(duration_ms) {completed} AS duration_ms,
          min(CAST(fields['finalization_ms'] AS LONG)) {completed} AS finalization_ms,
          min(bytes) {completed} AS bytes,
          min(fields['type']) {status} AS rest_type,
          min(fields['is_savepoint']) {status} AS rest_savepoint,
          max_by(fields['status'], fields['status'] <> 'IN_PROGRESS') {status} AS rest_status,
          max(cause) {status} AS rest_reason,
          max(duration_ms) {status} AS rest_duration_ms,
          max(bytes) {status} AS rest_bytes,
          max(CAST(fields['failure_ms'] AS LONG)) {status} AS rest_failure_ms,
          max(CAST(fields['num_acknowledged_subtasks'] AS INT)) {status} AS acknowledged,
          max(CAST(fields['num_subtasks'] AS INT)) {status} AS subtasks,
          max(cause) {where(Event.CHECKPOINT_FAILED)} AS failed_cause,
          max(cause) {where(Event.CHECKPOINT_DISCARDED)} AS discarded_cause,
          min_by(cause, struct(time_us, source, offset)) {where(Event.CHECKPOINT_DECLINED)}
            AS declined_cause,
          {earliest(Event.CHECKPOINT_TRIGGERED)} AS trigger,
          {earliest(Event.CHECKPOINT_STATUS)} AS status_record,
          {earliest(Event.CHECKPOINT_COMPLETED)} AS completed,
          {earliest(Event.CHECKPOINT_EXPIRED)} AS expired,
          {earliest(Event.CHECKPOINT_DECLINED)} AS declined,
          {earliest(Event.CHECKPOINT_FAILED)} AS failed,
          {earliest(Event.CHECKPOINT_DISCARDED)} AS discarded
        FROM {{lives}}
        WHERE event IN {_in(*OF_CHECKPOINT)}
        GROUP BY job_cluster, job_id, run, checkpoint
        """,
        lives=lives,
    )


def attempts(events: DataFrame) -> DataFrame:
    """One row per execution attempt: its name, its number, its place, its life.

    The place comes from the deploy line (with the attempt id from 1.12 on; before, the transition to
    DEPLOYING of the same task stands right above it), else from the TaskManager whose own log shows the
    attempt, else from a message of the attempt that names it (late, acknowledge, decline, failure).
    """
    return _query(
        f"""
        WITH named AS (
          SELECT * EXCEPT (attempt_id),
            event = '{Event.DEPLOYED}' AS deploys,
            event = '{Event.TASK_STATE}' AS moves,
            role = 'taskmanager' AND event IN {_in(Event.TASK_STATE, Event.TASK_RECEIVED)} AS own,
            coalesce(attempt_id, IF(event = '{Event.DEPLOYED}',
              last(IF(to_state = 'DEPLOYING', attempt_id, NULL), true) OVER (
                PARTITION BY source, owner, task, subtask_index, parallelism ORDER BY offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), NULL)) AS attempt_id
          FROM {{events}}
          WHERE event IN {_in(*OF_ATTEMPT)}
        ), gathered AS (
          SELECT attempt_id,
            min(struct(source, offset, task, subtask_index, parallelism))
              FILTER (WHERE task IS NOT NULL) AS name,
            min(CASE
              WHEN deploys THEN struct(0 AS rank, taskmanager, host, source, offset)
              WHEN own AND coalesce(writer_taskmanager, writer_host) IS NOT NULL
                THEN struct(
                  1 AS rank, writer_taskmanager AS taskmanager, writer_host AS host, source, offset)
              WHEN NOT own AND coalesce(taskmanager, host) IS NOT NULL
                THEN struct(2 AS rank, taskmanager, host, source, offset)
            END) AS place,
            min(vertex_id) AS vertex_id,
            min(subtask_index) FILTER (WHERE task IS NULL) AS id_subtask_index,
            max(attempt) AS attempt,
            min(job_id) FILTER (WHERE NOT moves OR role <> 'taskmanager') AS job_id,
            min(time_us) FILTER (WHERE deploys OR to_state = 'DEPLOYING') AS deployed_us,
            min(time_us) AS first_us,
            max(time_us) FILTER (WHERE to_state IN ('FINISHED', 'CANCELED', 'FAILED')) AS ended_us,
            max_by(to_state, struct(time_us, offset)) FILTER (WHERE moves) AS to_state,
            min(struct(source, owner)) FILTER (WHERE role = 'jobmanager') AS jobmanager,
            min(struct(time_us, source, owner))
              FILTER (WHERE role = 'jobmanager' AND time_us IS NOT NULL) AS scheduled,
            min(cluster) AS cluster
          FROM named
          WHERE attempt_id IS NOT NULL
          GROUP BY attempt_id
        )
        SELECT 'attempt' AS what, attempt_id, name.task, name.parallelism,
          coalesce(name.subtask_index, id_subtask_index) AS subtask_index,
          vertex_id, attempt, place.taskmanager, place.host,
          coalesce(place.source, name.source) AS source,
          coalesce(place.offset, name.offset) AS offset,
          job_id, deployed_us, first_us, ended_us, to_state,
          jobmanager.source AS jobmanager_source, jobmanager.owner AS jobmanager_owner,
          scheduled.time_us AS scheduled_us, scheduled.source AS scheduled_source,
          scheduled.owner AS scheduled_owner, cluster
        FROM gathered
        """,
        events=events,
    )


def acknowledgements(lives: DataFrame) -> DataFrame:
    """Late acknowledgements and declines, as they are told: rows with runs in.

    They are joined with their checkpoints and attempts when facts are assembled, since the driver has
    all three by then: in Spark the two joins cost more than everything else about them.

    Returns:
        what (`late` or `decline`), job, run, checkpoint, attempt columns, time_us, cause, source, offset.
    """
    return _query(
        f"""
        SELECT IF(event = '{Event.LATE_ACKNOWLEDGEMENT}', 'late', 'decline') AS what,
          job_cluster, job_id, run, checkpoint, attempt_id, task, subtask_index, vertex_id, attempt,
          taskmanager, host, time_us, cause, source, offset
        FROM {{lives}}
        WHERE event IN {_in(Event.LATE_ACKNOWLEDGEMENT, Event.CHECKPOINT_DECLINED)}
        """,
        lives=lives,
    )


def incidents(events: DataFrame) -> DataFrame:
    """The records that rules look at one by one, failures of tasks and of asynchronous parts among them."""
    return _query(
        f"""
        SELECT 'incident' AS what, event, template, source, offset, owner, time_us, role, level, logger,
          thread, cluster, job_id, job_name, vertex_id, task, subtask_index, parallelism, attempt_id,
          attempt, coalesce(taskmanager, writer_taskmanager) AS taskmanager,
          coalesce(host, writer_host) AS host, checkpoint, epoch_ms, duration_ms, bytes, from_state,
          to_state, cause, fields
        FROM {{events}}
        WHERE event IN {_in(*INCIDENTS)}
          OR event = '{Event.TASK_STATE}' AND to_state = 'FAILED'
          OR event = '{Event.ASYNCHRONOUS_PART}' AND (level <> 'DEBUG' OR cause IS NOT NULL)
        """,
        events=events,
    )


def parts(events: DataFrame) -> DataFrame:
    """What each subtask reported for each checkpoint: one row per (job, checkpoint, subtask, origin).

    DEBUG lines of TaskManagers name a task and no job; REST, archives and dumps name a vertex.
    """
    return _query(
        f"""
        WITH told AS (
          SELECT *, event NOT IN {_in(Event.CHECKPOINT_SUBTASK, Event.CHECKPOINT_VERTEX)} AS debug
          FROM {{events}}
          WHERE event IN {_in(*PARTS)} AND checkpoint IS NOT NULL
            AND fields['outcome'] IS NULL -- a part that "could not be completed" is no report
        )
        SELECT 'part' AS what, job_id, checkpoint, vertex_id, task, subtask_index,
          IF(debug, attempt_id, NULL) AS attempt_id,
          IF(debug, 'debug', coalesce(fields['origin'], 'rest')) AS origin,
          max(parallelism) AS parallelism,
          max(duration_ms) AS duration_ms,
          max(bytes) AS bytes,
          max(taskmanager) AS taskmanager,
          max(host) AS host,
          max(writer_taskmanager) AS writer_taskmanager,
          min(time_us) AS time_us,
          sort_array(collect_set(event)) AS events,
          max_by(fields, struct(time_us, source, offset)) AS fields,
          max(duration_ms) FILTER (WHERE event = '{Event.SYNCHRONOUS_PART}') AS sync_ms,
          max(CAST(fields['alignment_ms'] AS LONG))
            FILTER (WHERE event = '{Event.SYNCHRONOUS_PART}') AS alignment_ms,
          max(duration_ms) FILTER (WHERE event = '{Event.ASYNCHRONOUS_PART}') AS async_ms,
          min(struct(source, offset)).source AS source,
          min(struct(source, offset)).offset AS offset
        FROM told
        GROUP BY ALL
        """,
        events=events,
    )


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


def loads(events: DataFrame, spans_us: list[tuple[int, int]] | None) -> DataFrame:
    """What each subtask's metrics say over the given spans: one row per subtask.

    Args:
        events: resolved events; only rows of metrics in task scope count.
        spans_us: closed intervals in which to look; None or empty for all of the input.

    Returns:
        cluster, job_name, task, subtask_index, taskmanager, host, samples, one column per key of `LOADS`
        (mean of the samples) and of `COUNTERS` (increase; a counter that restarts counts from zero; where
        a metric is reported under two names the larger is the complete one), first_us, last_us (of the
        samples), ref (source, offset).
    """
    meaning = {name: key for key, names in {**LOADS, **COUNTERS}.items() for name in names}
    names = ", ".join(f"'{name}'" for name in meaning)
    keys = " ".join(f"WHEN '{name}' THEN '{key}'" for name, key in meaning.items())
    inside = " OR ".join(f"time_us BETWEEN {low} AND {high}" for low, high in spans_us or ())
    means = ", ".join(
        f"sum(total) FILTER (WHERE key = '{key}') / sum(n) FILTER (WHERE key = '{key}') AS {key}"
        for key in LOADS
    )
    counters = ", ".join(f"'{key}'" for key in COUNTERS)
    increases = ", ".join(
        f"max(increase) FILTER (WHERE key = '{key}') AS {key}" for key in COUNTERS
    )
    return _query(
        f"""
        WITH rows AS (
          SELECT cluster, job_name, task, subtask_index, taskmanager, host, time_us,
            {PLACE} AS place, metric.name AS name, CASE metric.name {keys} END AS key,
            metric.count AS n, metric.first AS first, metric.last AS last,
            -- Whole numbers of 1/1024: their sum is exact, so that no order of adding them matters.
            rint(metric.sum * 1024) / 1024 AS total
          FROM {{events}}
          WHERE event = '{Event.METRIC}' AND subtask_index IS NOT NULL AND metric.scope = 'task'
            AND metric.count > 0 AND metric.name IN ({names}) AND ({inside or "true"})
        ), steps AS (
          -- One number to sort by: comparing seven texts took longer than reading the logs.
          SELECT *, lag(last) OVER (
            PARTITION BY xxhash64(
              cluster, job_name, task, subtask_index, taskmanager, host, name)
            ORDER BY time_us, place) AS before
          FROM rows WHERE key IN ({counters})
        ), series AS (
          SELECT cluster, job_name, task, subtask_index, taskmanager, host, key, name,
            min(time_us) AS first_us, max(time_us) AS last_us,
            sum(greatest(last - first, 0) + CASE
              WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first
            END) AS increase,
            sum(total) AS total, sum(n) AS n, min(place) AS place
          FROM steps
          GROUP BY ALL
          UNION ALL
          SELECT cluster, job_name, task, subtask_index, taskmanager, host, key, name,
            min(time_us), max(time_us), NULL, sum(total), sum(n), min(place)
          FROM rows WHERE key NOT IN ({counters})
          GROUP BY ALL
        )
        SELECT 'load' AS what, cluster, job_name, task, subtask_index, taskmanager, host,
          max(n) AS samples, {means}, {increases}, min(first_us) AS first_us,
          max(last_us) AS last_us, {unplaced("min(place)")} AS ref
        FROM series
        GROUP BY ALL
        """,
        events=events,
    )
