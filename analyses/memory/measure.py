"""What logs and answers say about memory, measured with Spark: resolved events in, one small frame out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.sql import Queries
from flowdiag.analyses.flink import lifecycle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SQL: Final = Queries("flowdiag.analyses.memory", {})


def printed(events: DataFrame) -> DataFrame:
    """What processes print about their memory, record by record."""
    return SQL.run("printed", events=events)


def usage(events: DataFrame) -> DataFrame:
    """The memory logger, per process: samples, peak, and what is left in each quarter of the time.

    Megabytes as printed; `floors` is the smallest used heap of each quarter, oldest first.
    """
    return SQL.run("usage", events=events)


def facts_frame(events: DataFrame) -> DataFrame:
    """Everything that `memory_assemble` needs, in one frame told apart by `what`."""
    unique = kept(lifecycle.once(events))
    return (
        lifecycle.attempts(unique)
        .unionByName(lifecycle.incidents(unique), allowMissingColumns=True)
        .unionByName(printed(events), allowMissingColumns=True)
        .unionByName(usage(events), allowMissingColumns=True)
    )
