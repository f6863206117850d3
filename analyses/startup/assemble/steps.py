"""Splits a start into its steps, in order: submission, slots, deployment, initialization, first checkpoint."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.startup.assemble.timeline import Row, Timeline, ref_of
from flowdiag.analyses.startup.facts import Restore, Spread, Step, TaskTimes, Worker
from flowdiag.parsers.rows import Event

_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class RawStart:
    """A start that has not been split into steps yet.

    Args:
        marks: records until the next start.
        horizon_us: time of the JobManager's last record about it, for steps without an end.
        logged_until: returns the time of the last record about a task after a given time.
        complete: whether all tasks reached RUNNING.
    """

    job: JobFacts
    marks: Sequence[Row]
    tasks: Sequence[TaskTimes]
    restores: Sequence[Restore]
    started_us: int
    horizon_us: int
    logged_until: Callable[[TaskTimes, int], int]
    cold: bool
    complete: bool


def steps_of(begun: RawStart, requested: Timeline, completed: Sequence[int]) -> Iterator[Step]:
    """Yield the known steps, in order.

    Args:
        begun: the start.
        requested: workers of all jobs, by request time.
        completed: completion times of the job's checkpoints.
    """
    tasks, horizon = begun.tasks, begun.horizon_us
    scheduled = [t.scheduled_us for t in tasks if t.scheduled_us is not None]
    deploying = [t.deploying_us for t in tasks if t.deploying_us is not None]
    ready = min([*scheduled, *deploying], default=None)
    yield from _until_ready(begun, ready)
    if ready is None:
        return
    slots = _slots_step(begun.marks, scheduled, deploying, horizon, tasks)
    yield slots
    yield from _workers_step(requested, begun.started_us, slots.ended_us or horizon)
    if not deploying:
        return
    yield from _own_steps(tasks, begun.logged_until)
    yield from _restore_step(begun.restores, horizon)
    if begun.complete:
        running = max(t.running_us or 0 for t in tasks)
        yield from _first_checkpoint(begun.job, completed, running, horizon)


def _until_ready(begun: RawStart, ready: int | None) -> Iterator[Step]:
    """Yield the steps up to the first scheduled or deployed task."""
    if not begun.cold:
        held = begun.horizon_us if ready is None else None
        yield Step(name="back-off", started_us=begun.started_us, ended_us=ready, held_us=held)
        return

    def first(*templates: str) -> Row | None:
        return next((row for row in begun.marks if row["template"] in templates), None)

    started, registered = first("job-starting"), first("jobmaster-registered")
    submitted = first(
        "job-received",
        "job-received-quoted",
        "job-submitting",
        "job-submitting-quoted",
        "client-job-sent",
    )
    if submitted is not None:
        yield _step_between("submission", submitted, started, ready, begun.horizon_us)
    if started is not None and registered is not None:
        yield _step_between("resource-manager", started, registered, None, begun.horizon_us)


def _own_steps(
    tasks: Sequence[TaskTimes], logged_until: Callable[[TaskTimes, int], int]
) -> Iterator[Step]:
    """Yield the steps that each task goes through independently."""
    reached = {
        task.attempt_id: us
        for task in tasks
        if task.deploying_us is not None
        and (us := task.initializing_us or task.running_us) is not None
    }
    yield _task_step(
        "deployment",
        [t for t in tasks if t.deploying_us is not None],
        lambda task: task.deploying_us,
        lambda task: reached.get(task.attempt_id),
        logged_until,
    )
    initializing = [t for t in tasks if t.initializing_us is not None]
    if initializing:
        yield _task_step(
            "initialization",
            initializing,
            lambda task: task.initializing_us,
            lambda task: task.running_us,
            logged_until,
        )


def _step_between(
    name: str, begin: Row, end: Row | None, other_end: int | None, horizon: int
) -> Step:
    ended = end["time_us"] if end is not None else other_end
    return Step(
        name=name,
        started_us=begin["time_us"],
        ended_us=ended,
        held_us=None if ended is not None else horizon,
        refs=tuple(ref_of(row) for row in (begin, end) if row is not None),
    )


def _slots_step(
    marks: Sequence[Row],
    scheduled: Sequence[int],
    deploying: Sequence[int],
    horizon: int,
    tasks: Sequence[TaskTimes],
) -> Step:
    """Return the step from the request for slots to the first deployment."""
    begin = min([*scheduled, *deploying])
    end = min(deploying) if deploying else None
    registered = [
        row
        for row in marks
        if row["event"] == Event.TASKMANAGER_REGISTERED
        and begin <= row["time_us"] <= (end or horizon)
    ]
    return Step(
        name="slots",
        started_us=begin,
        ended_us=end,
        held_us=None if end is not None else horizon,
        taskmanager=registered[-1]["taskmanager"] if registered else None,
        host=registered[-1]["host"] if registered else None,
        refs=tuple(t.ref for t in tasks[:1] if t.ref is not None),
    )


# Minimum gap between two deployment rounds.
_ROUND_US: Final = 10_000_000


def _last_round(tasks: Sequence[TaskTimes], begins: Any, ends: Any) -> Sequence[TaskTimes]:
    """Return the tasks of the last deployment round. A TaskManager's log alone does not separate rounds."""
    ordered = sorted(tasks, key=begins)
    first, busy_until = 0, begins(ordered[0])
    for number, task in enumerate(ordered):
        if begins(task) > busy_until + _ROUND_US:
            first = number
        end = ends(task)
        busy_until = max(busy_until, _NEVER if end is None else end)
    return ordered[first:]


def _task_step(
    name: str,
    tasks: Sequence[TaskTimes],
    begins: Any,
    ends: Any,
    logged_until: Callable[[TaskTimes, int], int],
) -> Step:
    """Return a step that each task goes through independently, with its spread and the slowest task."""
    durations: list[tuple[int, TaskTimes]] = []
    waiting: list[tuple[int, TaskTimes]] = []
    held = 0
    tasks = _last_round(tasks, begins, ends)
    for task in tasks:
        end = ends(task)
        if end is None:
            logged_us = logged_until(task, begins(task))
            held = max(held, logged_us)
            until = task.ended_us if task.ended_us is not None else logged_us
            waiting.append((max(0, until - begins(task)), task))
        else:
            durations.append((max(0, end - begins(task)), task))
    slowest = max(waiting or durations, key=lambda pair: pair[0])[1]
    values = sorted(us // 1000 for us, _ in (*durations, *waiting))
    last = max((ends(task) for _, task in durations), default=None)
    return Step(
        name=name,
        started_us=min(begins(task) for task in tasks),
        ended_us=None if waiting else last,
        held_us=held if waiting else None,
        spread=Spread(
            count=len(values),
            p50_ms=_percentile(values, 0.5),
            p95_ms=_percentile(values, 0.95),
            max_ms=values[-1],
        ),
        task=slowest.task,
        subtask_index=slowest.subtask_index,
        taskmanager=slowest.taskmanager,
        host=slowest.host,
        refs=(slowest.ref,) if slowest.ref else (),
    )


def _workers_step(workers: Timeline, begin: int, end: int) -> Iterator[Step]:
    """Yield the step from each worker's request to its registration, part of the wait for slots."""
    requested = [w for _, w in sorted(workers.within(begin, end + 1), key=itemgetter(0))]
    yield from step_of_workers(
        "workers", [(w, w.requested_us or 0, w.registered_us or w.ended_us) for w in requested], end
    )


def _restore_step(restores: Sequence[Restore], horizon: int) -> Iterator[Step]:
    """Yield the restore of state by TaskManager, part of the initialization."""
    spans = [
        (Worker(name=r.taskmanager or "?", host=r.host, ref=r.ref), r.started_us, r.finished_us)
        for r in restores
        if not r.download
    ]
    yield from step_of_workers("restore", spans, horizon)


def step_of_workers(
    name: str, spans: Sequence[tuple[Worker, int, int | None]], horizon: int | None
) -> Iterator[Step]:
    """Yield a step that each TaskManager goes through independently, with its spread and the slowest one."""
    if not spans:
        return
    took = [
        (end is None, max(0, (end if end is not None else horizon or begin) - begin), worker)
        for worker, begin, end in spans
    ]
    # TaskManagers that are still waiting are slower than any that are ready.
    waiting, _, worker = max(took, key=itemgetter(0, 1))
    values = sorted(us // 1000 for _, us, _ in took)
    yield Step(
        name=name,
        started_us=min(begin for _, begin, _ in spans),
        ended_us=None if waiting else max(end for _, _, end in spans if end is not None),
        held_us=horizon if waiting else None,
        spread=Spread(
            count=len(values),
            p50_ms=_percentile(values, 0.5),
            p95_ms=_percentile(values, 0.95),
            max_ms=values[-1],
        ),
        taskmanager=worker.name,
        host=worker.host,
        refs=(worker.ref,) if worker.ref else (),
    )


def _percentile(values: Sequence[int], share: float) -> int:
    """Return a percentile by nearest rank, so that it is one of the values."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _first_checkpoint(
    job: JobFacts, completed: Sequence[int], running: int, horizon: int
) -> Iterator[Step]:
    place = bisect_left(completed, running)
    end = completed[place] if place < len(completed) else None
    if job.checkpoints and (end is None or end <= max(horizon, running)):
        yield Step(
            name="first-checkpoint",
            started_us=running,
            ended_us=end,
            held_us=None if end is not None else horizon,
        )
