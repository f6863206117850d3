"""The tables `events` and `metrics`: all recognized records, as frames with documented columns.

A row is a record of an input, with its time, its writer and its values. `flowdiag.read` returns these tables, and
`--data-dir` stores them. Rules use separate tables, with extra columns and one row per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from flowdiag.analyses.engine.sql import Queries, join_columns, sql_literals
from flowdiag.analyses.model.columns import INSTANT, Column
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.model.columns import Keeper
    from flowdiag.parsers.source import Source


_TEXT: Final = pa.string()

_PLACE: Final = (
    Column("input", _TEXT, "name of the input in reports", nullable=False),
    Column("offset", pa.int64(), "byte offset of the record in its decoded stream", nullable=False),
)
_WHO: Final = (
    Column("job_id", _TEXT, "ID of the Flink job"),
    Column("job_name", _TEXT, "name of the Flink job, or of the Spark application or query"),
    Column("vertex_id", _TEXT, "ID of the vertex in the job graph"),
    Column("task", _TEXT, "task name, without the subtask"),
    Column("subtask_index", pa.int32(), "0-based index of the subtask"),
    Column("parallelism", pa.int32(), "parallelism of the task"),
)

EVENTS: Final = (
    *_PLACE,
    Column("event", _TEXT, "kind of event", nullable=False),
    Column("template", _TEXT, "name of the recognized message"),
    Column("time", INSTANT, "time, corrected for time zone and clock"),
    Column(
        "role",
        _TEXT,
        "the process that wrote the record: jobmanager or taskmanager; null if the record is not from a log",
    ),
    Column(
        "cluster", _TEXT, "distinguishes several clusters with logs in one input; otherwise empty"
    ),
    Column("writer_taskmanager", _TEXT, "resource ID of the TaskManager that wrote the record"),
    Column("writer_host", _TEXT, "host of that TaskManager"),
    Column("application", _TEXT, "ID of the Spark application"),
    Column("level", _TEXT, "log level as printed"),
    Column("logger", _TEXT, "simple name of the logging class"),
    Column("thread", _TEXT, "thread name as printed"),
    *_WHO,
    Column("attempt_id", _TEXT, "ID of the execution attempt"),
    Column("attempt", pa.int32(), "0-based number of the attempt"),
    Column("taskmanager", _TEXT, "resource ID of the TaskManager in the record"),
    Column("host", _TEXT, "host named in the record"),
    Column("checkpoint", pa.int64(), "checkpoint ID"),
    Column("epoch_ms", pa.int64(), "trigger time of a checkpoint, or batch time, as printed"),
    Column(
        "duration_ms", pa.int64(), "duration as printed; for Spark, the processing or trigger time"
    ),
    Column("bytes", pa.int64(), "size as printed"),
    Column("from_state", _TEXT, "state before a transition"),
    Column("to_state", _TEXT, "state after a transition"),
    Column("cause", _TEXT, "deepest cause of the record's stack trace, or the reason in its text"),
    Column("fields", pa.map_(_TEXT, _TEXT), "other values in the message"),
)

METRICS: Final = (
    *_PLACE,
    Column("time", INSTANT, "time of the first sample, corrected for time zone and clock"),
    Column(
        "cluster",
        _TEXT,
        "distinguishes several clusters with metrics in one input; otherwise empty",
    ),
    *_WHO,
    Column("taskmanager", _TEXT, "resource ID of the TaskManager"),
    Column("host", _TEXT, "host of the TaskManager"),
    Column("name", _TEXT, "Flink's name for the metric", nullable=False),
    Column("kind", _TEXT, "counter, gauge, meter or histogram"),
    Column("scope", _TEXT, "tm, task, operator, jm or jm-job"),
    Column("operator", _TEXT, "operator name, for operator metrics"),
    Column("samples", pa.int64(), "number of samples in this row, without NaN and text"),
    Column("first", pa.float64(), "first sample"),
    Column("last", pa.float64(), "last sample"),
    Column("min", pa.float64(), "smallest sample"),
    Column("max", pa.float64(), "largest sample"),
    Column("sum", pa.float64(), "sum of the samples"),
)

_BOOKKEEPING: Final = (Event.SPLIT, Event.MARKS, Event.SECTION, Event.KNOWN, Event.METRIC)

SQL: Final = Queries("flowdiag.analyses.engine", {"bookkeeping": sql_literals(*_BOOKKEEPING)})

_COMMON: Final = {"input": "i.name", "time": "timestamp_micros(e.time_us)"}
_NO_TEXT: Final = "CAST(NULL AS STRING)"
# The expressions of columns that are not simply the event's column with the same name.
_OF_FLINK: Final = {**_COMMON, "application": _NO_TEXT}
_OF_SPARK: Final = {
    **_COMMON,
    # The generated key of an unknown application is not an ID.
    "application": "IF(e.app LIKE '?%', NULL, e.app)",
    **dict.fromkeys(("role", "cluster", "writer_taskmanager", "writer_host"), _NO_TEXT),
}
_OF_METRICS: Final = {
    **_COMMON,
    "taskmanager": "coalesce(e.taskmanager, e.writer_taskmanager)",
    "host": "coalesce(e.host, e.writer_host)",
    "name": "e.metric_name",
    "samples": "e.metric.count",
    **{name: f"e.metric.{name}" for name in ("kind", "first", "last", "min", "max", "sum")},
}


def event_table(events: DataFrame, sources: Sequence[Source], engine: str) -> DataFrame:
    """Return the table `events` of settled events.

    Args:
        events: `Settled.events` for Flink, `OwnedEvents.events` for Spark.
        sources: the sources, with the names of the inputs.
        engine: `flink` or `spark`.
    """
    expressions = _OF_SPARK if engine == "spark" else _OF_FLINK
    return _table("event_table", EVENTS, expressions, events, sources)


def metric_table(events: DataFrame, sources: Sequence[Source]) -> DataFrame:
    """Return the table `metrics` of settled Flink events.

    Args:
        events: the result of `Settled.metrics`.
        sources: the sources, with the names of the inputs.
    """
    return _table("metric_table", METRICS, _OF_METRICS, events, sources)


def keep_read(
    keep: Keeper | None,
    engine: str,
    sources: Sequence[Source],
    events: DataFrame,
    metrics: Callable[[], DataFrame] | None = None,
) -> None:
    """Pass the tables of an engine to `keep`.

    Args:
        keep: receives the tables; None if they are not needed.
        engine: `flink` or `spark`.
        sources: the sources, with the names of the inputs.
        events: the input of `event_table`.
        metrics: returns the input of `metric_table`.
    """
    if keep is None:
        return
    keep.frame("events", event_table(events, sources, engine), engine)
    if metrics is not None:
        keep.frame("metrics", metric_table(metrics(), sources), engine)


def _table(
    query: str,
    columns: Iterable[Column],
    expressions: Mapping[str, str],
    events: DataFrame,
    sources: Sequence[Source],
) -> DataFrame:
    inputs = pa.table(
        {
            "source": pa.array([source.index for source in sources], pa.int32()),
            "name": pa.array([source.name for source in sources], pa.string()),
        }
    )
    text = join_columns(
        f"{expressions.get(each.name, f'e.{each.name}')} AS `{each.name}`" for each in columns
    )
    frame = events.sparkSession.createDataFrame(inputs)
    return SQL.run(query, events=events, inputs=frame, columns=text)
