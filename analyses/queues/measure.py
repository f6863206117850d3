"""Reduces queue metrics with Spark from resolved events to one small frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.engine.frames import PLACE, cached_frame, place_struct
from flowdiag.analyses.engine.sql import Part, Queries, join_columns, sql_literals, union_all
from flowdiag.analyses.queues.stores import LEVELS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Gauges by meaning. All names of a gauge are equivalent.
GAUGES: Final = {
    "busy": ("busyTimeMsPerSecond",),
    "idle": ("idleTimeMsPerSecond",),
    "back_pressured": ("backPressuredTimeMsPerSecond",),
    "is_back_pressured": ("isBackPressured",),
    "input_queue": ("Shuffle.Netty.Input.Buffers.inputQueueLength", "buffers.inputQueueLength"),
    "in_pool": ("Shuffle.Netty.Input.Buffers.inPoolUsage", "buffers.inPoolUsage"),
    "out_pool": ("Shuffle.Netty.Output.Buffers.outPoolUsage", "buffers.outPoolUsage"),
    "floating": (
        "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
        "buffers.inputFloatingBuffersUsage",
    ),
    "exclusive": (
        "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
        "buffers.inputExclusiveBuffersUsage",
    ),
    "alignment_ns": ("checkpointAlignmentTime",),
    "start_delay_ns": ("checkpointStartDelayNanos",),
    "watermark": ("currentInputWatermark",),
    "records_in_rate": ("numRecordsInPerSecond",),
}
# Gauges of operators, assigned to the task that runs them.
OPERATOR_GAUGES: Final = {
    "pending": ("pendingRecords",),
    "fetch_lag_ms": ("currentFetchEventTimeLag",),
    "emit_lag_ms": ("currentEmitEventTimeLag",),
    "request_ms": ("KafkaProducer.request-latency-avg",),
    "buffer_free": ("KafkaProducer.buffer-available-bytes",),
    "buffer_total": ("KafkaProducer.buffer-total-bytes",),
    "waiting_threads": ("KafkaProducer.waiting-threads",),
    "throttled_ms": ("KafkaProducer.produce-throttle-time-avg",),
    "fetch_ms": ("KafkaSourceReader.KafkaConsumer.fetch-latency-avg",),
    "fetch_bytes": ("KafkaSourceReader.KafkaConsumer.fetch-size-avg",),
    "fetch_records": ("KafkaSourceReader.KafkaConsumer.records-per-request-avg",),
    "last_poll_s": ("KafkaSourceReader.KafkaConsumer.last-poll-seconds-ago",),
    "fetch_throttled_ms": ("KafkaSourceReader.KafkaConsumer.fetch-throttle-time-avg",),
    "in_flight": ("asyncStateProcessing.numInFlightRecords",),
}
COUNTERS: Final = {
    "records_in": ("numRecordsIn",),
    "records_out": ("numRecordsOut",),
    "bytes_in": ("numBytesIn",),
}
MACHINE_GAUGES: Final = {
    "heap_used": ("Status.JVM.Memory.Heap.Used",),
    "heap_max": ("Status.JVM.Memory.Heap.Max",),
    "cpu": ("Status.JVM.CPU.Load",),
    "segments": ("Status.Shuffle.Netty.TotalMemorySegments", "Status.Network.TotalMemorySegments"),
    "segments_free": (
        "Status.Shuffle.Netty.AvailableMemorySegments",
        "Status.Network.AvailableMemorySegments",
    ),
    "segments_requested": ("Status.Shuffle.Netty.RequestedMemoryUsage",),
}
# Event-time gauges by operator, for `marks.sql`. `GAUGES` also contains the watermark of a task's input.
MARKS: Final = ("currentOutputWatermark", "sourceIdleTime", "watermarkAlignmentDrift")
SPLIT_METRICS: Final = ("currentWatermark", "idleTimeMsPerSecond")
_OF_SPLIT: Final = "^split[.].*[.]watermark[.][a-zA-Z]+$"
# Metrics of RocksDB and ForSt, for `stores.sql`. A subtask has the sum or the maximum of its column families.
STORE_SUMS: Final = (
    "cur-size-all-mem-tables",
    "estimate-live-data-size",
    "estimate-num-keys",
    "estimate-pending-compaction-bytes",
    "live-sst-files-size",
    "total-sst-files-size",
)
STORE_METRICS: Final = (
    *(f"*.rocksdb.{name}" for name in STORE_SUMS),
    "*.rocksdb.actual-delayed-write-rate",
    "*.rocksdb.background-errors",
    "*.rocksdb.block-cache-capacity",
    "*.rocksdb.block-cache-pinned-usage",
    "*.rocksdb.block-cache-usage",
    "*.rocksdb.is-write-stopped",
    *(f"*.rocksdb.{name}" for name in LEVELS),
    "*.rocksdb.num-immutable-mem-table",
    "*.rocksdb.num-running-flushes",
    "rocksdb.block_cache_hit",
    "rocksdb.block_cache_miss",
    "rocksdb.stall_micros",
)
FLOWS: Final = ("numRecordsIn", "numRecordsOut", "numLateRecordsDropped")
_GATE: Final = "^(Shuffle[.]Netty|Network)[.]Input[.]([0-9]+)[.](total|min|max|avg)QueueLen$"

METRICS: Final = frozenset(
    name
    for table in (GAUGES, OPERATOR_GAUGES, COUNTERS, MACHINE_GAUGES)
    for names in table.values()
    for name in names
) | frozenset(
    {
        "Status.JVM.GarbageCollector.*.Time",
        *MARKS,
        *FLOWS,
        *STORE_METRICS,
        *(f"split.*.watermark.{name}" for name in SPLIT_METRICS),
        *(
            f"{group}.Input.#.{kind}QueueLen"
            for group in ("Shuffle.Netty", "Network")
            for kind in ("total", "min", "max", "avg")
        ),
    }
)
"""The metrics to keep, by their names in `formats/metrics.toml`."""


def _names(*tables: Mapping[str, tuple[str, ...]]) -> str:
    return sql_literals(*(name for table in tables for names in table.values() for name in names))


def _keys(*tables: Mapping[str, tuple[str, ...]]) -> str:
    return " ".join(
        f"WHEN '{name}' THEN '{key}'"
        for table in tables
        for key, names in table.items()
        for name in names
    )


# Columns that a hash replaces in most rows, because comparing one number is faster than comparing eight texts.
HASHED: Final = {
    "subject": (
        (
            "cluster",
            "job_id",
            "job_name",
            "vertex_id",
            "task",
            "subtask_index",
            "taskmanager",
            "host",
        ),
        "subtask_index",
    ),
    "vertex": (("cluster", "job_id", "job_name", "vertex_id", "task"), "subtask_index"),
    "machine": (("cluster", "taskmanager", "host"), "taskmanager"),
}
"""For each hash, the columns that it replaces, and the column without which the hash is null."""


def _gauges(keys: Iterable[str]) -> str:
    """Return the SQL columns of the gauges. Each takes the metric name that has the most samples."""
    return join_columns(
        # The name breaks ties. Otherwise the order of rows would choose between names with equal samples.
        f"max_by(struct(n, total, low, high, latest), struct(n, name)) FILTER (WHERE key = '{key}') AS {key}"
        for key in keys
    )


SQL: Final = Queries(
    "flowdiag.analyses.queues",
    {
        "subtask": ", ".join(HASHED["subject"][0]),
        "hashes": join_columns(
            f"IF({needed} IS NULL, NULL, xxhash64({', '.join(columns)})) AS {name}"
            for name, (columns, needed) in HASHED.items()
        ),
        "place": PLACE,
        "first_place": place_struct("min(place)"),
        "task_metrics": _names(GAUGES, COUNTERS),
        "operator_metrics": _names(OPERATOR_GAUGES),
        "task_keys": _keys(GAUGES, OPERATOR_GAUGES, COUNTERS),
        "task_gauges": _gauges((*GAUGES, *OPERATOR_GAUGES)),
        "increases": join_columns(
            f"max(increase) FILTER (WHERE key = '{key}') AS {key}" for key in COUNTERS
        ),
        "machine_metrics": _names(MACHINE_GAUGES),
        "machine_keys": _keys(MACHINE_GAUGES),
        "machine_gauges": _gauges(MACHINE_GAUGES),
        "gate": _GATE,
        "mark_metrics": sql_literals(*MARKS),
        "of_split": _OF_SPLIT,
        "flow_metrics": sql_literals(*FLOWS),
        "of_store": "(^|[.])rocksdb[.][a-z_0-9-]+$",
        "added_up": sql_literals(*STORE_SUMS),
    },
)


def windows(events: DataFrame, width_us: int) -> Part:
    """Return one row per subtask and window, with `what` = `window`.

    Columns: those of the subtask, window, samples, resets, first_us, last_us, source, offset. In addition, a struct
    (n, total, low, high) per key of `GAUGES` and `OPERATOR_GAUGES`, and an increase per key of `COUNTERS`. A counter
    that decreases is assumed to restart at zero.
    """
    return SQL.part("windows", events=events, width_us=str(width_us))


def machines(events: DataFrame, width_us: int) -> Part:
    """Return one row per TaskManager and window, with `what` = `machine`. `gc_ms` is the sum over all collectors."""
    return SQL.part("machines", events=events, width_us=str(width_us))


def gates(events: DataFrame) -> Part:
    """Return one row per input gate in the detailed metrics of the whole input, with `what` = `gate`."""
    return SQL.part("gates", events=events)


def marks(events: DataFrame, width_us: int) -> Part:
    """Return the event-time gauges of each subtask, with `what` = `mark`."""
    return SQL.part("marks", events=events, width_us=str(width_us))


def flows(events: DataFrame, width_us: int) -> Part:
    """Return the record counters of each operator, with `what` = `flow`."""
    return SQL.part("flows", events=events, width_us=str(width_us))


def stores(events: DataFrame, width_us: int) -> Part:
    """Return the metrics of each subtask's state store, with `what` = `store`."""
    return SQL.part("stores", events=events, width_us=str(width_us))


def names(events: DataFrame, series: DataFrame) -> Part:
    """Return one row with the evidence for the Flink version, with `what` = `names`.

    Columns: `names` (metrics that some version introduced), `reported` (only metrics from metric reports, because a live
    collection requests only the newer of two names), and `version` (from REST).
    """
    return SQL.part("names", events=events, series=series)


def with_job_ids(metrics: DataFrame, runs: Sequence[tuple[tuple[str, ...], str, int]]) -> DataFrame:
    """Fill in the missing job IDs of metrics by job name and time.

    Args:
        metrics: resolved rows.
        runs: names, ID and start of the runs of each name, in order.
    """
    from pyspark.sql import functions

    # One row sums up to a minute of samples, so it may begin in the run before.
    until_us = functions.col("time_us") + functions.coalesce("duration_ms", functions.lit(0)) * 1000
    # One expression, because a session cluster may have hundreds of runs. The first condition that holds counts.
    known: Any = functions
    for names, job_id, start_us in reversed(runs):
        ran = functions.col("job_name").isin(*names) & (until_us >= start_us)
        known = known.when(ran, functions.lit(job_id))
    return metrics.withColumn("job_id", functions.coalesce("job_id", known))


def queue_rows(
    events: DataFrame, metrics: DataFrame, width_us: int, bucket_us: int | None = None
) -> list[dict[str, Any]]:
    """Return the rows for `assemble_queues` in addition to the common facts, distinguished by `what`.

    Arguments as for `queue_frame`.
    """
    # It imports PyArrow, and light commands import this module with the rules.
    from flowdiag.analyses.flink.settled import rows_of

    rows = rows_of(queue_frame(events, metrics, width_us, bucket_us))
    subjects = [row for row in rows if row["what"] == "subject"]
    measured = [row for row in rows if row["what"] != "subject"]
    for name, (columns, _) in HASHED.items():
        known = {row[name]: {column: row[column] for column in columns} for row in subjects}
        for row in measured:
            if row[name] is not None:
                row.update(known[row[name]])
    # Two inputs may report one subtask with equally many samples, and Spark returns rows in any order.
    measured.sort(key=_order)
    return measured


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    place = row.get("source"), row.get("offset")
    names = (row.get(name) or "" for name in ("taskmanager", "host", "vertex_id", "job_id"))
    return (place[0] is None, place[0] or 0, place[1] or 0, *names)


def queue_frame(
    events: DataFrame, metrics: DataFrame, width_us: int, bucket_us: int | None = None
) -> DataFrame:
    """Return the rows of `queue_rows`, with hashes in place of names.

    Args:
        events: resolved events.
        metrics: resolved rows that include the metrics.
        width_us: length of the windows.
        bucket_us: length of the buckets for event-time gauges and record counters; by default that of the windows.
    """
    series = cached_frame(SQL.run("series", metrics=metrics))
    bucket_us = bucket_us or width_us
    return union_all(
        [
            windows(series, width_us),
            machines(series, width_us),
            gates(series),
            marks(series, bucket_us),
            flows(series, bucket_us),
            stores(series, bucket_us),
            names(events, series),
            SQL.part("subjects", metrics=metrics),
        ]
    )
