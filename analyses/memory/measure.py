"""Collects memory records from logs and REST responses with Spark, as one small frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.sql import Part, Queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SQL: Final = Queries("flowdiag.analyses.memory", {})


def memory_records(events: DataFrame) -> Part:
    """Return the memory records of processes."""
    return SQL.part("printed", events=events)


def usage(events: DataFrame) -> Part:
    """Return, per process, the memory logger's sample count and peak, and the minimum in each quarter of the time.

    Sizes are in megabytes as printed. `floors` contains the smallest used heap of each quarter, oldest first.
    """
    return SQL.part("usage", events=events)


def queries(events: DataFrame) -> tuple[Part, ...]:
    """Return the queries for `assemble_memory` in addition to attempts and incidents."""
    return (memory_records(events), usage(events))
