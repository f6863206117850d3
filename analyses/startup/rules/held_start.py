"""A job does not reach RUNNING.

What it reports
---------------
The rule reports a job if some of its tasks did not reach RUNNING in the last start. It names the step that
blocks the job and shows how long the job has waited.

Why it matters
--------------
The job processes nothing, and Flink logs nothing while a start waits.

How it decides
--------------
The rule rebuilds the steps of each start from the logs: submission, slots, deployment, initialization. The first
step that does not end blocks the start. If no start failed, the job must have waited for at least `grace`, because
the log may simply end there. If the job ran before and was then canceled, it must have waited for at least
`canceled`. A start counts as successful unless the job fails within `stable` of reaching RUNNING.

What to do
----------
If the logs show the reason, another finding reports it. Otherwise, check the resource manager (YARN,
Kubernetes) if the job waits for slots, and take a thread dump if a task hangs in its initialization.

False alarms
------------
The waiting time of a task ends with the last record in the log of its TaskManager or its JobManager. Later records
in other logs do not count. If the logs show only some of the tasks and all of these run, the rule is inconclusive.
A batch job starts later stages only when earlier stages finish.
"""

from typing import Final

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_FAILURE
from flowdiag.analyses.model.finding import Inconclusive
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.held import (
    failure_before,
    last_start,
    last_successful,
    waited_ms,
)

_ADVICE: Final = (
    "Check the other findings for the reason. While the job is waiting, take a thread dump of the JobManager "
    "and check /jobs/:id to see which step blocks it"
)


class Limits(h.Limits):
    grace: float = h.limit(
        60, "s", "minimum time until the job is RUNNING; process starts and downloads take less"
    )
    canceled: float = h.limit(
        30, "s", "minimum time from start to cancellation; users wait longer if a start hangs"
    )
    stable: float = h.limit(10, "s", "minimum time in RUNNING; a shorter run is a failed start")


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding | Inconclusive]:
    """Report each job that does not run at the end of the input."""
    last = last_start(job)
    ended = any(i.kind == "finished" for i in job.job.incidents)
    if last is None or last.held is None or ended:
        return
    # The JobManager's log of a complete start names every task.
    partial = 0 < len(last.tasks) < (last.expected or 0)
    if partial and all(task.running_us is not None for task in last.tasks):
        yield Inconclusive(
            reason=f"the logs show only {len(last.tasks)} of the job's {last.expected} tasks",
            checks=("jobmanager-log", "other-taskmanager-logs"),
            job=job.job.key,
        )
        return
    ran = last_successful(job, limits.stable * 1_000_000)
    waited = waited_ms(job, last, ran)
    grace = 0.0 if any(start.failed_us is not None for start in job.starts) else limits.grace
    if job.cancelled and ran is not None:
        grace = max(grace, limits.canceled)
    if waited is not None and waited >= grace * 1000:
        yield _finding(job, last, waited)


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
        why=failure_before(last),
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


RULE: Final = h.Rule(
    "ST101",
    judge,
    Limits,
    core=True,
    causes=tuple(sorted(set(CAUSE_OF_FAILURE.values()))),
    needs="starts",
    severity=h.Severity.CRITICAL,
)
