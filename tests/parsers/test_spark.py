from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from flowdiag.parsers.discover import discover
from flowdiag.parsers.on_spark import frame as spark_module
from flowdiag.parsers.on_spark.frame import EVENTS, events_frame, spark_schema, spark_type
from flowdiag.parsers.packing import PACKED, VALUES
from flowdiag.parsers.split import Split, parse_on_driver, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = (
    "2026-01-05 10:00:{second:02d},000 INFO  "
    "org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - "
    "Triggering checkpoint {number} (type=CheckpointType{{name='Checkpoint', "
    "sharingFilesStrategy=FORWARD_BACKWARD}}) @ 17676072000{second:02d} "
    "for job 00000000000000000000000000000007.\n"
)


def test_the_spark_schema_is_the_arrow_schema() -> None:
    assert EVENTS.fieldNames() == PACKED.names
    assert EVENTS["source"] == T.StructField("source", T.IntegerType(), nullable=False)
    assert EVENTS["fields"].dataType == T.MapType(T.StringType(), T.StringType())
    metrics = EVENTS["metrics"].dataType
    assert isinstance(metrics, T.MapType)
    assert isinstance(metrics.valueType, T.StructType)
    assert metrics.valueType.fieldNames() == [field.name for field in VALUES]


def test_unused_types_are_rejected() -> None:
    with pytest.raises(TypeError, match="timestamp"):
        spark_type(pa.timestamp("us"))
    assert spark_schema(pa.schema([("a", pa.list_(pa.int64()))]))["a"].dataType == T.ArrayType(
        T.LongType()
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "flink-jobmanager.log"
    path.parent.mkdir()
    path.write_text("".join(LINE.format(second=number, number=number) for number in range(40)))
    return path


@pytest.mark.spark
def test_executors_and_the_driver_give_the_same_rows(
    spark: SparkSession, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log.parent)
    # A relative path: workers run in another folder.
    tasks = plan_splits(discover([log.name]).sources)
    here = events_frame(spark, parse_on_driver(tasks))
    there = events_frame(spark, tasks)
    assert here.schema == there.schema == EVENTS
    rows = here.orderBy("source", "offset", "event").collect()
    others = there.orderBy("source", "offset", "event").collect()
    # On executors, the marks of clocks and writers are a row.
    assert sum(row["event"] == "marks" for row in others) == 1
    assert rows == [row for row in others if row["event"] != "marks"]
    assert len(rows) == 41
    assert sum(row["event"] == "checkpoint_triggered" for row in rows) == 40


@pytest.mark.spark
def test_nothing_to_parse_is_an_empty_frame(spark: SparkSession) -> None:
    frame = events_frame(spark, [])
    assert frame.schema == EVENTS
    assert frame.count() == 0


def test_absolute_paths_are_set_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    (source,) = discover([log.name]).sources
    anchored = spark_module._with_absolute_path(Split(source, 0, -1))
    assert anchored.source.path == str(log)
    assert spark_module._with_absolute_path(anchored) is anchored
