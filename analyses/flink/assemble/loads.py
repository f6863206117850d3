"""What each subtask's metrics say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row
from flowdiag.analyses.flink.job import Attempt, Garbage, SubtaskLoad
from flowdiag.analyses.model.keys import Ref


def loads_of(rows: Iterable[Row], jobs: Jobs, attempts: Mapping[str, Attempt]) -> list[SubtaskLoad]:
    """Loads of `lifecycle.loads`, of subtasks and places as the rest of the input calls them."""
    real = _real(attempts)
    found: list[SubtaskLoad] = []
    windows: dict[int, int | None] = {}
    for row in rows:
        ref = row["ref"]
        taskmanager, host, task = (
            real.get(_scoped(row[name] or ""), row[name])
            for name in ("taskmanager", "host", "task")
        )
        found.append(
            SubtaskLoad(
                job=jobs.of_load(row),
                task=task or "",
                subtask_index=row["subtask_index"],
                taskmanager=taskmanager,
                host=host,
                samples=row["samples"],
                busy=row["busy"],
                idle=row["idle"],
                back_pressured=row["back_pressured"],
                is_back_pressured=row["is_back_pressured"],
                records_in=row["records_in"],
                records_out=row["records_out"],
                bytes_in=row["bytes_in"],
                input_queue=row["input_queue"],
                in_pool_usage=row["in_pool_usage"],
                out_pool_usage=row["out_pool_usage"],
                alignment_ms=None if row["alignment_ns"] is None else row["alignment_ns"] / 1e6,
                start_delay_ms=None
                if row["start_delay_ns"] is None
                else row["start_delay_ns"] / 1e6,
                ref=Ref(ref["source"], ref["offset"]) if ref else None,
                first_us=row["first_us"],
                last_us=row["last_us"],
            )
        )
        windows[id(found[-1])] = row.get("window")
    # A log that was given twice, once of another cluster by its folder, gives two loads of a subtask
    # in each window.
    fullest: dict[tuple[object, ...], SubtaskLoad] = {}
    for load in sorted(found, key=lambda load: -load.samples):
        place = (load.job, load.task, load.subtask_index, load.taskmanager, load.host)
        fullest.setdefault((*place, windows[id(load)]), load)
    return sorted(
        fullest.values(),
        key=lambda load: (
            load.task,
            load.subtask_index,
            load.taskmanager or "",
            load.first_us or 0,
        ),
    )


def garbage_of(rows: Iterable[Row], attempts: Mapping[str, Attempt]) -> list[Garbage]:
    """Rows of `lifecycle.garbage`, of TaskManagers as the rest of the input calls them."""
    real = _real(attempts)
    found = [
        Garbage(
            taskmanager=real.get(_scoped(name := row["taskmanager"] or ""), name),
            host=real.get(_scoped(row["host"] or ""), row["host"]),
            gc_ms=row["gc_ms"],
            span_ms=row["span_ms"],
            samples=row["samples"],
            first_us=row["first_us"],
            last_us=row["last_us"],
            ref=Ref(row["ref"]["source"], row["ref"]["offset"]) if row["ref"] else None,
        )
        for row in rows
        if row["gc_ms"] is not None and (row["span_ms"] or 0) > 0
    ]
    return sorted(found, key=lambda item: (item.taskmanager, item.first_us))


def _real(attempts: Mapping[str, Attempt]) -> dict[str, str]:
    """Names by what metric scopes print of them: dots as `_` from 1.13 on, Prometheus even more."""
    return {
        _scoped(name): name
        for attempt in attempts.values()
        for name in (attempt.taskmanager, attempt.host, attempt.task)
        if name
    }


def _scoped(name: str) -> str:
    """A name as metric scopes print it, or Prometheus."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)
