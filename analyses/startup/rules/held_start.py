"""A job does not get to RUNNING.

What it reports
---------------
A job whose last start has not brought every task to RUNNING, the step in which it stopped, and for how
long.

Why it matters
--------------
Nothing is processed, and Flink says so nowhere in one line: a start that waits is silent.

How it decides
--------------
The steps of each start are rebuilt from the logs: submission, slots, deployment, initialisation. The first
one without an end holds. A start that is younger than `grace`, without a failure, is not judged: the log may
just end there; nor is a job that ran before and was cancelled within `cancelled`. A start counts as one that
ran if nothing failed for `stable`.

What to do
----------
Other findings say why where the logs tell. Without them: look at the resource manager (YARN, Kubernetes)
for a start that waits for slots, at a thread dump of the task for one that waits in its initialisation.

False alarms
------------
A task waits as long as its own log, or the JobManager's, goes on: what other logs say later, and holes in
them, do not count. Where the input tells of some of the tasks only and all of these run, nothing is said of the
job. Batch jobs start their stages later.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.flink.silences import told_until
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_FAILURE
from flowdiag.analyses.model.finding import Inconclusive
from flowdiag.analyses.startup import helpers as h


class Held(h.Limits):
    """What ST101 compares with."""

    grace: float = h.limit(
        60, "s", "starting processes and downloading state take this long at times"
    )
    cancelled: float = h.limit(
        30, "s", "who cancels a job that did not come back has waited for it"
    )
    stable: float = h.limit(10, "s", "who fails sooner after RUNNING never really ran")


def judge(job: h.JobStarting, limits: Held) -> h.Iterator[h.Finding | Inconclusive]:
    """One finding per job that does not run at the end."""
    last = _last_real(job)
    ended = any(i.kind == "finished" for i in job.job.incidents)
    if last is None or last.held is None or ended:
        return
    if _elsewhere(job, last):
        yield Inconclusive(
            reason=f"the input tells of {len(last.tasks)} of the job's {last.expected} tasks",
            remedy="add the JobManager's log, or those of the other TaskManagers",
            job=job.job.key,
        )
        return
    ran = _ran(job, limits.stable * 1_000_000)
    waited = _waited_ms(job, last, ran)
    failed = any(start.failed_us is not None for start in job.starts)
    grace = limits.grace if not failed else 0.0
    if job.cancelled and ran is not None:
        grace = max(grace, limits.cancelled)
    if waited is not None and waited >= grace * 1000:
        yield _finding(job, last, waited)


def _last_real(job: h.JobStarts) -> h.Start | None:
    """The last start that began anything: a cancelled job leaves an empty one behind."""
    with_tasks = next((s for s in reversed(job.starts) if s.tasks), None)
    return with_tasks or next((s for s in reversed(job.starts) if s.steps), None)


def _elsewhere(job: h.JobStarting, last: h.Start) -> bool:
    """Whether all tasks that the input tells of run, and the others may do so where it tells nothing of them.

    A JobManager's log that holds the start names every task of it.
    """
    return 0 < len(last.tasks) < (last.expected or 0) and all(
        task.running_us is not None for task in last.tasks
    )


def _ran(job: h.JobStarts, stable_us: float) -> int | None:
    """Place of the last start that ran for a while; None if none did."""
    return max(
        (
            place
            for place, start in enumerate(job.starts)
            if start.running_us is not None
            and (start.failed_us is None or start.failed_us - start.running_us > stable_us)
        ),
        default=None,
    )


def _waited_ms(job: h.JobStarting, last: h.Start, ran: int | None) -> int | None:
    """How long the job has not been running at the end of the input, or at its cancellation.

    Only as long as a log tells of the tasks that do not run: it may have been cut before that of others.
    """
    begun = job.starts[0].started_us
    if ran is not None:
        begun = next((s.started_us for s in job.starts[ran + 1 :]), job.starts[-1].started_us)
    cancelled = [i.time_us for i in job.job.incidents if i.kind == "cancelled" and i.time_us]
    end = min(cancelled, default=None) or max(job.job.last_us or 0, job.cluster.last_us or 0)
    if not end:
        return None
    told = [
        told_until(job.cluster.common, task.taskmanager, since, end)
        for task in last.tasks
        if task.running_us is None and (since := task.begins_us) is not None
    ]
    end = max(told, default=None) or told_until(job.cluster.common, None, last.started_us, end)
    return max(0, end - begun) // 1000


def _finding(job: h.JobStarting, last: h.Start, waited: int) -> h.Finding:
    step = last.step(last.held)
    words = h.STEP_WORDS.get(last.held or "", last.held or "its start")
    tries = len([s for s in job.starts if s.tasks]) or 1
    done = sum(task.running_us is not None for task in last.tasks)
    total = last.expected or len(last.tasks)
    always = all(start.held == last.held for start in job.starts if start.tasks)
    repeated = f" in each of {tries} starts" if tries > 1 and always else ""
    return h.of_start(
        job,
        ongoing=True,
        subject=h.job_subject(
            job,
            task=step.task if step else None,
            subtask_index=step.subtask_index if step else None,
        ),
        title=f"The job is not RUNNING: {words} holds it{repeated}"
        + (f", for {h.fmt.duration(waited)}" if waited else ""),
        why=_why(last),
        cause=CAUSE_OF_FAILURE.get(last.trigger or ""),
        rank=h.Rank.CONSEQUENCE,
        first_us=job.starts[0].started_us,
        last_us=job.cluster.last_us,
        count=tries,
        explain=f"{done} of {total} tasks got to RUNNING in the last start."
        if total
        else "No task was deployed.",
        measurements=(
            h.measurement("starts", tries, "starts"),
            h.measurement("tasks-running", done, "tasks", total, over="last start"),
        ),
        evidence=h.cite((ref, None) for ref in (step.refs if step else ())),
        actions=(
            h.Action(
                text="See the other findings for why; while it waits, a thread dump of the JobManager "
                "and /jobs/:id show what it waits for"
            ),
        ),
    )


def _why(last: h.Start) -> str | None:
    """What the start followed, which is all that is known of why it does not run."""
    if last.trigger is None:
        return None
    said = h.fmt.shorten(without_package((last.cause or "").split("\n", 1)[0]), 100)
    return "the run before it failed" + (f": {said}" if said else "")


RULE: Final = h.Rule(
    "ST101", judge, Held, core=True, causes=tuple(sorted(set(CAUSE_OF_FAILURE.values())))
)
