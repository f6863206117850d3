"""Builds the loads of subtasks from metrics, and their threads from thread dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, ref_of
from flowdiag.analyses.flink.job import Attempt, Garbage, Graph, SubtaskLoad
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.stacks import Stack, stack_of


def loads_of(rows: Iterable[Row], jobs: Jobs, attempts: Mapping[str, Attempt]) -> list[SubtaskLoad]:
    """Build loads from `lifecycle.loads` rows. Tasks, TaskManagers and hosts get the names from the other inputs."""
    real = _names_by_scope(attempts)
    found: list[SubtaskLoad] = []
    for row in rows:
        ref = row["ref"]
        taskmanager, host, task = (
            real.get(_scope_name(row[name] or ""), row[name])
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
                window=row.get("window"),
            )
        )
    # If a log is passed twice from two folders (and therefore as two clusters), each window has two loads
    # per subtask.
    fullest: dict[tuple[object, ...], SubtaskLoad] = {}
    for load in sorted(found, key=lambda load: -load.samples):
        place = (load.job, load.task, load.subtask_index, load.taskmanager, load.host)
        fullest.setdefault((*place, load.window), load)
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
    """Build garbage collections from `lifecycle.garbage` rows, with TaskManagers named as in the other inputs."""
    real = _names_by_scope(attempts)
    found = [
        Garbage(
            taskmanager=real.get(_scope_name(name := row["taskmanager"] or ""), name),
            host=real.get(_scope_name(row["host"] or ""), row["host"]),
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


def _names_by_scope(attempts: Mapping[str, Attempt]) -> dict[str, str]:
    """Map scope names to real names. From Flink 1.13 on, scopes replace dots with `_`; Prometheus replaces more."""
    return {
        _scope_name(name): name
        for attempt in attempts.values()
        for name in (attempt.taskmanager, attempt.host, attempt.task)
        if name
    }


def _scope_name(name: str) -> str:
    """Return a name as metric scopes or Prometheus print it."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)


def stacks_of(rows: Iterable[Row]) -> list[Stack]:
    """Return the threads in the order of their dumps."""
    return [
        stack_of(
            row["fields"] or {},
            thread=row["thread"] or "",
            state=row["to_state"] or "",
            task=row["task"],
            subtask_index=row["subtask_index"],
            taskmanager=row["taskmanager"],
            time_us=row["time_us"],
            ref=ref_of(row),
        )
        for row in rows
    ]


def stacks_by_job(
    stacks: Sequence[Stack],
    keys: Sequence[JobKey],
    attempts: Iterable[Attempt],
    graphs: Mapping[JobKey, Graph],
) -> dict[JobKey | None, list[Stack]]:
    """Group threads by job. A dump names the task but not the job.

    A thread belongs to the only job, or to the only job with its task. If several jobs have the task, the
    thread belongs to the job with an attempt of the subtask on that TaskManager.
    """
    if len(keys) == 1:
        return {keys[0]: [*stacks]}
    tasks: dict[str, set[JobKey]] = {}
    places: dict[tuple[str, int | None, str | None], set[JobKey]] = {}
    for key, graph in graphs.items():
        for vertex in graph.vertices:
            tasks.setdefault(vertex.task, set()).add(key)
    for attempt in attempts:
        if attempt.job is not None and attempt.task is not None:
            tasks.setdefault(attempt.task, set()).add(attempt.job)
            where = (attempt.task, attempt.subtask_index, attempt.taskmanager)
            places.setdefault(where, set()).add(attempt.job)
    found: dict[JobKey | None, list[Stack]] = {}
    for stack in stacks:
        named = tasks.get(stack.task or "", set())
        if len(named) > 1:
            named = places.get((stack.task or "", stack.subtask_index, stack.taskmanager), set())
        found.setdefault(next(iter(named)) if len(named) == 1 else None, []).append(stack)
    return found
