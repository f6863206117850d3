"""The schema of all parser output, and functions that build batches from rows and columns.

`EVENTS` is an Arrow schema, so that parsing does not need Spark. `flowdiag.parsers.on_spark.frame` derives the Spark
`StructType` from it. A row holds the values that one record *prints*. Time zones, missing dates and the
process of a record are resolved later, in `flowdiag.analyses.flink.clocks.settle`.

Columns (null if the record does not contain the value):

| column | meaning |
|---|---|
| source, offset | index of the source in the input list; byte offset of the record in its decoded stream |
| event, template | kind of event (`Event`); ID of the message template that matched |
| local_us | wall clock as printed, without time zone: microseconds since 1970-01-01T00:00 *of that clock* |
| utc_us | the instant, if the record or its carrier prints it (with a zone, or as an epoch) |
| clock | kind of `local_us`: null (complete), `time-of-day` (no date), `elapsed` (since process start) |
| level, logger, thread | as printed; the logger is the simple class name |
| process | the carrier's label for the process (pod, container, compose service, log stream) |
| subtask_index | 0-based, unlike the `i/n` of Flink's logs |
| attempt | attempt number, 0-based as Flink prints it |
| taskmanager, host | resource ID (without trailing `(host:port)`), host name |
| checkpoint, epoch_ms | checkpoint ID; trigger timestamp as printed after `@` |
| duration_ms, bytes | as printed |
| from_state, to_state | old and new state, for a transition of a task or job |
| cause | deepest cause of the stack trace that belongs to the record, or the reason in its text |
| fields | all other values captured by the template |
| metric | one aggregated metric series of one minute (event `metric` only) |
| application | ID of a Spark application, with `/attempt` from the second attempt on |

Spark's records use the same columns: `epoch_ms` is the batch time (DStreams), `duration_ms` the processing
or trigger time, `job_name` the name of an application or query. `fields` contains lists as JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from flowdiag.parsers.faults import InternalFault, describe_fault, encode_fault

METRIC: Final = pa.struct(
    [
        pa.field("name", pa.string()),  # e.g. busyTimeMsPerSecond
        pa.field("kind", pa.string()),  # counter | gauge | meter | histogram
        pa.field("scope", pa.string()),  # tm | task | operator | jm | jm-job | ...
        pa.field("operator", pa.string()),
        pa.field("count", pa.int64()),  # number of samples in this row, without NaN and text
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
    """Kinds of event, as set by message templates, REST readers and report parsers."""

    # bookkeeping
    SPLIT = "split"  # exactly one per split: counts of the lines that were read and of those not recognized
    MARKS = "marks"  # sums over the records of a split (`flink.marks`)
    SECTION = "section"  # a header inside a stream, where another process or file begins: process, fields.file
    # checkpoint coordinator
    CHECKPOINT_TRIGGERED = "checkpoint_triggered"
    CHECKPOINT_COMPLETED = "checkpoint_completed"
    CHECKPOINT_EXPIRED = "checkpoint_expired"
    CHECKPOINT_DECLINED = "checkpoint_declined"
    CHECKPOINT_DISCARDED = "checkpoint_discarded"
    CHECKPOINT_FAILED = "checkpoint_failed"
    CHECKPOINT_NOT_TRIGGERED = "checkpoint_not_triggered"
    CHECKPOINT_STATUS = "checkpoint_status"  # a checkpoint's history in one record, from REST, an archive or a DEBUG dump
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
    PLACED = "placed"  # location of a subtask, from REST, an archive or a metric scope
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
    MEMORY = "memory"  # sizes of memory pools, as a process prints them
    EXCEPTION = "exception"  # a stack trace outside records: fields.class, fields.exception
    FAILURE = "failure"  # an exception or an error that no other record reports: fields.ended
    RESOURCE_FAILURE = "resource_failure"  # out of memory, network buffers, container killed
    # checkpoints as a TaskManager sees them
    BARRIER_RECEIVED = "barrier_received"
    CHECKPOINT_STARTED = "checkpoint_started"
    SYNCHRONOUS_PART = "synchronous_part"
    ASYNCHRONOUS_PART = "asynchronous_part"
    SNAPSHOT_FAILED = "snapshot_failed"  # the synchronous part threw an exception, which fails the task from 1.11 on
    ABORT_NOTIFIED = "abort_notified"
    DECLINE_IGNORED = "decline_ignored"
    BARRIER_DELAYED = "barrier_delayed"
    ALIGNMENT = "alignment"
    NETWORK_MEMORY = "network_memory"
    EXTERNAL_FAILURE = "external_failure"  # fenced producer, invalid transaction, storage errors
    UNREACHABLE = (
        "unreachable"  # a client cannot connect to a server: fields.address, .client, .node
    )
    SERVER = "server"  # a Kafka broker that a client of the job uses: fields.address
    UPLOAD_INTERRUPTED = "upload_interrupted"  # upload of a part of a checkpoint that expired
    PARTITIONS = "partitions"  # partitions that a source found, or that it looks for no new ones
    COMMIT_FAILED = "commit_failed"  # a source could not commit its offsets: fields.cause
    SLOT_CREATED = "slot_created"  # a source creates its replication slot: fields.slot
    PRODUCE_REFUSED = "produce_refused"  # a broker refuses records: fields.error, fields.partition
    REFUSED = "refused"  # a database refused a request, which the client repeats
    OFFSET_RESET = "offset_reset"  # records were deleted before they were read: fields.partition
    METRIC = "metric"
    THREAD = "thread"  # what a thread in a dump is doing: see `stacks.dumps`
    # Spark
    SPARK_LOG_STARTED = "spark_log_started"  # first line of an event log: fields.version
    SPARK_APPLICATION = "spark_application"  # ID, name, start, end, version, batch interval
    SPARK_SETTINGS = "spark_settings"  # fields: option -> value
    SPARK_BATCH = "spark_batch"  # a batch of a DStream application; fields.origin: kind of input
    SPARK_OUTPUT = "spark_output"  # an output operation of a batch
    SPARK_RECEIVER = "spark_receiver"  # fields.what: started | stopped | error | statistics
    SPARK_JOB = "spark_job"  # fields.what: started | ended
    SPARK_STAGE = "spark_stage"  # a completed stage
    SPARK_TASKS = "spark_tasks"  # sums over a stage's tasks on one executor in one split
    SPARK_TASK = "spark_task"  # a task whose start and end are not in the same split; fields.what: started | ended
    SPARK_EXECUTOR = "spark_executor"  # fields.what: added | removed
    SPARK_QUERY = "spark_query"  # fields.what: started | idle | terminated
    SPARK_PROGRESS = "spark_progress"  # one trigger of a query
    SPARK_PLAN = "spark_plan"  # plan of a query: fields.mode, delay_ms, window_ms, functions
    SPARK_TRIGGER = (
        "spark_trigger"  # files of a query's trigger: fields.what: offsets | commits, fields.folder
    )
    SPARK_PID = "spark_pid"  # output of the rate estimator
    SPARK_RATE_LIMIT = "spark_rate_limit"  # a receiver applies a new limit
    SPARK_RANGE = "spark_range"  # a task of a direct stream reads an offset range of a partition
    SPARK_BLOCK = "spark_block"  # a receiver's block was stored in memory: fields.size, fields.free
    SPARK_CACHED = "spark_cached"  # a block of a cached RDD was stored: fields.rdd, .partition
    SPARK_DROPPED = "spark_dropped"  # listener events were lost: fields.count, fields.queue
    SPARK_INCIDENT = (
        "spark_incident"  # a possible reason for slow or failed batches, identified by its template
    )
    # recognized but not used by any rule, so that such lines do not count as drift
    KNOWN = "known"


# -- rows and columns --------------------------------------------------------------------------

Row = dict[str, Any]
"""One row: values by column. Absent columns are null; `fields` is a mapping."""

BATCH_ROWS: Final = 2048
"""Rows per batch. Larger batches would need newly mapped memory each time, and page faults are expensive."""
METRIC_ROWS: Final = 8192
"""Rows per batch of metrics. They are numerous and built column by column."""


def batch_of(columns: Mapping[str, Sequence[Any] | pa.Array], size: int) -> pa.RecordBatch:
    """Build a batch of `EVENTS`; missing columns are null.

    Args:
        columns: values or arrays by column name. Values of `fields` are mappings or lists of pairs.
        size: number of rows.
    """
    arrays = []
    for column in EVENTS:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pa.nulls(size, column.type))
        elif isinstance(values, pa.Array):
            arrays.append(values)
        else:
            arrays.append(array_of(values, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an array. Values that do not fit (huge numbers, lone surrogates) are damaged input and become null."""
    try:
        return pa.array(values, type=kind)
    except (OverflowError, UnicodeError, pa.ArrowInvalid):
        return pa.array([value if _fits(value, kind) else None for value in values], type=kind)


def repeat_value(value: Any, kind: pa.DataType, size: int) -> pa.Array:
    """Build an array with the same value in every row; a value that does not fit becomes null."""
    return pa.repeat(array_of([value], kind)[0], size)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, type=kind)
    except (OverflowError, UnicodeError, pa.ArrowInvalid):
        return False
    return True


class RowBuilder:
    """Collects rows into record batches of `EVENTS`; it is full at `capacity` rows.

    Attributes:
        undecided: whether the engine of the source is only a default, which failures then record as a field.
    """

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        self.undecided = False
        self._capacity = capacity
        self._rows: list[Row] = []
        self._used: set[str] = set()

    def __len__(self) -> int:
        """Return the number of rows not yet taken."""
        return len(self._rows)

    @property
    def full(self) -> bool:
        return len(self._rows) >= self._capacity

    def add(self, row: Row) -> None:
        """Add one row; missing columns are null."""
        if self.undecided and row.get("event") in _FAILURES:
            row = row | {"fields": {**(row.get("fields") or {}), "undecided": "yes"}}
        self._rows.append(row)
        self._used.update(row)

    def take(self) -> pa.RecordBatch:
        """Return the collected rows as one batch, and start over."""
        rows = self._rows
        columns: dict[str, list[Any]] = {
            name: [row.get(name) for row in rows] for name in self._used
        }
        if "fields" in columns:
            # Arrow expects maps as lists of pairs.
            columns["fields"] = [
                None if value is None else list(value.items()) for value in columns["fields"]
            ]
        self._rows = []
        self._used = set()
        try:
            return batch_of(columns, len(rows))
        except (ValueError, TypeError, ArithmeticError):  # base classes of Arrow's errors
            return _batch_of_valid_rows(rows)


_FAILURES: Final = frozenset(
    {Event.FAILURE.value, Event.EXCEPTION.value, Event.RESOURCE_FAILURE.value}
)


def _batch_of_valid_rows(rows: Iterable[Row]) -> pa.RecordBatch:
    """Build a batch of the valid rows, plus one fault row per source for its first invalid row."""
    batches: list[pa.RecordBatch] = []
    rejected: dict[int, Row] = {}
    for row in rows:
        columns: dict[str, list[Any]] = {name: [value] for name, value in row.items()}
        if row.get("fields") is not None:
            columns["fields"] = [list(row["fields"].items())]
        try:
            batches.append(batch_of(columns, 1))
        except (ValueError, TypeError, ArithmeticError) as error:
            fault = describe_fault(error, source=row["source"], offset=row.get("offset"))
            rejected.setdefault(row["source"], fault_row(fault))
    faults = RowBuilder()
    for row in rejected.values():
        faults.add(row)
    table = pa.Table.from_batches([*batches, faults.take()]).combine_chunks()
    return table.to_batches()[0]


# -- outcome of a split ------------------------------------------------------------------------

SAMPLES: Final = 3
SAMPLE_CHARACTERS: Final = 300


@dataclass(slots=True)
class Tally:
    """Counts that the reader updates, for the `split` row.

    Attributes:
        bytes: decoded bytes read.
        candidates: records that may be known: lines with an anchor, responses or samples.
        recognised: candidates that were recognized.
        not_understood: records that flowdiag should recognize but did not.
        logger_hits: lines of loggers whose every message flowdiag should recognize.
        truncated: lines and reports truncated because of their length.
        first_us, last_us: first and last time: the printed wall clock, or the instant if only that is printed.
        samples: beginnings of a few unrecognized records.
        error: one clause that explains why reading ended early; None if it did not.
        fault: the internal fault that ended reading, if any.
        at: offset of the last record, if the reader reports it.
    """

    bytes: int = 0
    candidates: int = 0
    recognised: int = 0
    not_understood: int = 0
    logger_hits: int = 0
    truncated: int = 0
    first_us: int | None = None
    last_us: int | None = None
    samples: list[str] = field(default_factory=list)
    error: str | None = None
    fault: InternalFault | None = None
    at: int | None = None

    def add_time(self, time_us: int | None) -> None:
        """Extend the time range to include this time; None is ignored."""
        if time_us is None:
            return
        if self.first_us is None or time_us < self.first_us:
            self.first_us = time_us
        if self.last_us is None or time_us > self.last_us:
            self.last_us = time_us

    def add_unrecognized(self, what: str) -> None:
        """Count an unrecognized record, and keep the first few as samples."""
        self.not_understood += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(what[:SAMPLE_CHARACTERS])

    def row(self, source: int, offset: int) -> Row:
        """Build the `split` row, which is the last row of every split."""
        fields = {
            "bytes": str(self.bytes),
            "candidates": str(self.candidates),
            "recognised": str(self.recognised),
            "not_understood": str(self.not_understood),
            "logger_hits": str(self.logger_hits),
            "truncated_lines": str(self.truncated),
        }
        for number, sample in enumerate(self.samples, 1):
            fields[f"sample_{number}"] = sample
        if self.first_us is not None:
            fields["first_us"] = str(self.first_us)
            fields["last_us"] = str(self.last_us)
        if self.error is not None:
            fields["error"] = self.error
        return _split_row(source, offset, fields, self.fault)


def fault_row(fault: InternalFault) -> Row:
    """Build a `split` row that only reports a fault."""
    return _split_row(fault.source or 0, fault.offset or 0, {}, fault)


def _split_row(
    source: int, offset: int, fields: dict[str, str], fault: InternalFault | None
) -> Row:
    if fault is not None:
        fields["fault"] = encode_fault(fault)
        fields.setdefault("error", "flowdiag stopped reading because of an internal error")
    return {"source": source, "offset": offset, "event": Event.SPLIT.value, "fields": fields}
