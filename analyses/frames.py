"""Keeping a frame that several queries read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept(frame: DataFrame, *, large: bool = False) -> DataFrame:
    """The same rows, computed once when they are first needed, without the plan that made them.

    Spark optimises the whole plan of a frame again for each query over it, which costs more than the
    rows of a small input do: cutting the plan halves the time of measuring. On a cluster the rows of a
    lost executor can be made again, since Spark remembers the tasks that made them.

    Args:
        frame: what is read several times.
        large: keep the rows as bytes: objects of millions of rows would fill the JVM's memory, and
            collecting the garbage take longer than reading them.
    """
    if is_local(frame):
        if large:
            from pyspark.storagelevel import StorageLevel

            return frame.localCheckpoint(False, StorageLevel.MEMORY_AND_DISK)
        return frame.localCheckpoint(eager=False)
    return _remembered(frame)


def is_local(frame: DataFrame) -> bool:
    """Whether Spark runs on this machine only."""
    return (frame.sparkSession.sparkContext.master or "").startswith("local")


def _remembered(frame: DataFrame) -> DataFrame:
    """A frame over the stored rows of another one, whose plan it does not repeat.

    This is what `localCheckpoint` does, without forgetting where the rows came from. `persist` would
    not do: Spark does not find it again where a query names the frame several times.
    """
    from pyspark.sql import DataFrame
    from pyspark.storagelevel import StorageLevel

    spark = frame.sparkSession
    jvm_frame = frame._jdf
    # As bytes: the rows that Spark hands on are overwritten by the next ones.
    level = spark.sparkContext._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
    rows = jvm_frame.queryExecution().toRdd().persist(level)
    stored = spark._jsparkSession.internalCreateDataFrame(rows, jvm_frame.schema(), False)
    return DataFrame(stored, spark)
