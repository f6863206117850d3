"""Surveying on the driver and with Spark gives the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdiag.analyses.rate.survey import survey, survey_table
from flowdiag.parsers.discover import discover, limit_to_engine
from flowdiag.parsers.on_spark.frame import events_frame
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "spark"


def key(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["what"], row["source"], row["offset"] or 0


@pytest.mark.spark
def test_both_surveys_are_equal(spark: SparkSession) -> None:
    """The input has event logs, listener lines, REST responses and logs of all versions."""
    folders = [
        str(unpacked(path))
        for name in ("two-receivers", "query-failing")
        for path in ROOT.glob(f"*/{name}")
    ]
    sources = limit_to_engine(discover(folders), "spark").sources
    assert {source.kind for source in sources} >= {"spark-events", "spark-rest", "log"}
    table = parse_on_driver(plan_splits(sources))
    here, there = survey_table(table), survey(events_frame(spark, table))
    assert sorted(here, key=key) == sorted(there, key=key)
    streams = [row for row in here if row["what"] == "stream"]
    assert any(row["runs"] for row in streams)
    assert any(row["batches"] for row in streams)
    assert any(row["shift_ms"] is not None for row in streams)


def test_no_events() -> None:
    assert survey_table(parse_on_driver([])) == []
