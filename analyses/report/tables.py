"""Declares the tables of `--data-dir` and their columns (docs/tables.md).

`events` and `metrics` are the parsed records (`engine.views`). The other tables are the uncut lists of the report's
`data`. Each row has the keys of its job or application.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flowdiag.analyses.contract import queues, startup
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.engine import views
from flowdiag.analyses.model.columns import Column, columns_of, schema_of

SCHEMA: Final = "flowdiag.tables/1"
"""The schema of `flowdiag.json`, next to the tables. Adding tables and columns does not change the number."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        name: the name of its folder.
        topics: the topics that write it. Empty: all topics.
        about: the meaning of a row, as one sentence.
        columns: the columns of its files.
    """

    name: str
    topics: tuple[str, ...]
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.columns)


_ABOUT: Final = {
    "acquired_slots": "slots that the job acquired",
    "after_expiry_ms": "time from the expiry to the acknowledgement",
    "after_trigger_ms": "time from the trigger to the acknowledgement",
    "approximate": "whether only the times of Spark jobs are known",
    "attempt": "attempt number, 0-based",
    "attempt_id": "ID of the execution attempt",
    "back_pressured": "share of the time spent waiting for output buffers, 0 to 1",
    "backlog": "unread records in the sources, if reported",
    "batch_id": "ID of the batch in the query's run",
    "batch_time_ms": "batch time, milliseconds since the epoch, as in Spark",
    "busy": "share of the time spent busy, 0 to 1",
    "bytes": "size of the completed checkpoint",
    "bytes_in": "bytes received",
    "capacity": "queue length at which the input is full",
    "cause": "cause (docs/rules.md); for a restart, the failure before it",
    "checkpoint": "checkpoint ID",
    "confidence": "confidence in the culprit",
    "cpu": "CPU load, 0 to 1",
    "culprit": "whether the report names it as a culprit",
    "d_error": "change of the error, records per second squared",
    "diagnostics": "the resource manager's message about the end of the TaskManager",
    "dropped_rows": "rows that arrived later than the watermark",
    "duration_ms": "duration",
    "elements": "records in the batch",
    "ended_at": "end; null if it has not ended or the end is unknown",
    "error": "excess rate, records per second",
    "exact": "whether every number is identical to Spark's",
    "exclusive_usage": "usage of the exclusive buffers, 0 to 1",
    "expected": "number of late subtasks expected from its share of all subtasks",
    "expected_tasks": "number of tasks in the job",
    "expired": "expired checkpoints of the episode",
    "failed_outputs": "output operations that failed",
    "first_checkpoint": "ID of the first checkpoint",
    "first_seen": "start",
    "floating_usage": "usage of the floating buffers, 0 to 1",
    "gate": "number of the input gate",
    "gc_share": "share of the time in garbage collection",
    "graph_from": "source of the edges: plan, archive, deployment order, metrics",
    "heap_used": "share of the heap in use, 0 to 1",
    "held": "the step that blocked the start, if any",
    "historical_error": "backlog as a rate, records per second",
    "host": "host name",
    "id": "checkpoint ID",
    "idle": "share of the time spent idle, 0 to 1",
    "kind": "cold or restart",
    "last_checkpoint": "ID of the last checkpoint",
    "last_seen": "end, or the end of the input",
    "late": "number of different subtasks on the TaskManager that acknowledged an expired checkpoint",
    "latest_rate": "previous rate, records per second",
    "local_backlog": "part of the capacity that is queued at producers on the same TaskManager",
    "longest": "longest queue among the channels, buffers",
    "max_ms": "longest task",
    "mean": "mean queue length of the channels, buffers",
    "name": "task name",
    "new_rate": "published rate, records per second; null if Spark publishes none",
    "number": "number of the start, from 0",
    "outcome": "published, first-run or skipped",
    "output_usage": "usage of the output buffers; may exceed 1 from Flink 1.16",
    "p50_ms": "median over its tasks",
    "p95_ms": "95th percentile over its tasks",
    "p_value": "probability of this many late subtasks by chance",
    "parallelism": "parallelism of the task",
    "processing_delay_ms": "time from the start to the end of processing",
    "processing_end_ms": "end of processing, milliseconds since the epoch",
    "processing_start_ms": "start of processing, milliseconds since the epoch",
    "queue_length": "mean length of the input queue, buffers",
    "queue_length_max": "longest input queue, buffers",
    "ratio": "ratio of late to expected subtasks",
    "reason": "reason in the log, with secrets masked",
    "received_at": "when the JobManager received it",
    "records": "records in the batch; null if unknown",
    "records_in": "records received",
    "registered_at": "when the TaskManager registered",
    "requested_at": "when the TaskManager was requested",
    "required_slots": "slots that the job requested",
    "restored": "whether state was restored",
    "role": "root, back-pressured, fed-by-root, ok or unknown",
    "rows": "input rows of the batch",
    "run": "number of the job's run in the input, from 1; checkpoint IDs increase within a run",
    "run_id": "ID of the query's run",
    "running_after_ms": "time from the start to RUNNING",
    "running_at": "when all tasks were running",
    "samples": "number of samples",
    "saturated_share": "share of the samples in which the input was full",
    "scheduling_delay_ms": "time from the submission to the start",
    "segments": "network buffers of the TaskManager",
    "segments_free": "free network buffers",
    "segments_requested": "ratio of requested buffers to all buffers; may exceed 1",
    "shortest": "shortest queue among the channels, buffers",
    "skew": "Flink's skew score of records received, 0 (even) to 100",
    "slowest": "the slowest step",
    "started_at": "start",
    "state": "ongoing or recovered",
    "state_rows": "rows in the state stores",
    "status": "status, as in the report",
    "step": "startup step",
    "stream_id": "ID of the input stream",
    "submission_ms": "submission, milliseconds since the epoch",
    "subtask": "subtask as Flink prints it: i/n",
    "subtask_index": "subtask index, 0-based",
    "subtasks": "number of the job's subtasks that the TaskManager runs",
    "task": "task name, without the subtask",
    "taskmanager": "resource id",
    "tasks": "tasks in the step, or deployed tasks",
    "time_ms": "time of the step, milliseconds since the epoch",
    "total": "buffers queued in all remote channels",
    "total_delay_ms": "time from the submission to the end",
    "trigger": "what triggered the restart",
    "triggered_at": "when it was triggered",
    "type": "checkpoint type in Flink, including savepoints",
    "unmatched": "whether the expiry itself is missing from the input",
    "vertex_id": "ID in the job graph",
    "watermark": "watermark of the query",
}

_TEXT: Final = pa.string()
_CLUSTER: Final = Column(
    "cluster", _TEXT, "distinguishes clusters whose logs are in one folder; otherwise empty"
)
_JOB: Final = (
    Column("job_id", _TEXT, "ID of the Flink job"),
    Column("job_name", _TEXT, "job name"),
)
_APPLICATION: Final = (
    Column("application", _TEXT, "ID of the Spark application; null if unknown"),
    Column("application_name", _TEXT, "application name"),
)
_QUERY: Final = (
    Column("query", _TEXT, "ID of the streaming query"),
    Column("query_name", _TEXT, "query name"),
)
_SUBTASK: Final = (
    Column("task", _TEXT, _ABOUT["task"]),
    Column("subtask_index", pa.int64(), _ABOUT["subtask_index"]),
)
_SUBJECT: Final = (
    Column("subject", _TEXT, "kind of the culprit: subtask, task, taskmanager, …; null if unknown"),
    *_SUBTASK,
    Column("taskmanager", _TEXT, _ABOUT["taskmanager"]),
    Column("host", _TEXT, _ABOUT["host"]),
)
_UNFILTERED: Final = "independent of --since, --until and --job"


def _description(row: type[Any]) -> str:
    """Return the first sentence of a type's docstring."""
    return f"{(row.__doc__ or '').partition('.')[0]}."


def _columns_of(row: type[Any], *keys: Column, without: Iterable[str] = ()) -> tuple[Column, ...]:
    known = {key.name for key in keys}
    return (*keys, *columns_of(row, _ABOUT, {*without, *known}))


TABLES: Final = (
    Table("events", (), f"A recognized record of an input, {_UNFILTERED}.", views.EVENTS),
    Table(
        "metrics",
        ("checkpoints", "queues", "memory", "startup"),
        f"One Flink metric, measured over one minute, {_UNFILTERED}.",
        views.METRICS,
    ),
    Table(
        "checkpoints",
        ("checkpoints",),
        _description(wire.Checkpoint),
        _columns_of(wire.Checkpoint, _CLUSTER, *_JOB),
    ),
    Table(
        "late_acknowledgements",
        ("checkpoints",),
        _description(wire.LateAcknowledgement),
        _columns_of(wire.LateAcknowledgement, _CLUSTER, *_JOB),
    ),
    Table(
        "declines",
        ("checkpoints",),
        "A subtask that declined a checkpoint.",
        _columns_of(wire.Decline, _CLUSTER, *_JOB),
    ),
    Table(
        "late_taskmanagers",
        ("checkpoints",),
        _description(wire.TaskManager),
        _columns_of(wire.TaskManager, _CLUSTER, *_JOB),
    ),
    Table(
        "checkpoint_episodes",
        ("checkpoints",),
        _description(wire.CheckpointEpisode),
        (*_columns_of(wire.CheckpointEpisode, _CLUSTER, *_JOB, without=("subject",)), *_SUBJECT),
    ),
    Table(
        "batches",
        ("rate",),
        _description(wire.RateBatch),
        _columns_of(wire.RateBatch, *_APPLICATION),
    ),
    Table(
        "pid_steps",
        ("rate",),
        _description(wire.PidStep),
        _columns_of(wire.PidStep, *_APPLICATION),
    ),
    Table(
        "triggers",
        ("rate",),
        _description(wire.RateTrigger),
        (
            *_columns_of(wire.RateTrigger, *_APPLICATION, *_QUERY, without=("durations_ms",)),
            Column(
                "durations_ms",
                pa.map_(_TEXT, pa.int64()),
                "durations of its phases, by Spark's names",
            ),
        ),
    ),
    Table(
        "vertices",
        ("queues",),
        "One vertex of a job graph in the selected time range; values are maxima over its subtasks.",
        _columns_of(
            queues.QueueVertex, *_JOB, without=("inputs", "subtasks", "total", "truncated")
        ),
    ),
    Table(
        "subtasks",
        ("queues",),
        "One subtask in the selected time range.",
        _columns_of(queues.QueueSubtask, *_JOB, *_SUBTASK, without=("gates",)),
    ),
    Table(
        "input_gates",
        ("queues",),
        "Queued buffers in the remote channels of one input gate of a subtask.",
        _columns_of(queues.QueueGate, *_JOB, *_SUBTASK),
    ),
    Table(
        "taskmanagers",
        ("queues",),
        "One TaskManager that runs subtasks of a job, in the selected time range.",
        _columns_of(queues.QueueTaskManager, Column("job_id", _TEXT, "ID of the Flink job")),
    ),
    Table(
        "starts",
        ("startup",),
        "One start of a job.",
        _columns_of(startup.StartAttempt, *_JOB, without=("steps",)),
    ),
    Table(
        "start_steps",
        ("startup",),
        "A step of a start. Steps before the first job belong to no job.",
        (
            *_columns_of(
                startup.StartStep,
                *_JOB,
                Column("number", pa.int64(), _ABOUT["number"]),
                without=("subject",),
            ),
            *_SUBTASK,
            Column("taskmanager", _TEXT, _ABOUT["taskmanager"]),
            Column("host", _TEXT, _ABOUT["host"]),
        ),
    ),
    Table(
        "workers",
        ("startup",),
        "A TaskManager from its request to its registration.",
        _columns_of(startup.StartWorker),
    ),
)

BY_NAME: Final = {table.name: table for table in TABLES}


def tables_of(topics: Iterable[str]) -> tuple[Table, ...]:
    """Return the tables of a diagnosis of these topics."""
    requested = set(topics)
    return tuple(table for table in TABLES if not table.topics or requested & {*table.topics})


def tables_document() -> str:
    """Return the text of docs/tables.md, which describes each table and its columns."""
    lines = [_HEAD]
    for table in TABLES:
        written_by = ", ".join(f"`{topic}`" for topic in table.topics) or "all topics"
        lines += [f"## {table.name}", "", f"{table.about} Written by {written_by}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            kind = f"{column.type}{'' if column.nullable else ', never null'}"
            lines.append(f"| `{column.name}` | {kind} | {column.about} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


_HEAD: Final = """\
# The tables of `--data-dir`

Generated from the schemas. `flowdiag diagnose logs/ --data-dir data/` writes each complete table as a folder of Parquet
files. `--max-rows` limits only the lists in the report.

```sh
flowdiag diagnose logs/ --data-dir data/
duckdb -c "SELECT task, count(*) FROM 'data/late_acknowledgements/*.parquet' GROUP BY ALL ORDER BY 2 DESC"
```

- The folder appears when it is complete. An existing folder must be empty or contain only such tables, which are
  replaced. flowdiag refuses any other folder before it starts.
- `flowdiag.json` lists the tables, their files and rows (`flowdiag.tables/1`: new tables and columns keep
  this version). Every diagnosed topic has its tables, even if they are empty.
- `events` and `metrics` contain all recognized records, as `flowdiag.read` returns them. Spark's tasks write them
  while reading, so memory does not grow with the input. The other tables contain the selected part (`--since`,
  `--until`, `--job`).
- Secrets are masked. `--no-excerpts` leaves `cause`, `reason`, `thread` and `fields` empty. Names are unchanged, so
  `--redact` is refused.
- On a cluster (`--master`), the folder is a URL that executors and this machine can write (`s3://`, `gs://`,
  `abfs://`, `hdfs://`, or `file://` for a shared path). `flowdiag.json` is written last: without it the tables
  are incomplete.

Times are in UTC. Columns that end in `_ms` are milliseconds. Columns that end in `_index` count from 0.
"""
