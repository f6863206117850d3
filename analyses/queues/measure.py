"""The metrics that tell of queues, measured with Spark: resolved events in, one small frame out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.frames import PLACE, kept, unplaced
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Gauges by what they mean (catalogue/flink.md 5.3). Where a gauge has two names both say the same.
GAUGES: Final = {
    "busy": ("busyTimeMsPerSecond",),
    "idle": ("idleTimeMsPerSecond",),
    "back_pressured": ("backPressuredTimeMsPerSecond",),
    "is_back_pressured": ("isBackPressured",),
    "input_queue": ("Shuffle.Netty.Input.Buffers.inputQueueLength", "buffers.inputQueueLength"),
    "output_queue": ("Shuffle.Netty.Output.Buffers.outputQueueLength", "buffers.outputQueueLength"),
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
    "consume_ms": ("estimatedTimeToConsumeBuffersMs",),
    "buffer_bytes": ("debloatedBufferSize",),
    "watermark": ("currentInputWatermark",),
    "records_in_rate": ("numRecordsInPerSecond",),
}
# Of operators, taken for the task that runs them.
OPERATOR_GAUGES: Final = {
    "pending": ("pendingRecords",),
    "fetch_lag_ms": ("currentFetchEventTimeLag",),
}
COUNTERS: Final = {
    "records_in": ("numRecordsIn",),
    "records_out": ("numRecordsOut",),
    "bytes_in": ("numBytesIn",),
    "bytes_remote": ("Shuffle.Netty.Input.numBytesInRemote", "numBytesInRemote"),
    "bytes_local": ("Shuffle.Netty.Input.numBytesInLocal", "numBytesInLocal"),
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
_GC: Final = "^Status[.]JVM[.]GarbageCollector[.].*[.]Time$"
_GC_ALL: Final = "Status.JVM.GarbageCollector.All.Time"
_GATE: Final = "^(Shuffle[.]Netty|Network)[.]Input[.]([0-9]+)[.](total|min|max|avg)QueueLen$"
_PER_GATE: Final = (
    "^Shuffle[.]Netty[.]Input[.][0-9]+[.](debloatedBufferSize|estimatedTimeToConsumeBuffersMs)$"
)

METRICS: Final = frozenset(
    name
    for table in (GAUGES, OPERATOR_GAUGES, COUNTERS, MACHINE_GAUGES)
    for names in table.values()
    for name in names
) | frozenset(
    {
        "Status.JVM.GarbageCollector.*.Time",
        "Shuffle.Netty.Input.#.debloatedBufferSize",
        "Shuffle.Netty.Input.#.estimatedTimeToConsumeBuffersMs",
        *(
            f"{group}.Input.#.{kind}QueueLen"
            for group in ("Shuffle.Netty", "Network")
            for kind in ("total", "min", "max", "avg")
        ),
    }
)
"""What to keep of metric reports, as `formats/metrics.toml` calls it."""


def _names(*tables: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"'{name}'" for table in tables for names in table.values() for name in names)


def _keys(*tables: Mapping[str, tuple[str, ...]]) -> str:
    return " ".join(
        f"WHEN '{name}' THEN '{key}'"
        for table in tables
        for key, names in table.items()
        for name in names
    )


def _gauges(keys: Iterable[str]) -> str:
    """The fullest of the names of each gauge, as a struct."""
    return ", ".join(
        f"max_by(struct(n, total, low, high), n) FILTER (WHERE key = '{key}') AS {key}"
        for key in keys
    )


# One row per series and report: the same log given twice counts once.
_DISTINCT: Final = """
    SELECT {keys}, time_us, duration_ms, metric.name AS name, metric.count AS n,
      metric.sum AS total, metric.min AS low, metric.max AS high, metric.first AS first,
      metric.last AS last, min({place}) AS place
    FROM {{events}}
    WHERE event = '{event}' AND time_us IS NOT NULL AND metric.count > 0 AND {condition}
    GROUP BY ALL
"""
_SUBTASK: Final = "cluster, job_id, job_name, vertex_id, task, subtask_index, taskmanager, host"
_INCREASE: Final = """
    sum(greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first END)"""


def windows(events: DataFrame, width_us: int) -> DataFrame:
    """Each subtask in each window: `what` = `window`.

    Columns: the subtask's, window, a struct (n, total, low, high) per key of `GAUGES` and
    `OPERATOR_GAUGES`, an increase per key of `COUNTERS` (a counter that fell counts from zero), samples,
    resets, first_us, last_us, source, offset.
    """
    rows = _DISTINCT.format(
        place=PLACE,
        keys=_SUBTASK,
        event=Event.METRIC.value,
        condition=f"""subtask_index IS NOT NULL AND (
          metric.scope = 'task' AND (metric.name IN ({_names(GAUGES, COUNTERS)})
            OR metric.name RLIKE '{_PER_GATE}')
          OR metric.scope IN ('task', 'operator') AND metric.name IN ({_names(OPERATOR_GAUGES)}))""",
    )
    increases = ", ".join(
        f"max(increase) FILTER (WHERE key = '{key}') AS {key}" for key in COUNTERS
    )
    return events.sparkSession.sql(
        f"""
        WITH rows AS ({rows}),
        steps AS (
          SELECT *, lag(last) OVER (
            PARTITION BY {_SUBTASK}, name ORDER BY time_us, place) AS before
          FROM rows
        ), folded AS (
          SELECT {_SUBTASK}, time_us DIV {width_us} AS window, name,
            CASE name {_keys(GAUGES, OPERATOR_GAUGES, COUNTERS)} ELSE
              IF(endswith(name, 'Ms'), 'consume_ms', 'buffer_bytes') END AS key,
            sum(n) AS n, sum(total) AS total, min(low) AS low, max(high) AS high,
            {_INCREASE} AS increase, count_if(first < before OR last < first) AS resets,
            min(time_us) AS first_us,
            max(time_us + coalesce(duration_ms, 0) * 1000) AS last_us, min(place) AS place
          FROM steps
          GROUP BY ALL
        )
        SELECT 'window' AS what, {_SUBTASK}, window,
          {_gauges((*GAUGES, *OPERATOR_GAUGES))}, {increases},
          max(n) AS samples,
          max(resets) FILTER (WHERE key IN ('records_in', 'records_out', 'bytes_in')) AS resets,
          min(first_us) AS first_us, max(last_us) AS last_us,
          {unplaced("min(place)")}.source AS source, {unplaced("min(place)")}.offset AS offset
        FROM folded
        GROUP BY ALL
        """,
        events=events,
    )


def machines(events: DataFrame, width_us: int) -> DataFrame:
    """Each TaskManager in each window: `what` = `machine`; gc_ms over all collectors."""
    rows = _DISTINCT.format(
        place=PLACE,
        keys="cluster, taskmanager, host",
        event=Event.METRIC.value,
        condition=f"""metric.scope = 'tm' AND taskmanager IS NOT NULL
          AND (metric.name IN ({_names(MACHINE_GAUGES)}) OR metric.name RLIKE '{_GC}')""",
    )
    return events.sparkSession.sql(
        f"""
        WITH rows AS ({rows}),
        steps AS (
          SELECT *, lag(last) OVER in_order AS before, lag(time_us) OVER in_order AS before_us
          FROM rows
          WINDOW in_order AS (
            PARTITION BY cluster, taskmanager, host, name ORDER BY time_us, place)
        ), folded AS (
          SELECT cluster, taskmanager, host, time_us DIV {width_us} AS window, name,
            CASE name {_keys(MACHINE_GAUGES)} ELSE 'gc' END AS key,
            sum(n) AS n, sum(total) AS total, min(low) AS low, max(high) AS high,
            {_INCREASE} AS increase, min(coalesce(before_us, time_us)) AS since_us,
            min(time_us) AS first_us,
            max(time_us + coalesce(duration_ms, 0) * 1000) AS last_us, min(place) AS place
          FROM steps
          GROUP BY ALL
        )
        SELECT 'machine' AS what, cluster, taskmanager, host, window, {_gauges(MACHINE_GAUGES)},
          coalesce(max(increase) FILTER (WHERE name = '{_GC_ALL}'),
                   sum(increase) FILTER (WHERE key = 'gc')) AS gc_ms,
          (max(last_us) - min(since_us)) / 1000 AS span_ms, max(n) AS samples,
          min(first_us) AS first_us, max(last_us) AS last_us,
          {unplaced("min(place)")}.source AS source, {unplaced("min(place)")}.offset AS offset
        FROM folded
        GROUP BY ALL
        """,
        events=events,
    )


def gates(events: DataFrame) -> DataFrame:
    """Each input gate that detailed metrics tell of, over all of the input: `what` = `gate`."""
    return events.sparkSession.sql(
        f"""
        SELECT 'gate' AS what, {_SUBTASK},
          CAST(regexp_extract(metric.name, '{_GATE}', 2) AS INT) AS gate,
          max(metric.count) AS samples,
          {
            ", ".join(
                f"sum(metric.sum) FILTER (WHERE endswith(metric.name, '.{kind}QueueLen')) / "
                f"sum(metric.count) FILTER (WHERE endswith(metric.name, '.{kind}QueueLen')) "
                f"AS {kind}_length"
                for kind in ("total", "min", "max", "avg")
            )
        },
          min(struct(source, offset)).source AS source, min(struct(source, offset)).offset AS offset
        FROM {{events}}
        WHERE event = '{Event.METRIC.value}' AND subtask_index IS NOT NULL
          AND metric.scope = 'task' AND metric.count > 0 AND metric.name RLIKE '{_GATE}'
        GROUP BY ALL
        """,
        events=events,
    )


def names(events: DataFrame, series: DataFrame) -> DataFrame:
    """What tells the version: one row, `what` = `names`.

    Columns: names (of metrics that came with some version), reported (of those, what reporters told: who
    collects asks for the newer of two names only), version (as REST says it).
    """
    return events.sparkSession.sql(
        f"""
        SELECT 'names' AS what,
          collect_set(name) AS names,
          collect_set(name) FILTER (WHERE origin IS NULL) AS reported,
          max(version) AS version
        FROM (
          SELECT metric.name AS name, origin, NULL AS version FROM {{series}}
          WHERE event = '{Event.METRIC.value}' AND metric.name IN (
            'busyTimeMsPerSecond', 'isBackPressured', 'idleTimeMsPerSecond',
            'Shuffle.Netty.Input.Buffers.inPoolUsage', 'buffers.inPoolUsage')
          UNION ALL
          SELECT NULL, NULL, fields['version'] FROM {{events}}
          WHERE event = '{Event.PROCESS_IDENTITY.value}'
        )
        """,
        events=events,
        series=series,
    )


def queue_frame(events: DataFrame, metrics: DataFrame, width_us: int) -> DataFrame:
    """Everything that `assemble_queues` needs beside the common facts, told apart by `what`.

    Args:
        events: resolved events.
        metrics: resolved rows of metrics, among others or not.
        width_us: length of the windows.
    """
    series = kept(
        events.sparkSession.sql(
            f"""
            SELECT {_SUBTASK}, time_us, duration_ms, source, offset, event,
              fields['origin'] AS origin, metric
            FROM {{metrics}} WHERE event = '{Event.METRIC.value}'
            """,
            metrics=metrics,
        )
    )
    return (
        windows(series, width_us)
        .unionByName(machines(series, width_us), allowMissingColumns=True)
        .unionByName(gates(series), allowMissingColumns=True)
        .unionByName(names(events, series), allowMissingColumns=True)
    )
