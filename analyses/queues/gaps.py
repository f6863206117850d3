"""Reasons why back pressure, or the task that causes it, cannot be determined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.flink.tasks.pressure import Load, unmonitored_origin
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Inconclusive
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.judging import waiting_tasks
from flowdiag.analyses.queues.loads import (
    has_samples_over_time,
    has_task_order,
    loads_in,
    most_samples,
    sampled_subtasks,
)
from flowdiag.analyses.queues.root import awaits_barrier, find_roots, subtask_name

_MORE_SAMPLES: Final = ("longer-metrics",)
_MOST_NAMED: Final = 3


def missing_metrics(job: JobQueues, known: float) -> Inconclusive | None:
    """Return why a job cannot be assessed at all, or None if it can.

    Args:
        job: the job.
        known: the minimum share of its subtasks with metrics.
    """
    size = sum(job.topology.parallelism.values())
    loads = loads_in(job).values()
    if not job.samples and not job.totals:
        reason = "the logs and responses contain no task metrics of this job"
    elif all(load.busy is None and load.back_pressured is None for load in loads):
        reason = (
            "the metrics contain no busy times, back pressure or buffer usage"
            if job.samples
            else "the saved responses contain record counts but no busy or back-pressured times (1.16 and later)"
        )
    elif not has_samples_over_time(job):
        reason = _single_answers(job)
    elif size and sampled_subtasks(job) < known * size:
        reason = f"the metrics of {size - sampled_subtasks(job)} of {size} subtasks are missing"
    else:
        return None
    return Inconclusive(reason=reason, checks=_MORE_SAMPLES, job=job.job.key)


def can_show_back_pressure(job: JobQueues) -> bool:
    """Return whether the samples show busy times or back pressure over time. A single sample is enough if it shows
    that a task waits.
    """
    loads = loads_in(job).values()
    if all(load.busy is None and load.back_pressured is None for load in loads):
        return False
    return has_samples_over_time(job) or any(load.waits and load.wait_measured for load in loads)


def _single_answers(job: JobQueues) -> str:
    loads = [*loads_in(job).values()]
    wait = {load.key.task for load in loads if load.waits and load.wait_measured}
    busy = [
        load for load in loads if load.is_working and load.measured and load.key.task not in wait
    ]
    if wait and busy:
        return (
            f"{_busy_tasks(job, busy)} in a single response, which does not show whether this lasts"
        )
    waiting = [
        f"{task} waits {fmt.percent(min(share, 1.0))} of its time"
        for task, share in waiting_tasks(job)[:_MOST_NAMED]
    ]
    if waiting:
        return f"{fmt.listed(waiting)} in a single response, which does not show whether this lasts"
    return "the input has no samples over time: single responses and totals since the start cannot show sustained back pressure"


def _busy_tasks(job: JobQueues, busy: Sequence[Load], where: str = "") -> str:
    """Return a clause that lists the subtasks that are busy while other tasks wait, without blaming any."""
    names = list(dict.fromkeys(subtask_name(job, load.key) for load in busy))
    hidden = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
    return f"tasks wait, and {shown}{where} {'is' if len(names) == 1 else 'are'} busy all the time"


def too_few_samples(job: JobQueues, windows: Sequence[int]) -> Inconclusive:
    """Report that a job has too few samples, and name the suspected subtasks."""
    number = fmt.plural(most_samples(job), "sample")
    roots = [root for window in windows for root in find_roots(job, loads_in(job, [window]))]
    busy = [load for root in roots for load in root.subtasks]
    if busy:
        reason = f"{_busy_tasks(job, busy, ' downstream')}, in {number} only"
    elif windows:
        reason = (
            f"tasks wait, but there are too few samples ({number}) to find the task they wait for"
        )
    else:
        reason = f"each subtask has at most {number}, too few to rule out back pressure"
    return Inconclusive(reason=reason, checks=_MORE_SAMPLES, job=job.job.key)


def short_at_end(job: JobQueues, windows: Sequence[int], lasted_us: int) -> Iterator[Inconclusive]:
    """Report that tasks wait at the end of the input, but not yet long enough to call it back pressure."""
    waiting = waiting_tasks(job, windows)
    if not waiting:
        return
    names = fmt.listed((fmt.shorten(task) for task, _ in waiting[:_MOST_NAMED]), " and ")
    yield Inconclusive(
        reason=f"{names} waited for downstream tasks in the last {fmt.duration(lasted_us / 1e3)} of the metrics, "
        "which may be a burst",
        checks=_MORE_SAMPLES,
        job=job.job.key,
    )


def late_barriers(job: JobQueues, windows: Sequence[int]) -> Inconclusive | None:
    """Report that sources wait for the barriers of other subtasks, which is not back pressure."""
    holding = awaits_barrier(job, windows)
    if not holding:
        return None
    names = fmt.listed((subtask_name(job, key) for key in holding[:_MOST_NAMED]), " and ")
    return Inconclusive(
        reason=f"sources wait while no downstream task is busy: the barriers of {names} do not arrive, "
        "and data behind the other barriers is not read",
        checks=("checkpoint-subtasks", "thread-dump"),
        job=job.job.key,
    )


def unknown_root(job: JobQueues, windows: Sequence[int], *, few: bool) -> Inconclusive | None:
    """Return why the task that others wait for cannot be determined, or None.

    Args:
        job: the job.
        windows: the windows in which tasks wait.
        few: whether these windows have too few samples.
    """
    unseen = None
    checks: tuple[str, ...]
    if few:
        reason = "tasks wait, but there are too few samples to find the task they wait for"
        checks = _MORE_SAMPLES
    elif not has_task_order(job):
        reason = "tasks wait, but the logs and metrics do not show the order of the tasks"
        checks = ("job-graph", "jobmanager-log")
    elif unseen := unmonitored_origin(loads_in(job, windows), job.topology):
        reason = f"tasks wait for {fmt.shorten(unseen)}, but metrics for some of its subtasks are missing"
        checks = ("other-taskmanager-logs", *_MORE_SAMPLES)
    else:
        return None
    return Inconclusive(reason=reason, checks=checks, job=job.job.key)
