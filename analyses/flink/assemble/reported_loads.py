"""Builds the loads of subtasks since their start from REST responses and archives.

`/jobs/:id/vertices/:vid` counts records and bytes per subtask in every version, and from 1.16 on also busy
and back-pressured time. These are totals over the life of an attempt. They
complete metric reports but never replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowdiag.analyses.flink.job import SubtaskLoad
from flowdiag.analyses.model.keys import JobKey, Ref

Row = Mapping[str, Any]

_TIMES: Final = {
    "busy": "accumulated-busy-time",
    "idle": "accumulated-idle-time",
    "back_pressured": "accumulated-backpressured-time",
}
# An attempt that has barely run is not comparable to its siblings.
_LIVED_MS: Final = 5_000.0


def reported_loads(
    rows: Iterable[Row], job_of: Callable[[Row], JobKey | None]
) -> list[SubtaskLoad]:
    """Build loads from `placed` rows, for the last attempt of each subtask, with `samples` set to 0.

    Args:
        rows: rows of `lifecycle.incidents`.
        job_of: returns the job of a row, or None.
    """
    best: dict[tuple[JobKey | None, str, int], Row] = {}
    for row in rows:
        fields = row["fields"] or {}
        if row["event"] != "placed" or row["task"] is None or row["subtask_index"] is None:
            continue
        # Totals are incomplete until all TaskManagers have reported.
        if fields.get("read-records") is None or fields.get("read-records-complete") == "false":
            continue
        key = (job_of(row), row["task"], row["subtask_index"])
        known = best.get(key)
        if known is None or (row["attempt"] or 0) >= (known["attempt"] or 0):
            best[key] = row
    return [
        _load(job, task, index, row)
        for (job, task, index), row in sorted(best.items(), key=lambda item: item[0][1:])
    ]


def _load(job: JobKey | None, task: str, index: int, row: Row) -> SubtaskLoad:
    fields = row["fields"] or {}
    lived = _number(fields.get("ms_RUNNING")) or _number(row["duration_ms"]) or 0.0
    shares: dict[str, float | None] = dict.fromkeys(_TIMES)
    if lived >= _LIVED_MS:
        shares = {
            name: None if total is None else min(1000.0, 1000 * total / lived)
            for name, total in ((name, _number(fields.get(key))) for name, key in _TIMES.items())
        }
    return SubtaskLoad(
        job=job,
        task=task,
        subtask_index=index,
        taskmanager=row["taskmanager"],
        host=row["host"],
        samples=0,
        busy=shares["busy"],
        idle=shares["idle"],
        back_pressured=shares["back_pressured"],
        records_in=_number(fields.get("read-records")),
        records_out=_number(fields.get("write-records")),
        bytes_in=_number(fields.get("read-bytes")),
        ref=Ref(row["source"], row["offset"]) if row["source"] is not None else None,
    )


def _number(value: object) -> float | None:
    """Parse a finite number, or None for placeholders (-1, NaN)."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < 1e18 else None
