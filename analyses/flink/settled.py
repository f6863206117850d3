"""Parses Flink inputs and settles their writers and clocks, the first step of every measurement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.analyses.contract.report import Where
from flowdiag.analyses.engine.frames import cached_frame
from flowdiag.analyses.engine.reading import (
    ORDINARY,
    TABLE_ROWS,
    ParsedSources,
    ProgressCallback,
    Resources,
    frame_of,
    metrics_frame,
    read,
)
from flowdiag.analyses.faults import Faults
from flowdiag.parsers.flink.marks import Marks, decode, marks_and_faults
from flowdiag.parsers.gc_pause import gc_disabled
from flowdiag.parsers.rows import Event, fault_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.analyses.flink.clocks.survey import Survey
    from flowdiag.parsers.source import Source


Result = TypeVar("Result")

# Above this, Spark's own reader is faster. Measured with 190,000 rows (benchmarks/README.md).
FEW_METRICS: Final = 50_000
METRICS_PER_ROW: Final = 12  # approximate number of metrics in a packed row


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Events with their instants, and the writers of the streams.

    Args:
        events: the result of `apply.resolve`, possibly without metric rows.
        metrics: returns a frame with the same columns that contains the metric rows and possibly
            others. The call also tunes Spark for queries over metrics.
        writers: the process that wrote each stream.
        surveyed: the rows of `survey.Survey`, including those about splits.
    """

    events: DataFrame
    metrics: Callable[[], DataFrame]
    writers: tuple[Writer, ...]
    surveyed: tuple[dict[str, Any], ...]

    @property
    def splits(self) -> tuple[dict[str, Any], ...]:
        """The `split` rows, for the list of inputs."""
        return tuple(
            row for row in self.surveyed if row["what"] == "rare" and row["event"] == "split"
        )


def settled_events(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    resources: Resources = ORDINARY,
    tz: str | None = None,
    progress: ProgressCallback = lambda stage: None,
    metrics: Collection[str] | None = None,
    faults: Faults | None = None,
) -> Settled:
    """Parse the sources and settle clocks and writers, without the sources that cause an error.

    Args:
        sources: the result of `parsers.discover.discover`.
        session: waits for Spark and returns the session; local parsing happens before that.
        resources: for reading and measuring.
        tz: a zone name that overrides every inferred zone.
        progress: called with the name of each step.
        metrics: names of the metrics to keep as rows; None for all known ones. A command should name
            the metrics it uses, because a busy cluster reports thousands of samples.
        faults: records errors.

    Raises:
        FlowdiagError: if Spark cannot start or the parsed rows exceed memory or disk space.
    """
    from flowdiag.analyses.flink.clocks.apply import resolve

    settling = _Settling(sources, tz, faults or Faults(resources.explained))
    found = read(sources, resources, metrics=metrics, progress=progress)
    surveyed = None if found.tasks is not None else settling.survey(*rare_of(found))
    progress("starting Spark")
    spark = session()
    resources.tune(found.rows)
    if surveyed is None:
        progress("reading")
    raw = frame_of(found, spark, metrics)
    surveyed = surveyed or settling.survey(*_rare_rows(raw))
    progress("settling clocks")
    writers = settling.settle(surveyed)
    apart = metrics_frame(found, spark)
    if settling.left_out:
        raw = raw.where(settling.kept_sources)
        apart = None if apart is None else apart.where(settling.kept_sources)
    few_events = resources.fit_one_partition(found.rows)
    if apart is not None and surveyed.has_times:
        # To find the day of a time without date, all rows of its source are needed.
        raw, apart = raw.unionAll(apart.where(f"event = '{Event.METRIC}'")), None
        few_events = False
    events = resolve(raw, writers, spark, surveyed, tz, few=few_events)
    if found.table is not None and found.events is None and found.table.num_rows <= TABLE_ROWS:
        # Otherwise every query over the events would analyze and run this query again.
        events = cached_frame(events)

    @cache
    def of_metrics() -> DataFrame:
        if apart is None or found.metrics is None:
            return events
        few = found.metrics.count <= FEW_METRICS
        resources.tune(found.metrics.count * METRICS_PER_ROW if few else None)
        return resolve(apart, writers, spark, surveyed, tz, few=few)

    kept_rows = settling.rows_kept(surveyed)
    return Settled(events=events, metrics=of_metrics, writers=writers, surveyed=kept_rows)


class _Settling:
    """Settles clocks and writers, leaving out sources that cause an error.

    Attributes:
        left_out: indexes of the sources that cause an error.
    """

    def __init__(self, sources: Sequence[Source], tz: str | None, faults: Faults) -> None:
        self._sources = sources
        self._names = {source.index: source.name for source in sources}
        self._tz = tz
        self._faults = faults
        self._rare: list[dict[str, Any]] = []
        self.left_out: set[int] = set()

    def survey(self, rare: list[dict[str, Any]], marks: list[Marks]) -> Survey:
        from flowdiag.analyses.flink.clocks.survey import survey

        self._rare = rare
        marked = {part.source for part in marks}
        # Without the sums of a source's marks, the writer and time of its records are unknown.
        self.left_out = {row["source"] for row in rare if "fault" in (row["fields"] or {})} - marked

        def of_some(some: Sequence[int]) -> Survey:
            selected = set(some)
            return survey(
                [row for row in rare if row["source"] in selected],
                [part for part in marks if part.source in selected],
            )

        return self._skipping_failures({row["source"] for row in rare} | marked, of_some)

    def settle(self, surveyed: Survey) -> tuple[Writer, ...]:
        from flowdiag.analyses.flink.clocks.settle import settle

        groups = {source.index: source.group for source in self._sources}

        def of_some(some: Sequence[int]) -> tuple[Writer, ...]:
            selected = set(some)
            rows = [
                row
                for row in surveyed.rows
                if row["source"] in selected and row.get("other_source", row["source"]) in selected
            ]
            return settle(rows, groups, self._tz, self._names)

        return self._skipping_failures({row["source"] for row in surveyed.rows}, of_some)

    def _skipping_failures(
        self, found: set[int], step: Callable[[Sequence[int]], Result]
    ) -> Result:
        result, left = self._faults.run_skipping_failures(
            sorted(found - self.left_out), step, Where.RESOLVE, source=self._names.get
        )
        self.left_out.update(left)
        return result

    @property
    def kept_sources(self) -> str:
        """SQL condition that excludes the rows of sources that were left out."""
        return f"source NOT IN ({', '.join(map(str, sorted(self.left_out)))})"

    def rows_kept(self, surveyed: Survey) -> tuple[dict[str, Any], ...]:
        """Return the surveyed rows. If sources are left out, only their `split` rows remain, for the list of inputs."""
        if not self.left_out:
            return surveyed.rows
        kept = (row for row in surveyed.rows if row["source"] not in self.left_out)
        lost = (row for row in self._rare if row["source"] in self.left_out)
        splits = (row for row in lost if row["event"] == Event.SPLIT)
        return (*kept, *({"what": "rare", "owner": None, **row} for row in splits))


def _rare_rows(events: DataFrame) -> tuple[list[dict[str, Any]], list[Marks]]:
    """Return the input of `survey` from events that executors parsed."""
    from flowdiag.analyses.flink.clocks.apply import SQL

    rare = rows_of(SQL.run("rare", events=events))
    marks = [decode(row["fields"]["marks"]) for row in rare if row["event"] == Event.MARKS]
    return [row for row in rare if row["event"] != Event.MARKS], marks


def rare_of(found: ParsedSources) -> tuple[list[dict[str, Any]], list[Marks]]:
    """Return the input of `survey` from events that this process parsed."""
    from flowdiag.analyses.flink.clocks.survey import RARE

    kinds = {kind.value for kind in RARE}
    if found.metrics is None and found.table is not None:
        marks, blamed = marks_and_faults(found.table)
        rare = [{"process": None, **fault_row(fault)} for fault in blamed]
        return [*dictionaries(_rare_table(found, kinds)), *rare], marks
    # Read piece by piece, each with separate sums.
    rows = dictionaries(_rare_table(found, kinds | {Event.MARKS.value}))
    marks = [decode(row["fields"]["marks"]) for row in rows if row["event"] == Event.MARKS]
    return [row for row in rows if row["event"] != Event.MARKS], marks


def _rare_table(found: ParsedSources, kinds: Collection[str]) -> pa.Table:
    """Return the rows of these kinds. Among config options, only those that identify a cluster are included."""
    from flowdiag.analyses.flink.clocks.survey import CLUSTER_KEYS, RARE_COLUMNS

    rows = found.of_kinds(kinds).select(RARE_COLUMNS)
    key = pc.map_lookup(rows["fields"], "key", "first")
    other = pc.not_equal(rows["event"], Event.CONFIGURATION.value)
    return rows.filter(pc.or_(other, pc.is_in(key, value_set=pa.array(CLUSTER_KEYS))))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect a small frame through Arrow, with maps as dictionaries."""
    return dictionaries(frame.toArrow())


_RUN_ROWS: Final = 4096


@gc_disabled()
def dictionaries(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a small table, with maps as dictionaries.

    The table unites queries with different columns, so most cells are empty. Columns without a value in
    a batch of rows are skipped.
    """
    names: list[str] = table.schema.names
    maps = {field.name for field in table.schema if str(field.type).startswith("map<")}
    rows: list[dict[str, Any]] = []
    for start in range(0, table.num_rows, _RUN_ROWS):
        part = table.slice(start, _RUN_ROWS)
        columns: list[Iterable[Any]] = []
        for name, column in zip(names, part.columns, strict=True):
            if column.null_count == part.num_rows:
                columns.append(repeat(None, part.num_rows))
                continue
            values = column.to_pylist()
            if name in maps:
                values = [None if value is None else dict(value) for value in values]
            columns.append(values)
        rows += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows
