"""The complete tables of `--data-dir`: which there are, and their columns (docs/tables.md).

`events` and `metrics` are what was read (`engine.views`); the others are the lists of the report's `data`,
none of them cut, each row with the keys of the job or application that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flowdiag.analyses.engine import views
from flowdiag.analyses.model.columns import Column, columns_of, schema_of
from flowdiag.analyses.queues import wire as queues
from flowdiag.analyses.report import wire
from flowdiag.analyses.startup import wire as startup

SCHEMA: Final = "flowdiag.tables/1"
"""Of the file `flowdiag.json` beside the tables. Added tables and columns do not raise the number."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        name: of its folder.
        topics: those that write it; empty: whatever is diagnosed.
        about: what a row is: one sentence.
        columns: of its files.
    """

    name: str
    topics: tuple[str, ...]
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Of its files."""
        return schema_of(self.columns)


_ABOUT: Final = {
    "acquired_slots": "slots that the job got",
    "after_expiry_ms": "how long after the expiry it came",
    "after_trigger_ms": "how long after the trigger it came",
    "approximate": "whether only the times of Spark jobs are known",
    "attempt": "attempt number, 0-based",
    "attempt_id": "of the execution attempt",
    "back_pressured": "share of the time, 0 to 1, in which it waited for buffers",
    "backlog": "records that the sources had left, where they say",
    "batch_id": "of the query's run",
    "batch_time_ms": "batch time, milliseconds since the epoch, as Spark counts",
    "busy": "share of the time, 0 to 1",
    "bytes": "size of the checkpoint as it completed",
    "bytes_in": "bytes that came in",
    "capacity": "queue length at which the input is full",
    "cause": "word of the cause (docs/rules.md), or of a restart the failure before it",
    "checkpoint": "checkpoint id",
    "confidence": "how sure the conviction is",
    "cpu": "load of the processor, 0 to 1",
    "culprit": "whether somebody is convicted of it in this report",
    "d_error": "change of the error, records per second squared",
    "diagnostics": "what its resource manager says of its end",
    "dropped_rows": "rows that came later than the watermark",
    "duration_ms": "how long it took",
    "elements": "records of the batch",
    "ended_at": "when it ended; null: it did not, or nothing tells",
    "error": "rate that was too much, records per second",
    "exact": "whether every number is the one that Spark computed, to the last bit",
    "exclusive_usage": "of the exclusive buffers, 0 to 1",
    "expected": "late subtasks that its share of all subtasks explains",
    "expected_tasks": "tasks that the job has",
    "expired": "checkpoints of the episode that expired",
    "failed_outputs": "output operations that failed",
    "first_checkpoint": "checkpoint id of the first",
    "first_seen": "when it began",
    "floating_usage": "of the floating buffers, 0 to 1",
    "gate": "number of the input gate",
    "gc_share": "share of the time in garbage collection",
    "graph_from": "what told the edges: plan, archive, deployment order, metrics",
    "heap_used": "of the heap, 0 to 1",
    "held": "the step that held the start, where one did",
    "historical_error": "what waits, as a rate in records per second",
    "host": "host name",
    "id": "checkpoint id",
    "idle": "share of the time, 0 to 1",
    "kind": "cold or restart",
    "last_checkpoint": "checkpoint id of the last",
    "last_seen": "when it ended, or the input did",
    "late": "distinct subtasks on it that acknowledged an expired checkpoint",
    "latest_rate": "rate before, records per second",
    "local_backlog": "what of the capacity waits at producers on the same TaskManager",
    "longest": "longest queue of a channel, buffers",
    "max_ms": "longest of its tasks",
    "mean": "mean queue of the channels, buffers",
    "name": "of the task",
    "new_rate": "records per second; null where Spark publishes none",
    "number": "of the start: 0 the first",
    "outcome": "published, first-run or skipped",
    "output_usage": "of the output buffers; may exceed 1 from Flink 1.16 on",
    "p50_ms": "median of its tasks",
    "p95_ms": "95th percentile of its tasks",
    "p_value": "how often chance makes so many late",
    "parallelism": "of the task",
    "processing_delay_ms": "from the start of the processing to its end",
    "processing_end_ms": "milliseconds since the epoch",
    "processing_start_ms": "milliseconds since the epoch",
    "queue_length": "mean length of the input queue, buffers",
    "queue_length_max": "longest seen",
    "ratio": "late over expected",
    "reason": "in the words of the log; secrets are masked",
    "received_at": "when the JobManager got it",
    "records": "records of the batch; null: no input tells",
    "records_in": "records that came in",
    "registered_at": "when it registered",
    "requested_at": "when it was asked for",
    "required_slots": "slots that the job asked for",
    "restored": "whether state was restored",
    "role": "root, back-pressured, fed-by-root, ok or unknown",
    "rows": "input rows of the trigger",
    "run": "number of the job's run in the input, from 1; checkpoint ids grow within one",
    "run_id": "of the query's run",
    "running_after_ms": "from the start to RUNNING",
    "running_at": "when all tasks ran",
    "samples": "that it was measured by",
    "saturated_share": "share of the samples in which the input was full",
    "scheduling_delay_ms": "from the submission to the start",
    "segments": "network buffers of the TaskManager",
    "segments_free": "of them free",
    "segments_requested": "requested over all, 0 to 1 and above",
    "shortest": "shortest queue of a channel, buffers",
    "skew": "Flink's score of the records in, 0 (even) to 100",
    "slowest": "the slowest step",
    "started_at": "when it began",
    "state": "ongoing or recovered",
    "state_rows": "rows in the state stores",
    "status": "what became of it (the words of the report)",
    "step": "of the start",
    "stream_id": "of the input stream",
    "submission_ms": "milliseconds since the epoch",
    "subtask": "as Flink prints it: i/n",
    "subtask_index": "0-based",
    "subtasks": "of the job that it runs",
    "task": "name of the task, without its subtask",
    "taskmanager": "resource id",
    "tasks": "that took the step, or were deployed",
    "time_ms": "when, milliseconds since the epoch",
    "total": "buffers queued in all remote channels",
    "total_delay_ms": "from the submission to the end",
    "trigger": "what set the restart off",
    "triggered_at": "when it was triggered",
    "type": "as Flink calls it; a savepoint is one",
    "unmatched": "whether the expiry itself is cut off",
    "vertex_id": "of the job graph",
    "watermark": "of the query",
}

_TEXT: Final = pa.string()
_CLUSTER: Final = Column(
    "cluster", _TEXT, "tells clusters apart whose logs lie together; else empty"
)
_JOB: Final = (
    Column("job_id", _TEXT, "of the Flink job"),
    Column("job_name", _TEXT, "as the job is called"),
)
_APPLICATION: Final = (
    Column("application", _TEXT, "id of the Spark application; null: no input tells"),
    Column("application_name", _TEXT, "as it is called"),
)
_QUERY: Final = (
    Column("query", _TEXT, "id of the streaming query"),
    Column("query_name", _TEXT, "as it is called"),
)
_SUBTASK: Final = (
    Column("task", _TEXT, _ABOUT["task"]),
    Column("subtask_index", pa.int64(), _ABOUT["subtask_index"]),
)
_SUBJECT: Final = (
    Column("subject", _TEXT, "kind of the convicted: subtask, task, taskmanager, …; null: nobody"),
    *_SUBTASK,
    Column("taskmanager", _TEXT, _ABOUT["taskmanager"]),
    Column("host", _TEXT, _ABOUT["host"]),
)
_SOURCES: Final = "what was read, whatever was judged of it"


def _of(row: type[Any], *keys: Column, without: Iterable[str] = ()) -> tuple[Column, ...]:
    known = {key.name for key in keys}
    return (*keys, *columns_of(row, _ABOUT, {*without, *known}))


TABLES: Final = (
    Table("events", (), f"A record of an input that was understood: {_SOURCES}.", views.EVENTS),
    Table(
        "metrics",
        ("checkpoints", "queues", "memory", "startup"),
        f"A series of Flink's metrics in one minute: {_SOURCES}, of the metrics that are measured.",
        views.METRICS,
    ),
    Table(
        "checkpoints",
        ("checkpoints",),
        "The life of one checkpoint.",
        _of(wire.Checkpoint, _CLUSTER, *_JOB),
    ),
    Table(
        "late_acknowledgements",
        ("checkpoints",),
        "An acknowledgement that came after the expiry.",
        _of(wire.LateAcknowledgement, _CLUSTER, *_JOB),
    ),
    Table(
        "declines",
        ("checkpoints",),
        "A subtask that refused a checkpoint.",
        _of(wire.Decline, _CLUSTER, *_JOB),
    ),
    Table(
        "late_taskmanagers",
        ("checkpoints",),
        "How many late subtasks a TaskManager has, and how many its share of subtasks explains.",
        _of(wire.TaskManager, _CLUSTER, *_JOB),
    ),
    Table(
        "checkpoint_episodes",
        ("checkpoints",),
        "Checkpoints that expired without much between, and who held them up.",
        (*_of(wire.CheckpointEpisode, _CLUSTER, *_JOB, without=("subject",)), *_SUBJECT),
    ),
    Table(
        "batches",
        ("rate",),
        "A batch of a DStream application.",
        _of(wire.RateBatch, *_APPLICATION),
    ),
    Table(
        "pid_steps",
        ("rate",),
        "What the rate estimator of one stream made of one batch.",
        _of(wire.PidStep, *_APPLICATION),
    ),
    Table(
        "triggers",
        ("rate",),
        "One execution of a streaming query.",
        (
            *_of(wire.RateTrigger, *_APPLICATION, *_QUERY, without=("durations_ms",)),
            Column(
                "durations_ms",
                pa.map_(_TEXT, pa.int64()),
                "of its phases, by Spark's names of them",
            ),
        ),
    ),
    Table(
        "vertices",
        ("queues",),
        "One vertex of a job graph over the time that is judged; values are maxima over its subtasks.",
        _of(queues.QueueVertex, *_JOB, without=("inputs", "subtasks", "total", "truncated")),
    ),
    Table(
        "subtasks",
        ("queues",),
        "One subtask over the time that is judged.",
        _of(queues.QueueSubtask, *_JOB, *_SUBTASK, without=("gates",)),
    ),
    Table(
        "input_gates",
        ("queues",),
        "Queued buffers in the remote channels of one input gate of a subtask.",
        _of(queues.QueueGate, *_JOB, *_SUBTASK),
    ),
    Table(
        "taskmanagers",
        ("queues",),
        "One TaskManager that runs subtasks of a job, over the time that is judged.",
        _of(queues.QueueTaskManager, Column("job_id", _TEXT, "of the Flink job")),
    ),
    Table(
        "starts",
        ("startup",),
        "One start of a job.",
        _of(startup.StartAttempt, *_JOB, without=("steps",)),
    ),
    Table(
        "start_steps",
        ("startup",),
        "A step of a start; those before any job have no job.",
        (
            *_of(
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
    Table("workers", ("startup",), "A TaskManager on its way.", _of(startup.StartWorker)),
)

BY_NAME: Final = {table.name: table for table in TABLES}


def tables_of(topics: Iterable[str]) -> tuple[Table, ...]:
    """The tables of a diagnosis of these topics."""
    wanted = set(topics)
    return tuple(table for table in TABLES if not table.topics or wanted & {*table.topics})


def tables_document() -> str:
    """docs/tables.md."""
    lines = [_HEAD]
    for table in TABLES:
        whose = ", ".join(f"`{topic}`" for topic in table.topics) or "all topics"
        lines += [f"## {table.name}", "", f"{table.about} Written by {whose}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            kind = f"{column.type}{'' if column.nullable else ', never null'}"
            lines.append(f"| `{column.name}` | {kind} | {column.about} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


_HEAD: Final = """\
# The tables of `--data-dir`

Generated from the schemas. `flowdiag diagnose logs/ --data-dir data/` writes each table as a folder of Parquet
files, whole: `--max-rows` cuts the lists of the report, not these.

```sh
flowdiag diagnose logs/ --data-dir data/
duckdb -c "SELECT task, count(*) FROM 'data/late_acknowledgements/*.parquet' GROUP BY ALL ORDER BY 2 DESC"
```

- The folder appears when it is complete. One that exists is taken if it is empty or holds such tables and
  nothing else, which are replaced; anything else is refused before the work.
- `flowdiag.json` in it names the tables, their files and rows (`flowdiag.tables/1`: added tables and columns
  do not raise the number). A table of a topic that was diagnosed is there even if it is empty.
- `events` and `metrics` hold everything that was understood, as `flowdiag.read` returns it; they are written by
  the tasks of Spark that read it, so that memory does not grow with the input. The others hold what was
  judged (`--since`, `--until`, `--job`).
- Secrets are masked; `--no-excerpts` leaves `cause`, `reason`, `thread` and `fields` empty. Names are as the logs
  have them: `--redact` is refused.
- On a cluster (`--master`), the folder is a URL that executors and this machine can write (`s3://`, `gs://`,
  `abfs://`, `hdfs://`, `file://` for a path that all share). There `flowdiag.json` is written last:
  without it the tables are not complete.

Instants are UTC; `_ms` are milliseconds, `_index` counts from 0.
"""
