"""Keeping a frame that several queries read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# `min` of a struct makes Spark sort all rows by all keys, `min` of a number does not.
_TERABYTE: Final = (
    1 << 40
)  # below it every offset; above it there is room for eight million sources
PLACE: Final = f"(source * {_TERABYTE}L + offset)"
"""SQL: a source and an offset in it as one number, in the order of both."""


def unplaced(place: str) -> str:
    """SQL: the struct (source, offset) of a number that `PLACE` made.

    >>> unplaced("p")
    "named_struct('source', CAST(p DIV 1099511627776L AS INT), 'offset', p % 1099511627776L)"
    """
    source = f"CAST({place} DIV {_TERABYTE}L AS INT)"
    return f"named_struct('source', {source}, 'offset', {place} % {_TERABYTE}L)"


_stored: Final[ContextVar[list[DataFrame] | None]] = ContextVar("stored", default=None)


@contextmanager
def released() -> Iterator[None]:
    """Free at the end of the block what `kept` stored in it: for a Spark that goes on afterwards."""
    frames: list[DataFrame] = []
    before = _stored.set(frames)
    try:
        yield
    finally:
        _stored.reset(before)
        for frame in frames:
            frame.unpersist()


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
    frames = _stored.get()
    if frames is not None:
        frames.append(frame)
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    # The plan with what is stored in place of what it takes to make it.
    plan = stored.queryExecution().withCachedData()
    of_rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows
    return DataFrame(of_rows(stored.sparkSession(), plan), frame.sparkSession)
