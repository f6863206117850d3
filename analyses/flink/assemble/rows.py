"""Accessors for rows, shared by all modules of `assemble`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.analyses.flink.job import ZERO_JOB
from flowdiag.analyses.model.keys import JobKey, Ref

Row = Mapping[str, Any]


def place(row: Row) -> tuple[int, int, int]:
    """Return the sort key of a row: time, source and offset."""
    return (row["time_us"] or 0, row["source"], row["offset"])


def ref_of(row: Row) -> Ref | None:
    """Return the position of a row's record, or None if the row combines several records."""
    if row["source"] is None or row["offset"] is None:
        return None
    return Ref(row["source"], row["offset"])


def key_of(cluster: str | None, job_id: str | None) -> JobKey:
    """Return the key of a job: its ID, plus its cluster if IDs repeat.

    >>> key_of("prod", "a1"), key_of("prod", None)
    (JobKey(cluster='', job_id='a1'), JobKey(cluster='prod', job_id=''))
    """
    repeats = job_id in (None, "", ZERO_JOB)
    return JobKey((cluster or "") if repeats else "", job_id or "")
