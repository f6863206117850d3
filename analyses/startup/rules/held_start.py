"""A job does not reach RUNNING.

What it reports
---------------
A job whose last start has not brought every task to RUNNING, the step that blocks it, and for how long.

Why it matters
--------------
The job processes nothing, and no single Flink log line reports it: a waiting start is silent.

How it decides
--------------
The rule rebuilds the steps of each start from the logs: submission, slots, deployment, initialisation.
The first step without an end blocks the start. It does not judge a start without a failure that is younger
than `grace`, because the log may simply end there. Nor does it judge a job that ran before and was
cancelled within `cancelled`. A start counts as successful if nothing failed for `stable`.

What to do
----------
Other findings give the reason if the logs show it. Otherwise, for a start that waits for slots, check the
resource manager (YARN, Kubernetes). For a task that waits in its initialisation, take a thread dump.

False alarms
------------
A task's waiting time ends with the last record of its own log or the JobManager's. Later records of other
logs and holes do not count. If the input covers only some of the tasks and all of these run, the rule is
inconclusive. Batch jobs start their stages later.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.failures.silences import logged_until
from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_FAILURE
from flowdiag.analyses.model.finding import Inconclusive
from flowdiag.analyses.startup import helpers as h

_ADVICE: Final = (
    "Check the other findings for the reason. While the job waits, a thread dump of the JobManager "
    "and /jobs/:id show what it waits for"
)


class Held(h.Limits):
    """Thresholds of ST101."""

    grace: float = h.limit(60, "s", "starting processes and downloading state may take this long")
    cancelled: float = h.limit(
        30, "s", "users who cancel a job that does not recover have waited longer than this"
    )
    stable: float = h.limit(10, "s", "a start that fails sooner after RUNNING never really ran")


def judge(job: h.JobStarting, limits: Held) -> h.Iterator[h.Finding | Inconclusive]:
    """One finding per job that does not run at the end."""
    last = _last_start(job)
    ended = any(i.kind == "finished" for i in job.job.incidents)
    if last is None or last.held is None or ended:
        return
    # A JobManager's log of the whole start names every task.
    partial = 0 < len(last.tasks) < (last.expected or 0)
    if partial and all(task.running_us is not None for task in last.tasks):
        yield Inconclusive(
            reason=f"the input shows {len(last.tasks)} of the job's {last.expected} tasks",
            remedy="add the JobManager's log, or the logs of the other TaskManagers",
            job=job.job.key,
        )
        return
    ran = _last_successful(job, limits.stable * 1_000_000)
    waited = _waited_ms(job, last, ran)
    grace = 0.0 if any(start.failed_us is not None for start in job.starts) else limits.grace
    if job.cancelled and ran is not None:
        grace = max(grace, limits.cancelled)
    if waited is not None and waited >= grace * 1000:
        yield _finding(job, last, waited)


def _last_start(job: h.JobStarts) -> h.Start | None:
    """Return the last start with tasks, else with steps: a cancelled job leaves an empty one behind."""
    with_tasks = next((s for s in reversed(job.starts) if s.tasks), None)
    return with_tasks or next((s for s in reversed(job.starts) if s.steps), None)


def _last_successful(job: h.JobStarts, stable_us: float) -> int | None:
    """Return the index of the last start that ran for `stable_us`; None without any."""
    for place, start in reversed([*enumerate(job.starts)]):
        if start.running_us is None:
            continue
        if start.failed_us is None or start.failed_us - start.running_us > stable_us:
            return place
    return None


def _waited_ms(job: h.JobStarting, last: h.Start, ran: int | None) -> int | None:
    """Return how long the job has not been running at the end of the input, or when it was cancelled.

    The logs that cover the tasks that do not run limit it: they may end before other logs.
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


def _finding(job: h.JobStarting, last: h.Start, waited: int) -> h.Finding:
    step = last.step(last.held)
    held = last.held or "its start"
    words = h.STEP_WORDS.get(held, held)
    with_tasks = [start for start in job.starts if start.tasks]
    tries = len(with_tasks) or 1
    done = sum(task.running_us is not None for task in last.tasks)
    total = last.expected or len(last.tasks)
    title = f"The job is not RUNNING: {words} blocks it"
    if tries > 1 and all(start.held == last.held for start in with_tasks):
        title += f" in each of {tries} starts"
    if waited:
        title += f", for {h.fmt.duration(waited)}"
    subject, evidence = h.job_subject(job), h.cite(())
    if step is not None:
        subject = h.job_subject(job, task=step.task, subtask_index=step.subtask_index)
        evidence = h.cite((ref, None) for ref in step.refs)
    return h.start_finding(
        job,
        ongoing=True,
        subject=subject,
        title=title,
        why=_why(last),
        cause=CAUSE_OF_FAILURE.get(last.trigger or ""),
        rank=h.Rank.CONSEQUENCE,
        first_us=job.starts[0].started_us,
        last_us=job.cluster.last_us,
        count=tries,
        explain=f"{done} of {total} tasks reached RUNNING in the last start."
        if total
        else "No task was deployed.",
        measurements=(
            h.measurement("starts", tries, "starts"),
            h.measurement("tasks-running", done, "tasks", total, over="last start"),
        ),
        evidence=evidence,
        actions=(h.Action(text=_ADVICE),),
    )


def _why(last: h.Start) -> str | None:
    """Return the failure before this start, the only known reason why the job does not run."""
    if last.trigger is None:
        return None
    failure = h.fmt.shorten(without_package((last.cause or "").split("\n", 1)[0]), 100)
    return "the run before it failed" + (f": {failure}" if failure else "")


RULE: Final = h.Rule(
    "ST101", judge, Held, core=True, causes=tuple(sorted(set(CAUSE_OF_FAILURE.values())))
)
