"""Helpers to read a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.facts import OpenTask, Record, SparkThread, StageLoad
from flowdiag.analyses.stacks import stack_of

Row = Mapping[str, Any]
Unit = tuple[int | None, str | None, str | None]
"""Key of a batch or a trigger: the batch time, or run and batch ID."""

JSON: Final = msgspec.json.Decoder()


def event_of(row: Row) -> str:
    """Return the event of a row: `started`, `ended` …"""
    return field_of(row, "what")


def field_of(row: Row, name: str) -> str:
    """Return a field as text, or an empty string."""
    value = (row.get("fields") or {}).get(name)
    return "" if value is None else str(value)


def ref_of(row: Row) -> Ref:
    return Ref(row["source"], row["offset"])


def optional_ref_of(row: Row) -> Ref | None:
    """Return the record of a merged row, or None if several records were merged."""
    ref = row.get("ref")
    return Ref(ref["source"], ref["offset"]) if ref else None


def records_of(rows: Iterable[Row]) -> tuple[Record, ...]:
    """Convert rows to records."""
    return tuple(
        Record(
            kind=row["event"],
            template=row.get("template"),
            time_us=row.get("time_us"),
            host=row.get("host"),
            name=row.get("job_name"),
            cause=row.get("cause"),
            batch_ms=row.get("epoch_ms"),
            duration_ms=row.get("duration_ms"),
            fields=row.get("fields") or {},
            ref=ref_of(row),
        )
        for row in rows
    )


def thread_of(row: Row) -> SparkThread:
    """Convert a row to a thread of a thread dump."""
    fields: Mapping[str, str] = row.get("fields") or {}
    stage = fields.get("stage", "")
    return SparkThread(
        role=fields.get("role", ""),
        run=fields.get("run"),
        stage=int(stage) if stage else None,
        stack=stack_of(
            fields,
            thread=fields.get("thread", ""),
            taskmanager=fields.get("executor"),
            time_us=row.get("time_us"),
            ref=ref_of(row),
        ),
    )


def open_task_of(row: Row) -> OpenTask:
    """Convert a row to a task that has not ended."""
    return OpenTask(
        stage=row["stage"],
        index=row.get("index") or 0,
        stage_name=row.get("name"),
        executor=row.get("executor"),
        host=row.get("host"),
        since_us=row.get("since"),
        ended=row.get("ended") or 0,
        longest_ms=row.get("longest"),
        ref=optional_ref_of(row),
    )


def stage_of(row: Row, largest: Row | None = None, written: int | None = None) -> StageLoad:
    """Convert a row to the stage of a batch or trigger that has the longest task.

    Args:
        row: the row of that stage.
        largest: the row of the stage with the most task time.
        written: the records that all stages wrote.
    """
    slowest, state = row.get("slowest") or {}, row.get("state") or {}
    return StageLoad(
        stage=row["stage"],
        name=row.get("name"),
        tasks=row["tasks"],
        total_ms=row["total"],
        longest_ms=row["longest"],
        index=slowest.get("task", -1),
        executor=slowest.get("executor"),
        host=slowest.get("host"),
        slowest_records=slowest.get("slowest_records") or 0,
        records=row.get("records") or 0,
        gc_ms=row.get("gc") or 0,
        spilled_bytes=row.get("spilled") or 0,
        fetch_ms=row.get("fetch") or 0,
        run_ms=row.get("run"),
        cpu_ms=row.get("cpu"),
        python_ms=row.get("python_ms"),
        python=bool(row.get("python")),
        state_rows=row.get("state_rows") or 0,
        largest_state=state.get("rows") or 0,
        state_partition=state.get("task"),
        written=written,
        largest=stage_of(largest) if largest and largest["stage"] != row["stage"] else None,
    )
