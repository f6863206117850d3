"""Collects the few records and totals that distinguish applications, clocks and inputs.

`survey_table` surveys events that were parsed on the driver, while Spark still starts. `survey` does the same in Spark
for all other events. Both return the same rows, as dictionaries whose `what` is one of these:

  `stream`: one row per source, with the IDs of applications and runs, and its first batch times. It also contains
  the first and last times, and the smallest offset of its clock.
  `rare`: the records that begin an application (or a YARN container), and the records about splits.
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
"""Maximum number of runs and batch times per source, for matching sources."""

SQL: Final = Queries("flowdiag.analyses.rate", {"most": str(MOST)})

_RARE: Final = (Event.SPLIT, Event.SPARK_LOG_STARTED, Event.SPARK_APPLICATION, Event.SECTION)
_RARE_COLUMNS: Final = ("source", "offset", "event", "job_name", "application", "fields")


def survey(events: DataFrame) -> list[dict[str, Any]]:
    """Return the rows from EVENTS in Spark."""
    return rows_of(SQL.run("survey", events=events))


def survey_table(events: pa.Table) -> list[dict[str, Any]]:
    """Return the rows from EVENTS in memory."""
    events = events.append_column("time", pc.coalesce(events["utc_us"], events["local_us"]))
    rows = events.filter(pc.not_equal(events["event"], Event.SPLIT.value))
    instants = pc.coalesce(rows["epoch_ms"], pc.divide(rows["utc_us"], 1000))
    columns = {
        "source": rows["source"],
        "applications": rows["application"],
        "runs": pc.map_lookup(rows["fields"], "run_id", "first"),
        "batches": rows["epoch_ms"],
        "shift_ms": pc.subtract(pc.divide(rows["local_us"], 1000), instants),
        "time": rows["time"],
        "printed": rows["local_us"],
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
            "applications": _sort_known(row["applications_distinct"]),
            "runs": _sort_known(row["runs_distinct"])[:MOST],
            "batches": _sort_known(row["batches_distinct"])[:MOST],
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


def _sort_known(values: list[Any]) -> list[Any]:
    return sorted(value for value in values if value is not None)
