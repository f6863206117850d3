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
        large: keep the rows column by column and compressed: objects of millions of rows would fill
            the JVM's memory, and a query reads few of the columns.
    """
    if is_local(frame) and not large:
        return frame.localCheckpoint(eager=False)
    return _remembered(frame)


def is_local(frame: DataFrame) -> bool:
    """Whether Spark runs on this machine only."""
    return (frame.sparkSession.sparkContext.master or "").startswith("local")


def _remembered(frame: DataFrame) -> DataFrame:
    """A frame over the stored rows of another one, whose plan it does not repeat.

    `persist` alone would not do: Spark does not always find the rows again where a query names the
    frame several times, and then parses everything anew.
    """
    from pyspark.sql import DataFrame

    stored = frame.persist()._jdf
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    # The plan with what is stored in place of what it takes to make it.
    plan = stored.queryExecution().withCachedData()
    of_rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows
    return DataFrame(of_rows(stored.sparkSession(), plan), frame.sparkSession)
