"""The part of measuring that commands share: parse; for those about Flink, locate and settle the clocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.analyses.frames import kept
from flowdiag.parsers.flink.marks import Marks, decode, marks_of
from flowdiag.parsers.schema import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.resolve import Writer
    from flowdiag.parsers.sources import Source

Say = Callable[[str], None]

# Up to here parsing on the driver is done before Spark's workers would have started; measured in
# benchmarks/README.md.
DRIVER_BYTES: Final = 256 * 1024 * 1024
# Up to here one core has done all queries before two would have shared them out.
FEW_ROWS: Final = 100_000
# What a byte of the others costs, that of a log being 1: tasks, nearly all of an event log, are only
# added up.
_WEIGHTS: Final = {"spark-events": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Events with their instants and writers.

    Args:
        events: what `resolve.resolve` returned.
        writers: who wrote what.
        surveyed: the rows of `resolve.Survey`, splits among them.
    """

    events: DataFrame
    writers: tuple[Writer, ...]
    surveyed: tuple[dict[str, Any], ...]

    @property
    def splits(self) -> tuple[dict[str, Any], ...]:
        """The `split` rows, for the list of inputs."""
        return tuple(
            row for row in self.surveyed if row["what"] == "rare" and row["event"] == "split"
        )


def raw_events(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    driver_bytes: int = DRIVER_BYTES,
    tune: Callable[[bool], None] = lambda small: None,
    say: Say = lambda stage: None,
    meanwhile: Callable[[pa.Table], None] = lambda events: None,
    metrics: Collection[str] | None = None,
) -> tuple[DataFrame, bool]:
    """What the sources say, in the schema `EVENTS`, and whether it is small and was parsed here.

    What is not small is parsed by each query over the frame anew, unless its plan is cut.

    Args:
        sources: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session; small inputs are parsed before it is asked.
        driver_bytes: up to here parsing on the driver is faster.
        tune: told whether the input is small, before the first query.
        say: told the name of each stage, for progress.
        meanwhile: called with events that were parsed here, while Spark is still starting.
        metrics: names of the metrics of reports that become rows; None for all that are known.
    """
    from flowdiag.parsers.parse import parse_on_driver, plan_splits

    tasks = plan_splits(sources)
    small = cost(sources) <= driver_bytes
    say("reading")
    parsed = parse_on_driver(tasks, metrics) if small else tasks
    say("starting Spark")
    if isinstance(parsed, pa.Table):
        meanwhile(parsed)
    spark = session()
    tune(small)
    # Not before: two threads that import pyspark at once meet half of it.
    from flowdiag.parsers.spark.frame import events_frame

    events = events_frame(spark, parsed, metrics)
    if not small:
        say("reading")
    return events, small


def cost(sources: Sequence[Source]) -> float:
    """How long sources take to be parsed, as bytes of a plain log."""
    from flowdiag.parsers.parse import UNPACKED

    return sum(
        source.size * (1 if source.codec == "none" else UNPACKED) * _WEIGHTS.get(source.kind, 1)
        for source in sources
        if source.kind != "not-read"
    )


def settled_events(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    driver_bytes: int = DRIVER_BYTES,
    tune: Callable[[bool], None] = lambda small: None,
    tz: str | None = None,
    say: Say = lambda stage: None,
    metrics: Collection[str] | None = None,
) -> Settled:
    """Parse the sources, settle clocks and writers.

    Args:
        sources: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session; small inputs are parsed before it is asked.
        driver_bytes: up to here parsing on the driver is faster.
        tune: told whether the input is small, before the first query.
        tz: name of a zone that overrides every inferred one.
        say: told the name of each stage, for progress.
        metrics: as in `raw_events`; name what a command measures, since a report of a busy cluster
            is thousands of samples.
    """
    from flowdiag.analyses import resolve

    found: list[resolve.Survey] = []
    few = False

    def look(parsed: pa.Table) -> None:
        nonlocal few
        few = parsed.num_rows <= FEW_ROWS
        found.append(resolve.survey(*rare_of(parsed)))

    events, small = raw_events(
        sources,
        session,
        driver_bytes=driver_bytes,
        tune=tune,
        say=say,
        metrics=metrics,
        meanwhile=look,
    )
    if not small:
        events = kept(events, large=True)
        rare = rows_of(events.sparkSession.sql(resolve.RARE_SQL, events=events))
        marks = [decode(row["fields"]["marks"]) for row in rare if row["event"] == Event.MARKS]
        found.append(resolve.survey([r for r in rare if r["event"] != Event.MARKS], marks))
    (surveyed,) = found
    say("settling clocks")
    writers = resolve.settle(surveyed.rows, {source.index: source.group for source in sources}, tz)
    return Settled(
        events=resolve.resolve(events, writers, events.sparkSession, surveyed, tz, few=few),
        writers=writers,
        surveyed=surveyed.rows,
    )


def rare_of(events: pa.Table) -> tuple[list[dict[str, Any]], list[Marks]]:
    """What `resolve.survey` wants, of events that were parsed here."""
    from flowdiag.analyses import resolve

    wanted = pc.is_in(events["event"], value_set=pa.array([kind.value for kind in resolve.RARE]))
    return dictionaries(events.filter(wanted).select(resolve.RARE_COLUMNS)), marks_of(events)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect a small frame through Arrow; maps become dictionaries."""
    return dictionaries(frame.toArrow())


def dictionaries(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a small table; maps become dictionaries."""
    maps = [field.name for field in table.schema if str(field.type).startswith("map<")]
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in maps:
            if row[name] is not None:
                row[name] = dict(row[name])
    return rows
