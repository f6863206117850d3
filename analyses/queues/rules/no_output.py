"""A task receives records and emits none, or no record moves in the job.

What it reports
---------------
- A task that receives records while event time does not advance, so that its windows and timers never fire.
- Without such a reason, that the verdict is inconclusive: a job without output may be healthy, or not.

Why it matters
--------------
Checkpoints complete and no task is back-pressured, but the job produces nothing. State grows until the watermark
advances.

How it decides
--------------
No subtask of the task may emit a record for `seconds`, while its subtasks receive at least `records`. Tasks
without a downstream task do not count. Event time does not advance if the `currentInputWatermark` of no
subtask of the task advances in that time.

If the watermark advances, or if there is none, the rule cannot distinguish a filter that lets nothing through or a join without
a match from a long window. It is inconclusive. It is also inconclusive if no record moves in any task while no task
works or waits: the sources may have no input, or they may be stuck.

What to do
----------
Find the source partition without data, or with old timestamps. Mark idle partitions as idle. If the sources
have no input, compare their offsets with the end of the topic.

False alarms
------------
If the events stop at the origin, event time stops as well.
"""

from __future__ import annotations

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    seconds: float = h.limit(30, "s", "shorter pauses are common between windows")
    records: float = h.limit(
        20, "records", "minimum input of the task; a filter may drop all of a few records"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield at most one finding per job, or the reason why the result is inconclusive."""
    if h.serious_spells(job) or h.has_ended(job):
        return
    if (still := h.stands_still(job)) is not None and not h.works_or_waits(job):
        yield h.Inconclusive(
            reason=f"no record moved in any task for {h.fmt.duration(still.lasted_ms)}: the sources have no input, "
            "or they are stuck",
            checks=("consumer-lag", "thread-dump"),
            job=job.job.key,
        )
        return
    silent = next(
        (found for task in job.topology.tasks if (found := h.silence_of(job, task))), None
    )
    if silent is None or silent.records < limits.records:
        return
    if silent.lasted_ms < limits.seconds * 1000:
        return
    if silent.watermark_ms is not None:
        yield _stuck(job, silent, silent.watermark_ms)
        return
    yield h.Inconclusive(
        reason=f"{h.fmt.shorten(silent.task)} received {h.fmt.thousands(silent.records)} records in "
        f"{h.fmt.duration(silent.lasted_ms)} and emitted none: it filters all of them, or its windows have not closed",
        checks=("subtask-records", "user-code"),
        job=job.job.key,
    )


def _stuck(job: h.JobQueues, silent: h.Silence, watermark_ms: float) -> h.Finding:
    name, lasted = h.fmt.shorten(silent.task), h.fmt.duration(silent.lasted_ms)
    received = f"{h.fmt.thousands(silent.records)} records"
    return h.task_finding(
        job,
        silent.task,
        severity=h.Severity.WARNING,
        title=f"{name} has emitted nothing for {lasted}: its watermark does not advance",
        why=f"{name}: {received} in and none out, and its watermark stays at {h.fmt.clock(round(watermark_ms * 1000))}",
        cause="stuck-watermark",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.BOTTLENECK,
        first_us=silent.since_us,
        last_us=silent.until_us,
        measurements=(
            h.measurement("records-in", round(silent.records), "records", over=f"in {lasted}"),
            h.measurement("records-out", 0, "records", over=f"in {lasted}"),
        ),
        evidence=h.records_of(silent.samples, "watermark", key=silent.key),
        actions=h.remedies("stuck-watermark", job.job),
    )


RULE = h.Rule("BP105", judge, Limits, core=True, causes=("stuck-watermark",))
