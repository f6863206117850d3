"""Provides raw events as a Spark DataFrame.

Small inputs are parsed on the driver while the JVM starts, and passed to Spark as one Arrow table. Large inputs are
parsed in Spark tasks. Both ways use the same `parse_split`, so the events are identical.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from flowdiag.parsers.packing import PACKED, packed
from flowdiag.parsers.parallel import rows_of_task
from flowdiag.parsers.plugins import messages, use_messages
from flowdiag.parsers.split import Split

_SIMPLE: Final[dict[pa.DataType, T.DataType]] = {
    pa.string(): T.StringType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.bool_(): T.BooleanType(),
    pa.timestamp("us", "UTC"): T.TimestampType(),
}


def spark_type(arrow_type: pa.DataType) -> T.DataType:
    """Return the equivalent Spark type of an Arrow type, for the types in flowdiag's tables.

    Raises:
        TypeError: an unsupported type.

    >>> spark_type(pa.map_(pa.string(), pa.int64())).simpleString()
    'map<string,bigint>'
    """
    if arrow_type in _SIMPLE:
        return _SIMPLE[arrow_type]
    if pa.types.is_map(arrow_type):
        return T.MapType(spark_type(arrow_type.key_type), spark_type(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return spark_schema(list(arrow_type))
    if pa.types.is_list(arrow_type):
        return T.ArrayType(spark_type(arrow_type.value_type))
    raise TypeError(f"no Spark type for {arrow_type}")


def spark_schema(fields: Sequence[pa.Field] | pa.Schema) -> T.StructType:
    """Convert Arrow fields to a Spark schema, including nullability.

    >>> spark_schema([pa.field("n", pa.int32(), nullable=False)]).simpleString()
    'struct<n:int>'
    """
    return T.StructType(
        [T.StructField(each.name, spark_type(each.type), each.nullable) for each in fields]
    )


EVENTS: Final = spark_schema(PACKED)
"""`flowdiag.parsers.packing.PACKED` as a Spark schema."""


def events_frame(
    spark: SparkSession,
    events: pa.Table | Sequence[Sequence[Split]],
    metrics: Collection[str] | None = None,
) -> DataFrame:
    """Return raw events (schema `EVENTS`) in no particular order.

    Args:
        spark: the session.
        events: a table from `flowdiag.parsers.split.parse_on_driver`, or the tasks to parse. Each inner sequence
            becomes one Spark task.
        metrics: used only for tasks; see `parse_split`.
    """
    if isinstance(events, pa.Table):
        # Combine the chunks, because each batch costs Spark more than its rows.
        return spark.createDataFrame(packed(events).combine_chunks(), schema=EVENTS)
    tasks = [pickle.dumps([_with_absolute_path(split) for split in task]) for task in events]
    if not tasks:
        return spark.createDataFrame([], schema=EVENTS)

    added = messages()  # executors lack the user's packages

    def parse(tasks_in: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_messages(added)
        for batch in tasks_in:
            for number in batch.column(0).to_pylist():
                for rows in rows_of_task(pickle.loads(tasks[number]), metrics):
                    yield from packed(pa.Table.from_batches([rows])).to_batches()

    return spark.range(len(tasks), numPartitions=len(tasks)).mapInArrow(parse, schema=EVENTS)


def files_frame(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return raw events (schema `EVENTS`) from the Parquet files of `flowdiag.parsers.parallel`."""
    return spark.read.schema(EVENTS).parquet(*files)


def check_executors(
    spark: SparkSession, files: Mapping[str, int] | None = None, *, tasks: int = 8
) -> list[str]:
    """Find problems on the executors that would prevent parsing in Spark tasks.

    Args:
        spark: a session on a cluster.
        files: local paths that the tasks will open, with their sizes on this host.
        tasks: number of probe tasks. A few more than there are executors reach most of them.

    Returns:
        One clause per host and problem, sorted.
    """
    needed = dict(files or {})

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import socket

        import pyarrow

        found = []
        for _ in batches:
            try:
                import flowdiag.parsers.split  # noqa: F401
            except ImportError as error:
                found.append(f"cannot import {error.name}")
            for path, size in needed.items():
                if not os.path.exists(path):
                    found.append(f"has no file {path}")
                elif os.path.getsize(path) < size:
                    found.append(f"has another file at {path}")
        host = socket.gethostname()
        yield pyarrow.RecordBatch.from_pydict(
            {"problem": [f"{host} {problem}" for problem in found[:3]]},
            schema=pyarrow.schema([("problem", pyarrow.string())]),
        )

    frame = spark.range(tasks, numPartitions=tasks).mapInArrow(probe, schema="problem string")
    return sorted({row["problem"] for row in frame.collect()})


def _with_absolute_path(split: Split) -> Split:
    """Return the split with an absolute path, because Spark's workers run in another folder."""
    path = os.path.abspath(split.source.path)
    if path == split.source.path or "://" in split.source.path:
        return split
    return dataclasses.replace(split, source=dataclasses.replace(split.source, path=path))
