"""What logs and answers say about memory, measured with Spark: resolved events in, one small frame out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.flink import lifecycle
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Records that a process prints once per start; few, and wanted one by one. They are not made unique
# over inputs: two processes print the same sizes.
_ONCE: Final = f"""
    event = '{Event.MEMORY}' AND template NOT IN ('memory-usage', 'direct-usage')
    OR event = '{Event.PROCESS_STARTED}'
    OR event = '{Event.CONFIGURATION}' AND (
      contains(fields['key'], 'memory') OR contains(fields['key'], 'heap')
      OR contains(fields['key'], 'network') OR contains(fields['key'], 'backend')
      OR contains(fields['key'], 'rocksdb') OR contains(fields['key'], 'numberOf')
      OR template IN ('state-backend'))
    OR template IN ('yarn-taskmanager-starting', 'pod-creating')
    OR template IN ('operator-event-warning', 'operator-status-error')
      AND (contains(fields['said'], 'OOMKilled') OR contains(fields['said'], 'Evicted')
        OR fields['reason'] IN ('OOMKILLED', 'EVICTED'))"""


def _query(text: str, **frames: DataFrame) -> DataFrame:
    spark = next(iter(frames.values())).sparkSession
    named: dict[str, Any] = dict(frames)
    return spark.sql(text, **named)


def printed(events: DataFrame) -> DataFrame:
    """What processes print about their memory, record by record."""
    return _query(
        f"""
        SELECT 'memory' AS what, event, template, source, offset, owner, time_us, role, cluster,
          coalesce(taskmanager, writer_taskmanager) AS taskmanager,
          coalesce(host, writer_host) AS host, bytes, thread, fields
        FROM {{events}}
        WHERE {_ONCE}
        """,
        events=events,
    )


def usage(events: DataFrame) -> DataFrame:
    """The memory logger, per process: samples, peak, and what is left in each quarter of the time.

    Megabytes as printed; `floors` is the smallest used heap of each quarter, oldest first.
    """
    return _query(
        f"""
        WITH samples AS (
          SELECT source, owner, offset, time_us,
            CAST(fields['heap_used_mb'] AS LONG) AS used,
            CAST(fields['heap_max_mb'] AS LONG) AS most,
            ntile(4) OVER (PARTITION BY source, owner ORDER BY time_us, offset) AS quarter
          FROM {{events}}
          WHERE event = '{Event.MEMORY}' AND template = 'memory-usage'
        ), quarters AS (
          SELECT source, owner, quarter, count(*) AS n, min(used) AS floor, max(used) AS peak,
            max(most) AS most, min(time_us) AS first_us, max(time_us) AS last_us,
            min(offset) AS offset
          FROM samples
          GROUP BY ALL
        )
        SELECT 'usage' AS what, source, owner, sum(n) AS n, max(peak) AS peak, max(most) AS most,
          min(first_us) AS first_us, max(last_us) AS last_us, min(offset) AS offset,
          transform(array_sort(collect_list(struct(quarter, floor))), pair -> pair.floor) AS floors
        FROM quarters
        GROUP BY source, owner
        """,
        events=events,
    )


def facts_frame(events: DataFrame) -> DataFrame:
    """Everything that `memory_assemble` needs, in one frame told apart by `what`."""
    unique = kept(lifecycle.once(events))
    return (
        lifecycle.attempts(unique)
        .unionByName(lifecycle.incidents(unique), allowMissingColumns=True)
        .unionByName(printed(events), allowMissingColumns=True)
        .unionByName(usage(events), allowMissingColumns=True)
    )
