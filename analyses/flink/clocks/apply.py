"""Applies the clocks and writers from `settle` to every event, with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiag.analyses.engine.sql import Queries, sql_literals
from flowdiag.analyses.flink.clocks.settle import Writer
from flowdiag.analyses.flink.clocks.survey import CLUSTER_KEYS, RARE, RARE_COLUMNS, Survey
from flowdiag.parsers.flink.marks import (
    DAY_US,
    JOBMANAGER_LOGGERS,
    TASKMANAGER_LOGGERS,
    TIME_OF_DAY,
)
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SQL: Final = Queries(
    "flowdiag.analyses.flink",
    {
        "rare": sql_literals(*RARE, Event.MARKS),
        "cluster_keys": sql_literals(*CLUSTER_KEYS),
        "rare_columns": ", ".join(RARE_COLUMNS),
        "jobmanager_loggers": sql_literals(*JOBMANAGER_LOGGERS),
        "taskmanager_loggers": sql_literals(*TASKMANAGER_LOGGERS),
        "time_of_day": TIME_OF_DAY,
        "day_us": str(DAY_US),
        "half_day_us": str(DAY_US // 2),
    },
)

# The label of the log collector or, without one, the last section header above the record.
_HEADED: Final = """coalesce(process, last(IF(event = 'section', process, NULL), true) OVER (
      PARTITION BY source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))"""
_PRINTED: Final = "e.shown_us - w.shift_us"
# Named zones have daylight saving time. This does not apply to clocks without a date or with elapsed time.
_IN_ZONE: Final = f"""IF(e.clock IS NULL,
      unix_micros(to_utc_timestamp(timestamp_micros(e.shown_us), :tz)), {_PRINTED})"""
# Two windows that start at an end of the partition, because one that starts at each row is quadratic in Spark.
_WITH_JOB: Final = """IF(checkpoint IS NOT NULL AND job_id IS NULL, coalesce(
       last(job_id, true) OVER (
         PARTITION BY source, owner ORDER BY offset
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
       last(job_id, true) OVER (
         PARTITION BY source, owner ORDER BY offset DESC
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), ''),
     job_id) AS job_id"""  # english: quoted
# A record without a time is placed right after the last trigger above it that prints one.
_IN_ORDER: Final = """IF(time_us IS NULL AND fields['origin'] IS NULL,
     coalesce(last(IF(event = 'checkpoint_triggered', epoch_ms, NULL), true) OVER (
         PARTITION BY source, owner ORDER BY offset
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 0) * 1000
       + row_number() OVER (PARTITION BY source, owner ORDER BY offset),
     shown_us) AS shown_us"""  # english: quoted


def resolve(
    events: DataFrame,
    writers: Sequence[Writer],
    spark: SparkSession,
    surveyed: Survey,
    tz: str | None = None,
    *,
    few: bool = False,
) -> DataFrame:
    """Add the instant and the writer to each event.

    Args:
        events: EVENTS.
        writers: the result of `settle`.
        spark: the session, for the small frame of segments.
        surveyed: the result of `survey`.
        tz: a zone name that overrides every inferred zone.
        few: put all events into one partition, which avoids shuffles in later queries.

    Returns:
        EVENTS + (owner, shown_us, time_us, role, cluster, writer_taskmanager, writer_host), without
        mark rows. A record without a `job_id` (Flink 1.4) gets the job of the stream's last job line. A record
        without any time has no instant, and its position becomes `shown_us`.
    """
    segments = spark.createDataFrame(pa.Table.from_pylist(_segment_rows(writers), schema=_SEGMENTS))
    hint, join = (
        ("/*+ COALESCE(1) */", "/*+ SHUFFLE_HASH(w) */") if few else ("", "/*+ BROADCAST(w) */")
    )
    located = "located_by_midnights" if surveyed.has_times else "located"
    return SQL.run(
        "resolve",
        {"tz": tz} if tz is not None else None,
        events=events,
        segments=segments,
        located=SQL.text(located, hint=hint, owner=_HEADED if surveyed.has_headers else "process"),
        instant=_PRINTED if tz is None else _IN_ZONE,
        columns=_columns(writers),
        join=join,
        hint=hint,
    )


def _columns(writers: Sequence[Writer]) -> str:
    """Return the SQL columns that at least one of the writers needs."""
    expressions = {
        "job_id": _WITH_JOB if any(writer.lacks_job for writer in writers) else "",
        "shown_us": _IN_ORDER if any(w.logged and not w.dated for w in writers) else "",
    }
    needed = [name for name, expression in expressions.items() if expression]
    if not needed:
        return "*"
    return ", ".join([f"* EXCEPT ({', '.join(needed)})", *(expressions[name] for name in needed)])


_SEGMENTS: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("owner", pa.string()),
        ("low_offset", pa.int64()),
        ("high_offset", pa.int64()),
        ("low_us", pa.int64()),
        ("high_us", pa.int64()),
        ("shift_us", pa.int64()),
        ("writer_role", pa.string()),
        ("cluster", pa.string()),
        ("writer_taskmanager", pa.string()),
        ("writer_host", pa.string()),
    ]
)


def _segment_rows(writers: Sequence[Writer]) -> list[dict[str, Any]]:
    rows = []
    for writer in writers:
        segments = writer.clock.segments
        by_offset = all(segment.from_offset >= 0 for segment in segments)
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            low_offset, high_offset = 0, 2**62
            low_us, high_us = -(2**63) + 1, 2**63 - 1
            if by_offset:
                low_offset = segment.from_offset
                high_offset = following.from_offset - 1 if following else 2**62
            else:
                low_us = segment.from_local_us
                high_us = following.from_local_us - 1 if following else 2**63 - 1
            role = writer.role if writer.role in ("jobmanager", "taskmanager") else None
            rows.append(
                {
                    "source": writer.stream.source,
                    "owner": writer.stream.owner,
                    "low_offset": low_offset,
                    "high_offset": high_offset,
                    "low_us": low_us,
                    "high_us": high_us,
                    "shift_us": segment.shift_ms * 1000,
                    "writer_role": role,
                    "cluster": writer.cluster,
                    "writer_taskmanager": writer.taskmanager,
                    "writer_host": writer.host,
                }
            )
    return rows
