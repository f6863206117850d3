"""What logs and answers say about memory, measured with Spark: resolved events in, one small frame out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.sql import Queries

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


def frames(events: DataFrame) -> tuple[DataFrame, ...]:
    """What `assemble_memory` needs beside attempts and incidents."""
    return (printed(events), usage(events))
