"""From sources to a frame of raw events: who parses, and where the rows lie until Spark wants them.

| input | parsed by | handed to Spark |
|---|---|---|
| small | this process | as one Arrow table, while Spark still starts; many rows as a Parquet file |
| large | processes of this machine (`parsers.parallel`) | the same, in as many files |
| large, on a cluster | executors (`parsers.spark.frame`) | where they are |

All call the same `parsers.split.parse_split`, so that they cannot differ in what an event means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.analyses.engine.frames import kept
from flowdiag.parsers.cleanup import private_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import usable_processors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.model.columns import Keeper
    from flowdiag.parsers.parallel import Rows
    from flowdiag.parsers.sources.open import Source
    from flowdiag.parsers.split import Split

ProgressCallback = Callable[[str], None]

# Up to here one process has parsed everything before another one would have started: reckoned from what
# both take (benchmarks/README.md).
HERE_BYTES: Final = 48 * 1024 * 1024
# On a cluster: up to here parsing on the driver is done before Spark's workers would have started.
DRIVER_BYTES: Final = 256 * 1024 * 1024
# Up to here one core has done all queries before two would have shared them out.
FEW_ROWS: Final = 300_000
# Up to here rows are handed over as a table, of which Spark makes a copy for each query that reads it:
# six copies of 130 000 rows, in `startup`, filled a gigabyte.
TABLE_ROWS: Final = 30_000
# What a byte of the others costs, that of a log being 1: tasks, nearly all of an event log, are only
# added up.
_WEIGHTS: Final = {"spark-events": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """With what a diagnosis reads and measures.

    Args:
        tune: told how many rows there are (None: nobody knows), before the queries over them.
        executors: what is large is parsed where Spark runs its tasks: on other machines.
        processes: that parse what is large on this machine; None: one per processor.
        folder: for rows that do not stay in memory; None: one that this process removes.
        here_bytes: up to here this process parses alone.
        few_rows: up to here rows are best kept in one piece.
        table_rows: up to here they are handed over as a table, beyond as files; not to a cluster, which
            cannot read them.
        keep: gets the tables of everything that was read; None: nobody wants them.
        explained: what a failure comes down to where the machine is to blame: then nothing else can be measured.
    """

    tune: Callable[[int | None], None] = lambda rows: None
    executors: bool = False
    processes: int | None = None
    folder: Path | None = None
    here_bytes: int = HERE_BYTES
    few_rows: int = FEW_ROWS
    table_rows: int = TABLE_ROWS
    keep: Keeper | None = None
    explained: Callable[[Exception], FlowdiagError | None] = lambda error: None

    def are_few(self, rows: int | None) -> bool:
        """Whether so many rows are best kept in one piece."""
        return rows is not None and rows <= self.few_rows


ORDINARY: Final = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What the sources say, before Spark knows of it.

    Args:
        table: rows in memory: all, or all but those of metrics.
        events: the same in files, where they are many: Spark reads these.
        metrics: rows of metrics in files; None where they are among the others.
        tasks: what executors have yet to parse: nothing else is known then.
        rows: how many there are, without those of metrics in files; None: nobody knows yet.
    """

    table: pa.Table | None = None
    events: Rows | None = None
    metrics: Rows | None = None
    tasks: Sequence[Sequence[Split]] | None = None
    rows: int | None

    def of_kinds(self, kinds: Collection[str]) -> pa.Table:
        """The rows of some kinds of event, of those that are no metrics in files.

        Raises:
            ValueError: they are not parsed yet.
        """
        if self.table is not None:
            wanted = pa.array(sorted(kinds), pa.string())
            return self.table.filter(pc.is_in(self.table["event"], value_set=wanted))
        if self.events is not None:
            return self.events.of_kinds(kinds)
        raise ValueError("what executors parse is not known here")


def read(
    sources: Sequence[Source],
    resources: Resources,
    *,
    metrics: Collection[str] | None = None,
    progress: ProgressCallback = lambda stage: None,
) -> Read:
    """Parse the sources, unless that is left to executors. Spark is not needed yet.

    Args:
        sources: what `parsers.sources.discover` found.
        resources: with what.
        metrics: names of the metrics of reports that become rows; None for all that are known.
        progress: called with the name of each stage.

    Raises:
        FlowdiagError: there is no room for what was parsed.
    """
    from flowdiag.parsers.split import parse_on_driver, plan_splits

    if cost(sources) <= resources.here_bytes:
        progress("reading")
        table = parse_on_driver(plan_splits(sources), metrics)
        return Read(table=table, events=_in_a_file(table, resources), rows=table.num_rows)
    if resources.executors:
        return Read(tasks=plan_splits(sources), rows=None)
    progress("reading")
    from flowdiag.parsers.parallel import parse_in_processes

    # The same tasks whoever parses them: reports of metrics are added up within one.
    parsed = parse_in_processes(
        plan_splits(sources),
        resources.folder or _own_folder(),
        processes=resources.processes or usable_processors(),
        metrics=metrics,
        on_progress=lambda share: progress(f"reading, {share:.0%}"),
    )
    count = parsed.events.count
    if not resources.are_few(count):
        return Read(events=parsed.events, metrics=parsed.metrics, rows=count)
    # As many files as tasks would cost Spark more than their rows: 60 ms each, a quarter of its time
    # with 97 000 rows in 100 of them.
    table = parsed.events.table()
    events = _in_a_file(table, resources)
    return Read(table=table, events=events, metrics=parsed.metrics, rows=count)


def frame_of(found: Read, spark: SparkSession, metrics: Collection[str] | None = None) -> DataFrame:
    """What was read, as a frame of `EVENTS`; rows of metrics in files are not in it.

    Args:
        found: what `read` returned.
        spark: the session.
        metrics: for executors, as in `read`.
    """
    from flowdiag.parsers.spark.frame import events_frame, files_frame

    if found.tasks is not None:
        # Each query would parse everything anew.
        return kept(events_frame(spark, found.tasks, metrics), large=True)
    if found.events is not None:
        return files_frame(spark, found.events.files)
    assert found.table is not None
    return events_frame(spark, found.table)


def metrics_frame(found: Read, spark: SparkSession) -> DataFrame | None:
    """The rows of metrics in files, and the section headers again; None where there are none."""
    if found.metrics is None or not found.metrics.files:
        return None
    from flowdiag.parsers.spark.frame import files_frame

    return files_frame(spark, found.metrics.files)


def cost(sources: Sequence[Source]) -> float:
    """How long sources take to be parsed, as bytes of a plain log."""
    from flowdiag.parsers.split import UNPACKED

    return sum(
        source.size * (1 if source.codec == "none" else UNPACKED) * _WEIGHTS.get(source.kind, 1)
        for source in sources
        if source.kind != "not-read"
    )


def _in_a_file(table: pa.Table, resources: Resources) -> Rows | None:
    """Rows that are too many to be handed over as a table; None where they are not, or nobody could read the file."""
    if table.num_rows <= resources.table_rows or resources.executors:
        return None
    from flowdiag.parsers.parallel import rows_in_file

    return rows_in_file(table, (resources.folder or _own_folder()) / "rows")


def _own_folder() -> Path:
    return private_folder("flowdiag-rows-")[0]
