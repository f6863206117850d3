"""Caches frames that several queries read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# For `min` of a struct, Spark sorts all rows by all keys. For `min` of a number, it does not.
_TERABYTE: Final = 1 << 40  # larger than any offset; leaves room for eight million sources
PLACE: Final = f"(source * {_TERABYTE}L + offset)"
"""SQL that converts source and offset to one number with the same order."""


def place_struct(place: str) -> str:
    """Return SQL that converts a `PLACE` number back to the struct (source, offset).

    >>> place_struct("p")
    "named_struct('source', CAST(p DIV 1099511627776L AS INT), 'offset', p % 1099511627776L)"
    """
    source = f"CAST({place} DIV {_TERABYTE}L AS INT)"
    return f"named_struct('source', {source}, 'offset', {place} % {_TERABYTE}L)"


_stored: Final[ContextVar[list[DataFrame] | None]] = ContextVar("stored", default=None)


@contextmanager
def frames_released() -> Iterator[None]:
    """Free the frames cached by `cached_frame` within the block. The Spark session may live longer."""
    frames: list[DataFrame] = []
    before = _stored.set(frames)
    try:
        yield
    finally:
        _stored.reset(before)
        for frame in frames:
            frame.unpersist()


def cached_frame(frame: DataFrame, *, large: bool = False) -> DataFrame:
    """Return a frame with the same rows but a trivial plan. The rows are computed once, on first use.

    Spark optimizes the whole plan of a frame again for each query. For a small input, planning takes longer than reading
    the rows, so cutting the plan halves the time of an analysis. On a cluster, Spark recomputes the rows of a lost
    executor from their tasks.

    Args:
        frame: a frame that is read several times.
        large: whether to keep the rows as compressed columns. Millions of row objects would fill the JVM's memory, and a
            query reads few of the columns.
    """
    if is_local(frame) and not large:
        return frame.localCheckpoint(eager=False)
    from pyspark.sql import DataFrame

    # `persist` alone is not enough. If a query uses the frame several times, Spark may miss the stored rows
    # and parse everything again.
    stored = frame.persist()._jdf
    frames = _stored.get()
    if frames is not None:
        frames.append(frame)
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    # The plan, with the stored rows instead of their computation.
    plan = stored.queryExecution().withCachedData()
    of_rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows
    return DataFrame(of_rows(stored.sparkSession(), plan), frame.sparkSession)


def is_local(frame: DataFrame) -> bool:
    """Return whether Spark runs on this host only."""
    return (frame.sparkSession.sparkContext.master or "").startswith("local")
