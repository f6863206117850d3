"""Checkpoints are triggered and never end, or are never triggered.

What it reports
---------------
A job whose log shows triggers but neither completions nor failures; a checkpoint that is in
progress for much longer than the time-out; a job that runs for hours without a single trigger.

Why it matters
--------------
The first two are a JobManager that hangs or a log that lost its half; without a completed checkpoint
the job starts from nothing after its next failure. The third is a job whose checkpointing is off:
right for some, a surprise for others.

How it decides
--------------
*Never completes*: at least `triggers` checkpoints were triggered, and none completed, expired, was
declined or failed. *Stuck*: the last trigger is older than twice the time-out (10 minutes where it is
not known) while the job's log goes on. *Off*: tasks ran for `hours-without` hours with the
JobManager's log at hand and no trigger in it. Checkpoints that a cancel, a stop or the end of the
job cut short do not count, nor does the one that is in flight when the input ends.

What to do
----------
Look at the JobManager's process: a thread dump shows where the coordinator waits (metadata storage,
operator coordinators, master hooks). If the log was filtered, give the whole of it.

False alarms
------------
A log that was filtered for "Triggering checkpoint".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.rules.slow_checkpoint import DEFAULT_TIMEOUT_MS
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import failed, in_order, incidents
from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit


class CheckpointNeverCompletesLimits(Limits):
    """What CP106 compares with."""

    triggers: float = limit(
        3,
        "checkpoints",
        "one may be in flight when the input ends, a second with two concurrent ones",
    )
    hours_without: float = limit(
        2.0, "hours", "intervals above an hour exist, above two hours they are rare"
    )


def judge(job: Job, limits: CheckpointNeverCompletesLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    triggered = [c for c in in_order(job.checkpoints) if c.triggered_us is not None]
    ended = any(c.status is Status.COMPLETED or failed(c, job) for c in job.checkpoints)
    pending = [c for c in triggered if c.status is Status.IN_FLIGHT]
    stuck = _stuck(job, pending)
    if not ended and len(pending) >= limits.triggers:
        yield _never(job, pending)
    elif stuck is not None:
        yield _in_progress(job, *stuck)
    elif not job.checkpoints and job.cluster.has_jobmanager_log:
        hours = _hours_running(job)
        if hours is not None and hours >= limits.hours_without:
            yield _off(job, hours, limits)


def _over(job: JobFacts, after_us: int) -> bool:
    """Whether something ended the job, or its coordinator, after a moment."""
    return any(
        i.time_us is None or i.time_us >= after_us
        for i in incidents(
            job,
            "cancelled",
            "finished",
            "job-failure",
            "coordinator-stopped",
            "restart",
            "restored",
            "leadership",
        )
    )


def _stuck(job: JobFacts, pending: list[Checkpoint]) -> tuple[Checkpoint, float] | None:
    if not pending or job.last_us is None:
        return None
    last = pending[-1]
    since = last.triggered_us
    if since is None or _over(job, since):
        return None
    if any((c.run, c.id) > (last.run, last.id) for c in job.checkpoints if c.status != last.status):
        return None
    age = (job.last_us - since) / 1000
    limit = 2 * (j.timeout_ms(job) or DEFAULT_TIMEOUT_MS)
    return (last, age) if age > limit else None


def _hours_running(job: JobFacts) -> float | None:
    deployed = [a.deployed_us for a in job.attempts if a.deployed_us is not None]
    end = j.ended_or_last(job)
    if not deployed or end is None:
        return None
    return (end - min(deployed)) / 3_600_000_000


def _actions(job: JobFacts) -> tuple[Action, ...]:
    return (
        Action(
            text="Take a thread dump of the JobManager and look for the checkpoint coordinator's "
            "threads",
            verify="no thread waits for storage or for an operator coordinator",
        ),
        Action(
            text="If the log was filtered, give the whole JobManager log, or save "
            "/jobs/:id/checkpoints",
        ),
    )


def _never(job: JobFacts, pending: list[Checkpoint]) -> Finding:
    cited = cite((c.trigger_ref, c.triggered_us) for c in pending)
    return Finding(
        job=job.key,
        severity=Severity.CRITICAL,
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=f"{len(pending)} checkpoints were triggered, none completed and none failed",
        explain=(
            "The log shows the triggers only. A checkpoint that does not complete within its "
            "time-out is declared expired in the same log, so either the JobManager hangs, or the "
            "log is not whole."
        ),
        rank=Rank.SYMPTOM,
        first_us=pending[0].triggered_us,
        last_us=pending[-1].triggered_us,
        count=len(pending),
        measurements=(
            Measurement(name="triggered-checkpoints", value=len(pending), unit="checkpoints"),
            Measurement(name="completed-checkpoints", value=0, unit="checkpoints"),
        ),
        evidence=cited,
        actions=_actions(job),
    )


def _in_progress(job: JobFacts, checkpoint: Checkpoint, age: float) -> Finding:
    timeout = j.timeout_ms(job) or DEFAULT_TIMEOUT_MS
    return Finding(
        job=job.key,
        severity=Severity.CRITICAL,
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=f"Checkpoint {checkpoint.id} has been in progress for {j.duration_text(age)}",
        explain=(
            "It neither completed nor expired, although the time-out is "
            f"{j.duration_text(timeout)} and the log goes on: the coordinator itself hangs, or "
            "lines are missing."
        ),
        rank=Rank.SYMPTOM,
        first_us=checkpoint.triggered_us,
        last_us=job.last_us,
        measurements=(
            Measurement(name="in-progress", value=age, unit="ms", threshold=2 * timeout),
        ),
        evidence=cite([(checkpoint.trigger_ref, checkpoint.triggered_us)]),
        actions=_actions(job),
    )


def _off(job: JobFacts, hours: float, limits: CheckpointNeverCompletesLimits) -> Finding:
    deployed = [a for a in job.attempts if a.deployed_us is not None]
    return Finding(
        job=job.key,
        severity=Severity.INFO,
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=f"Tasks ran for {hours:.1f} h and no checkpoint was triggered: checkpointing is off",
        explain=(
            "Without checkpoints the job begins with empty state after a failure. That is right "
            "for batch jobs and for jobs without state."
        ),
        rank=Rank.SYMPTOM,
        first_us=min((a.deployed_us for a in deployed if a.deployed_us is not None), default=None),
        last_us=job.last_us,
        measurements=(
            Measurement(
                name="hours-running",
                value=hours,
                unit="hours",
                threshold=limits.hours_without,
            ),
        ),
        evidence=cite((a.ref, a.deployed_us) for a in deployed[:3]),
        actions=(
            Action(
                text="Switch periodic checkpoints on, if the job has state",
                option=option("interval", job.version),
                current=j.configured(job, "execution.checkpointing.interval", "interval"),
                proposed="1 min",
                restart_needed=True,
                verify="the JobManager logs 'Triggering checkpoint'",
            ),
        ),
    )


RULE: Final = Rule("CP106", judge, CheckpointNeverCompletesLimits)
