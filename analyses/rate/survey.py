"""Who wrote what: the few records and sums that tell applications, clocks and inputs apart.

Of events that were parsed on the driver they are taken while Spark still starts (`survey_table`), of
others by Spark (`survey`); both give the same rows, as dictionaries, told apart by `what`:

  `stream`: per source: ids of applications and runs, its first batch times, the smallest difference
  between its printed clock and an instant that the same record prints, first and last times;
  `rare`: the records that begin an application (or a container of YARN's), and those about splits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.analyses.engine.sql import Queries
from flowdiag.analyses.flink.settled import dictionaries, rows_of
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST: Final = 50
"""Runs and batch times of a source that are enough to find its kin."""

SQL: Final = Queries("flowdiag.analyses.rate", {"most": str(MOST)})

_RARE: Final = (Event.SPLIT, Event.SPARK_LOG_STARTED, Event.SPARK_APPLICATION, Event.SECTION)
_RARE_COLUMNS: Final = ("source", "offset", "event", "job_name", "application", "fields")


def survey(events: DataFrame) -> list[dict[str, Any]]:
    """The rows, of EVENTS in Spark."""
    return rows_of(SQL.run("survey", events=events))


def survey_table(events: pa.Table) -> list[dict[str, Any]]:
    """The rows, of EVENTS in memory."""
    events = events.append_column("time", pc.coalesce(events["utc_us"], events["local_us"]))
    said = events.filter(pc.not_equal(events["event"], Event.SPLIT.value))
    told = pc.coalesce(said["epoch_ms"], pc.divide(said["utc_us"], 1000))
    columns = {
        "source": said["source"],
        "applications": said["application"],
        "runs": pc.map_lookup(said["fields"], "run_id", "first"),
        "batches": said["epoch_ms"],
        "shift_ms": pc.subtract(pc.divide(said["local_us"], 1000), told),
        "time": said["time"],
        "printed": said["local_us"],
    }
    distinct = [(name, "distinct") for name in ("applications", "runs", "batches")]
    sums = (
        pa.table(columns)
        .group_by("source")
        .aggregate(
            [
                *distinct,
                ("shift_ms", "min"),
                ("time", "min"),
                ("time", "max"),
                ("printed", "count"),
                ([], "count_all"),
            ]
        )
        .to_pylist()
    )
    streams = [
        {
            "what": "stream",
            **dict.fromkeys(_RARE_COLUMNS),
            "source": row["source"],
            "applications": _sorted(row["applications_distinct"]),
            "runs": _sorted(row["runs_distinct"])[:MOST],
            "batches": _sorted(row["batches_distinct"])[:MOST],
            "shift_ms": row["shift_ms_min"],
            "first_us": row["time_min"],
            "last_us": row["time_max"],
            "printed": row["printed_count"] > 0,
            "rows": row["count_all"],
        }
        for row in sums
    ]
    kinds = pa.array([kind.value for kind in _RARE])
    rare = events.filter(pc.is_in(events["event"], value_set=kinds))
    nothing = dict.fromkeys(
        ("applications", "runs", "batches", "shift_ms", "last_us", "printed", "rows")
    )
    return streams + [
        {"what": "rare", **{name: row[name] for name in _RARE_COLUMNS}, **nothing}
        | {"first_us": row["time"]}
        for row in dictionaries(rare.select([*_RARE_COLUMNS, "time"]))
        if _begins(row)
    ]


def _begins(row: dict[str, Any]) -> bool:
    if row["event"] == Event.SPARK_APPLICATION:
        return bool((row["fields"] or {}).get("what") == "started")
    return row["event"] != Event.SECTION or row["application"] is not None


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(value for value in values if value is not None)
