"""What all parts of assembling ask of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.analyses.flink.job import ZERO_JOB
from flowdiag.analyses.model.keys import JobKey, Ref

Row = Mapping[str, Any]


def place(row: Row) -> tuple[int, int, int]:
    """What rows are sorted by: when, and where it is told."""
    return (row["time_us"] or 0, row["source"], row["offset"])


def ref_of(row: Row) -> Ref | None:
    """Where a row is told, if it is of one record."""
    if row["source"] is None or row["offset"] is None:
        return None
    return Ref(row["source"], row["offset"])


def key_of(cluster: str | None, job_id: str | None) -> JobKey:
    """A job by its id, and by its cluster where ids repeat.

    >>> key_of("prod", "a1"), key_of("prod", None)
    (JobKey(cluster='', job_id='a1'), JobKey(cluster='prod', job_id=''))
    """
    repeats = job_id in (None, "", ZERO_JOB)
    return JobKey((cluster or "") if repeats else "", job_id or "")
