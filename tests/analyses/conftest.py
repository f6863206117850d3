"""Tiny frames of events, written as literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from flowdiag.analyses.engine.reading import ParsedSources
from flowdiag.analyses.flink.clocks.survey import Survey, survey
from flowdiag.analyses.flink.settled import rare_of
from flowdiag.parsers.rows import EVENTS, METRIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Events = Callable[..., "DataFrame"]


@pytest.fixture
def events(spark: SparkSession) -> Events:
    """Return rows of EVENTS from dictionaries. Unless set, the source is 0 and offsets increase."""
    from flowdiag.parsers.on_spark.frame import events_frame

    def make(*rows: Mapping[str, Any]) -> DataFrame:
        full = [
            {**dict.fromkeys(EVENTS.names), "source": 0, "offset": 100 * number, **row}
            for number, row in enumerate(rows)
        ]
        for row in full:
            row["fields"] = list((row["fields"] or {}).items())
        return events_frame(spark, pa.Table.from_pylist(full, schema=EVENTS))

    return make


def surveyed(frame: DataFrame) -> Survey:
    """Return the resolved clocks and writers of a frame's rows. Metrics have no scope here."""
    table = frame.toArrow()
    table = table.append_column("metric", pa.nulls(table.num_rows, METRIC))
    return survey(*rare_of(ParsedSources(table=table, rows=table.num_rows)))
