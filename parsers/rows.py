"""The one physical shape of everything that a parser emits.

`EVENTS` is an Arrow schema, so that parsing neither needs nor starts Spark; the Spark
`StructType` is derived from it in `flowdiag.parsers.spark.frame`. A row is what one record *prints*:
zones, missing dates and the owner of a record are settled later, in `flowdiag.analyses.flink.clocks.settle`.

Columns (null where the record does not say):

| column | meaning |
|---|---|
| source, offset | index of the source in the input list; first byte of the record in its decoded stream |
| event, template | kind of event (`Event`); id of the message template that recognised it |
| local_us | wall clock as printed, without zone: microseconds since 1970-01-01T00:00 *of that clock* |
| utc_us | the instant, where the record itself or its carrier says it (zone, epoch) |
| clock | what `local_us` lacks: null (nothing), `time-of-day` (no date), `elapsed` (since process start) |
| level, logger, thread | as printed; the logger is the simple class name |
| process | the process as the carrier labels it (pod, container, compose service, log stream) |
| subtask_index | 0-based, unlike the `i/n` of Flink's logs |
| attempt | attempt number, 0-based as Flink prints it |
| taskmanager, host | resource id (without trailing `(host:port)`), host name |
| checkpoint, epoch_ms | checkpoint id; trigger timestamp as printed behind `@` |
| duration_ms, bytes | as printed |
| from_state, to_state | of a task or job transition |
| cause | deepest cause of the stack trace that belongs to the record, or the reason in its text |
| fields | everything else that the template captured |
| metric | one aggregated metric series of one minute (event `metric` only) |
| application | id of a Spark application, with `/attempt` from the second attempt on |

What Spark writes uses the same columns: `epoch_ms` is the batch time (DStreams), `duration_ms` the
processing or trigger time, `job_name` the name of an application or query. Lists stand in `fields` as
JSON text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

METRIC: Final = pa.struct(
    [
        pa.field("name", pa.string()),  # e.g. busyTimeMsPerSecond
        pa.field("kind", pa.string()),  # counter | gauge | meter | histogram
        pa.field("scope", pa.string()),  # tm | task | operator | jm | jm-job | ...
        pa.field("operator", pa.string()),
        pa.field("count", pa.int64()),  # samples in this row (NaN and text are not counted)
        pa.field("first", pa.float64()),
        pa.field("last", pa.float64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("sum", pa.float64()),
    ]
)

EVENTS: Final = pa.schema(
    [
        pa.field("source", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("template", pa.string()),
        pa.field("local_us", pa.int64()),
        pa.field("utc_us", pa.int64()),
        pa.field("clock", pa.string()),
        pa.field("level", pa.string()),
        pa.field("logger", pa.string()),
        pa.field("thread", pa.string()),
        pa.field("process", pa.string()),
        pa.field("job_id", pa.string()),
        pa.field("job_name", pa.string()),
        pa.field("vertex_id", pa.string()),
        pa.field("task", pa.string()),
        pa.field("subtask_index", pa.int32()),
        pa.field("parallelism", pa.int32()),
        pa.field("attempt_id", pa.string()),
        pa.field("attempt", pa.int32()),
        pa.field("taskmanager", pa.string()),
        pa.field("host", pa.string()),
        pa.field("checkpoint", pa.int64()),
        pa.field("epoch_ms", pa.int64()),
        pa.field("duration_ms", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("from_state", pa.string()),
        pa.field("to_state", pa.string()),
        pa.field("cause", pa.string()),
        pa.field("fields", pa.map_(pa.string(), pa.string())),
        pa.field("metric", METRIC),
        pa.field("application", pa.string()),
    ]
)


class Event(StrEnum):
    """Kinds of event. A message template, a REST reader or a report parser names one of these."""

    # bookkeeping
    SPLIT = "split"  # exactly one per split: what was read, what was not understood
    MARKS = "marks"  # what the records of a split add up to (`flink.marks`), where executors parse
    SECTION = "section"  # a header inside a stream: process is the new owner, fields.file its file
    # checkpoint coordinator
    CHECKPOINT_TRIGGERED = "checkpoint_triggered"
    CHECKPOINT_COMPLETED = "checkpoint_completed"
    CHECKPOINT_EXPIRED = "checkpoint_expired"
    CHECKPOINT_DECLINED = "checkpoint_declined"
    CHECKPOINT_DISCARDED = "checkpoint_discarded"
    CHECKPOINT_FAILED = "checkpoint_failed"
    CHECKPOINT_NOT_TRIGGERED = "checkpoint_not_triggered"
    CHECKPOINT_STATUS = "checkpoint_status"  # REST, archive or DEBUG dump: its life at one look
    CHECKPOINT_VERTEX = "checkpoint_vertex"  # the same per vertex
    CHECKPOINT_SUBTASK = "checkpoint_subtask"  # the same per subtask
    CHECKPOINT_CONFIG = "checkpoint_config"
    CHECKPOINT_COUNTS = "checkpoint_counts"
    ACKNOWLEDGED = "acknowledged"
    LATE_ACKNOWLEDGEMENT = "late_acknowledgement"
    ACKNOWLEDGE_REFUSED = "acknowledge_refused"
    REQUEST_IN_QUEUE = "request_in_queue"
    COORDINATOR_STOPPED = "coordinator_stopped"
    RESTORED = "restored"
    SAVEPOINT_REQUESTED = "savepoint_requested"
    CHECKPOINT_ID_RESET = "checkpoint_id_reset"
    SCHEDULER_SWITCHED = "scheduler_switched"
    # jobs and tasks
    JOB_SUBMITTED = "job_submitted"
    JOB_STARTED = "job_started"
    JOB_STATE = "job_state"
    JOB_FINISHED = "job_finished"
    JOB_RESTARTING = "job_restarting"
    GRAPH_CREATED = "graph_created"
    VERTEX = "vertex"
    EDGE = "edge"  # fields.upstream -> vertex_id, fields.ship_strategy
    DEPLOYED = "deployed"
    PLACED = "placed"  # a subtask's place from REST, archive or a metric scope
    TASK_STATE = "task_state"
    TASK_RECEIVED = "task_received"
    TASK_STUCK = "task_stuck"
    TASK_CANCELLED = "task_cancelled"
    # processes
    PROCESS_STARTED = "process_started"
    PROCESS_IDENTITY = "process_identity"
    PROCESS_STOPPED = "process_stopped"
    CONFIGURATION = "configuration"
    TASKMANAGER_REGISTERED = "taskmanager_registered"
    TASKMANAGER_LOST = "taskmanager_lost"
    WORKER = "worker"
    SLOTS = "slots"
    LEADERSHIP = "leadership"
    MEMORY = "memory"  # sizes of memory pools as a process prints them
    RESOURCE_FAILURE = "resource_failure"  # out of memory, network buffers, container killed
    # checkpoints as a TaskManager sees them
    BARRIER_RECEIVED = "barrier_received"
    CHECKPOINT_STARTED = "checkpoint_started"
    SYNCHRONOUS_PART = "synchronous_part"
    ASYNCHRONOUS_PART = "asynchronous_part"
    SNAPSHOT_FAILED = "snapshot_failed"  # the synchronous part threw; the task fails from 1.11 on
    ABORT_NOTIFIED = "abort_notified"
    DECLINE_IGNORED = "decline_ignored"
    BARRIER_DELAYED = "barrier_delayed"
    ALIGNMENT = "alignment"
    NETWORK_MEMORY = "network_memory"
    EXTERNAL_FAILURE = "external_failure"  # fenced producer, invalid transaction, storage errors
    METRIC = "metric"
    # Spark
    SPARK_LOG_STARTED = "spark_log_started"  # first line of an event log: fields.version
    SPARK_APPLICATION = "spark_application"  # id, name, start, end, version, batch interval
    SPARK_SETTINGS = "spark_settings"  # fields: option -> value
    SPARK_BATCH = "spark_batch"  # of a DStream application; fields.origin says who tells
    SPARK_OUTPUT = "spark_output"  # an output operation of a batch
    SPARK_RECEIVER = "spark_receiver"  # fields.what: started | stopped | error | statistics
    SPARK_JOB = "spark_job"  # fields.what: started | ended
    SPARK_STAGE = "spark_stage"  # a completed stage
    SPARK_TASKS = "spark_tasks"  # its tasks on one executor in one split, added up
    SPARK_EXECUTOR = "spark_executor"  # fields.what: added | removed
    SPARK_QUERY = "spark_query"  # fields.what: started | idle | terminated
    SPARK_PROGRESS = "spark_progress"  # one trigger of a query
    SPARK_PID = "spark_pid"  # what the rate estimator prints
    SPARK_RATE_LIMIT = "spark_rate_limit"  # a receiver takes a new limit
    SPARK_RANGE = "spark_range"  # a task of a direct stream reads offsets of a topic's partition
    SPARK_BLOCK = "spark_block"  # a receiver's block in some memory: fields.size, fields.free
    SPARK_DROPPED = "spark_dropped"  # listener events were lost: fields.count, fields.queue
    SPARK_INCIDENT = "spark_incident"  # what explains slow or failed batches, by template
    # recognised, and of no interest to any rule: keeps the drift alarm quiet
    KNOWN = "known"


def empty_row() -> dict[str, object]:
    """A row with every column null, to be filled by a reader.

    >>> sorted(empty_row())[:3]
    ['application', 'attempt', 'attempt_id']
    """
    return dict.fromkeys(EVENTS.names)
