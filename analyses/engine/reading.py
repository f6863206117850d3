"""Reads sources into a frame of raw events. The size of the input determines which process parses it.

| input | parsed by | passed to Spark |
|---|---|---|
| small | this process | as one Arrow table, while Spark still starts; many rows as a Parquet file |
| large | processes on this host (`parsers.parallel`) | the same, with one file per process |
| large, on a cluster | executors (`parsers.on_spark.frame`) | on the executors |

All of them call `parsers.split.parse_split`, so events have the same meaning everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.analyses.engine.frames import cached_frame
from flowdiag.parsers.cleanup import private_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import usable_processors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.model.columns import Keeper
    from flowdiag.parsers.parallel import Rows
    from flowdiag.parsers.source import Source
    from flowdiag.parsers.split import Split

ProgressCallback = Callable[[str], None]

# Up to this size, one process parses everything before another process would have started
# (benchmarks/README.md).
LOCAL_BYTES: Final = 48 * 1024 * 1024
# On a cluster, the driver parses inputs up to this size before Spark's workers would have started.
DRIVER_BYTES: Final = 256 * 1024 * 1024
# Up to this size, one core finishes all queries before two cores would have distributed them.
FEW_ROWS: Final = 300_000
# Up to this size, Spark gets rows as a table, which it copies for each query. In `startup`, six copies of
# 130,000 rows filled a gigabyte.
TABLE_ROWS: Final = 30_000
# Parsing cost of a byte, relative to a log. Event logs are mostly task events, which are only summed up.
_WEIGHTS: Final = {"spark-events": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources for reading and measuring.

    Args:
        tune: called with the number of rows (None if unknown) before the queries over them.
        executors: whether Spark executors on other hosts parse large inputs.
        processes: number of local processes for large inputs; None for one per processor.
        folder: a folder for rows that exceed memory; None for a temporary one, which this process removes.
        local_bytes: maximum size of an input that this process parses alone.
        few_rows: maximum number of rows that are best kept in one partition.
        table_rows: maximum number of rows that Spark gets as a table and not as files. On a cluster, which cannot read
            local files, rows are always a table.
        keep: receives the tables of all rows; None if they are not needed.
        explained: returns the error behind an environment failure, after which no measurement is possible.
    """

    tune: Callable[[int | None], None] = lambda rows: None
    executors: bool = False
    processes: int | None = None
    folder: Path | None = None
    local_bytes: int = LOCAL_BYTES
    few_rows: int = FEW_ROWS
    table_rows: int = TABLE_ROWS
    keep: Keeper | None = None
    explained: Callable[[Exception], FlowdiagError | None] = lambda error: None

    def fit_one_partition(self, rows: int | None) -> bool:
        """Return whether this many rows fit best in a single partition."""
        return rows is not None and rows <= self.few_rows


ORDINARY: Final = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSources:
    """The parsed sources, before Spark reads them.

    Args:
        table: the rows in memory, with or without metrics.
        events: the same rows in files, which Spark reads if there are many.
        metrics: the rows of metrics in files; None if the other fields contain them.
        tasks: tasks for executors; if there are any, all other fields are empty.
        rows: number of rows without metrics in files; None if not known yet.
    """

    table: pa.Table | None = None
    events: Rows | None = None
    metrics: Rows | None = None
    tasks: Sequence[Sequence[Split]] | None = None
    rows: int | None

    def of_kinds(self, kinds: Collection[str]) -> pa.Table:
        """Return the rows of the given kinds of events, without metrics in files.

        Raises:
            ValueError: the rows have not been parsed yet.
        """
        if self.table is not None:
            event_kinds = pa.array(sorted(kinds), pa.string())
            return self.table.filter(pc.is_in(self.table["event"], value_set=event_kinds))
        if self.events is not None:
            return self.events.of_kinds(kinds)
        raise ValueError("executors have not parsed these rows yet")


def read(
    sources: Sequence[Source],
    resources: Resources,
    *,
    metrics: Collection[str] | None = None,
    progress: ProgressCallback = lambda stage: None,
) -> ParsedSources:
    """Parse the sources without Spark, unless executors parse them.

    Args:
        sources: the result of `parsers.discover.discover`.
        resources: the resources for parsing.
        metrics: names of the metrics that become rows; None for all known metrics.
        progress: called with the name of each stage.

    Raises:
        FlowdiagError: the parsed rows exceed memory or disk.
    """
    from flowdiag.parsers.split import parse_on_driver, plan_splits

    if cost(sources) <= resources.local_bytes:
        progress("reading")
        table = parse_on_driver(plan_splits(sources), metrics)
        return ParsedSources(
            table=table, events=_rows_in_file(table, resources), rows=table.num_rows
        )
    if resources.executors:
        return ParsedSources(tasks=plan_splits(sources), rows=None)
    progress("reading")
    from flowdiag.parsers.parallel import parse_in_processes, rows_in_file

    # Every way of parsing uses the same tasks, because metric reports are added up within a task.
    parsed = parse_in_processes(
        plan_splits(sources),
        resources.folder or _temporary_folder(),
        processes=resources.processes or usable_processors(),
        metrics=metrics,
        on_progress=lambda share: progress(f"reading, {share:.0%}"),
    )
    count = parsed.events.count
    if not resources.fit_one_partition(count):
        return ParsedSources(events=parsed.events, metrics=parsed.metrics, rows=count)
    # With one file per task, Spark would spend 60 ms on each file: a quarter of its time for 97,000 rows in
    # 100 files.
    table = parsed.events.table()
    events = _rows_in_file(table, resources)
    measured = parsed.metrics
    if measured.count <= resources.table_rows:
        measured = rows_in_file(
            measured.table(), (resources.folder or _temporary_folder()) / "metrics"
        )
    return ParsedSources(table=table, events=events, metrics=measured, rows=count)


def frame_of(
    found: ParsedSources, spark: SparkSession, metrics: Collection[str] | None = None
) -> DataFrame:
    """Return the parsed rows as a frame of `EVENTS`, without metrics in files.

    Args:
        found: the result of `read`.
        spark: the session.
        metrics: names of the metrics for executors, as in `read`.
    """
    from flowdiag.parsers.on_spark.frame import events_frame, files_frame

    if found.tasks is not None:
        # Without this, each query would parse everything again.
        return cached_frame(events_frame(spark, found.tasks, metrics), large=True)
    if found.events is not None:
        return files_frame(spark, found.events.files)
    assert found.table is not None
    return events_frame(spark, found.table)


def metrics_frame(found: ParsedSources, spark: SparkSession) -> DataFrame | None:
    """Return the metrics in files and the section headers as one frame, or None without metrics."""
    if found.metrics is None or not found.metrics.files:
        return None
    from flowdiag.parsers.on_spark.frame import files_frame

    return files_frame(spark, found.metrics.files)


def cost(sources: Sequence[Source]) -> float:
    """Estimate the cost of parsing these sources, in bytes of a plain log."""
    from flowdiag.parsers.split import UNPACKED

    return sum(
        source.size * (1 if source.codec == "none" else UNPACKED) * _WEIGHTS.get(source.kind, 1)
        for source in sources
        if source.kind != "not-read"
    )


def _rows_in_file(table: pa.Table, resources: Resources) -> Rows | None:
    """Write a large table to a file. Return None if the table is small, or if executors could not read the file."""
    if table.num_rows <= resources.table_rows or resources.executors:
        return None
    from flowdiag.parsers.parallel import rows_in_file

    return rows_in_file(table, (resources.folder or _temporary_folder()) / "rows")


def _temporary_folder() -> Path:
    return private_folder("flowdiag-rows-")[0]
