"""Examines the last start of a job that does not run, and how long the job has not been running."""

from __future__ import annotations

from flowdiag.analyses.flink.failures.silences import logged_until
from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.startup import helpers as h


def last_start(job: h.JobStarts) -> h.Start | None:
    """Return the last start with tasks or, failing that, with steps. A canceled job leaves an empty start behind."""
    with_tasks = next((s for s in reversed(job.starts) if s.tasks), None)
    return with_tasks or next((s for s in reversed(job.starts) if s.steps), None)


def last_successful(job: h.JobStarts, stable_us: float) -> int | None:
    """Return the index of the last start that ran for at least `stable_us`, or None."""
    for place, start in reversed([*enumerate(job.starts)]):
        if start.running_us is None:
            continue
        if start.failed_us is None or start.failed_us - start.running_us > stable_us:
            return place
    return None


def waited_ms(job: h.JobStarting, last: h.Start, ran: int | None) -> int | None:
    """Return how long the job had not been running when it was canceled or the input ended.

    The time is limited by the logs that cover the tasks that do not run, which may end before other logs.
    """
    begun = job.starts[0].started_us
    if ran is not None:
        begun = next((s.started_us for s in job.starts[ran + 1 :]), job.starts[-1].started_us)
    cancelled = [i.time_us for i in job.job.incidents if i.kind == "cancelled" and i.time_us]
    end = min(cancelled, default=None) or max(job.job.last_us or 0, job.cluster.last_us or 0)
    if not end:
        return None
    heard = [
        logged_until(job.cluster.common, task.taskmanager, since, end)
        for task in last.tasks
        if task.running_us is None and (since := task.begins_us) is not None
    ]
    end = max(heard, default=None) or logged_until(job.cluster.common, None, last.started_us, end)
    return max(0, end - begun) // 1000


def failure_before(last: h.Start) -> str | None:
    """Return the failure before this start, if nothing else explains why the job does not run."""
    if last.trigger is None:
        return None
    failure = h.fmt.shorten(without_package((last.cause or "").split("\n", 1)[0]), 100)
    return "the previous run failed" + (f": {failure}" if failure else "")
