"""Checkpoints are not triggered any more.

What it reports
---------------
Triggers that Flink gave up, one after the other, until the end of the input: since tasks are not
running or have finished, or since of limits. And triggers that just stopped.

Why it matters
--------------
Nobody sees it: the job runs, no checkpoint fails, and after hours there is nothing to restore from. Up
to 1.13 one finished source subtask (parallelism above the number of partitions, a bounded input beside an
unbounded one) is enough.

How it decides
--------------
At least `attempts` refused triggers since the last one that worked, at the end of the input. Critical
when they span ten times that, a warning below. Or: the last trigger is more than `silence` intervals
(and ten minutes) old, nothing is in progress, and the job goes on.

What to do
----------
Finished sources: checkpoints with finished tasks (1.14+), or parallelism that fits the partitions. Tasks
that are not running: look at what they wait for (slots, restores).

False alarms
------------
The triggers refused while the job starts or restarts, and those before a bounded job finishes, do not
count. A source that reads its backlog may switch checkpoints off for that time
(`execution.checkpointing.interval-during-backlog`, 1.19+): where the option is seen, silence says
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    cite,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import crises
from flowdiag.analyses.flink.episodes import finished_us, incidents
from flowdiag.analyses.flink.job import Incident, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.parsers.flink.failures import reason_kind

_TEN_MINUTES_US: Final = 600_000_000


class CheckpointNotTriggeredLimits(Limits):
    """What CP107 compares with."""

    attempts: float = limit(5, "attempts", "a start or a restart refuses one to three")
    silence: float = limit(20.0, "intervals", "pauses stretch a gap to two or three intervals")


def judge(job: Job, limits: CheckpointNotTriggeredLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    if finished_us(job) is not None:
        return
    refused = _refused(job)
    if len(refused) >= limits.attempts:
        yield _finding(job, refused, limits)
        return
    silence = _silence(job, limits)
    if silence is not None:
        yield _silent(job, silence, limits)


def _refused(job: JobFacts) -> list[Incident]:
    """Refused triggers since the last one that worked; none if the job ended or restarted after."""
    last = max(
        (c.triggered_us for c in job.checkpoints if c.triggered_us is not None), default=None
    )
    after = [
        i
        for i in incidents(job, "not-triggered")
        if i.time_us is not None and (last is None or i.time_us > last)
    ]
    # A job that fails and does not come back explains its refused triggers: other rules say why.
    if any(crisis.state is State.ONGOING for crisis in crises(job)):
        return []
    return after


def _silence(job: JobFacts, limits: CheckpointNotTriggeredLimits) -> float | None:
    """Milliseconds since the last trigger, if that is much too long; None if all is well."""
    interval = j.interval_ms(job)
    triggered = [c for c in job.checkpoints if c.triggered_us is not None]
    if interval is None or job.last_us is None or not triggered:
        return None
    if any(c.status is Status.IN_FLIGHT for c in triggered):
        return None
    if j.setting(job, "execution.checkpointing.interval-during-backlog") is not None:
        return None  # while a source reads its backlog, checkpoints may be rare or off (1.19+)
    last = max(c.ended_us or c.triggered_us or 0 for c in triggered)
    if any(
        i.time_us is None or i.time_us >= last
        for i in incidents(
            job,
            "cancelled",
            "coordinator-stopped",
            "job-failure",
            "job-failing",
            "job-restarting",
            "suspended",
            "task-failure",
            "savepoint",
        )
    ):
        return None
    silent = job.last_us - last
    limit = max(_TEN_MINUTES_US, limits.silence * interval * 1000)
    return silent / 1000 if silent > limit else None


def _finding(
    job: JobFacts, refused: list[Incident], limits: CheckpointNotTriggeredLimits
) -> Finding:
    kinds = Counter(reason_kind(i.cause or "") or "unknown" for i in refused)
    kind = kinds.most_common(1)[0][0]
    span = ((refused[-1].time_us or 0) - (refused[0].time_us or 0)) / 1000
    many = len(refused) >= 10 * limits.attempts
    cited = cite((i.ref, i.time_us) for i in refused)
    reason = " ".join((refused[-1].cause or "").split())
    finish = option("after-finish", job.version)
    finished = kind == "finished" or "finished" in reason
    return Finding(
        job=job.key,
        severity=grade(state=State.ONGOING, share=1.0, fatal=many),
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=(
            f"{len(refused)} triggers in a row were given up within {j.duration_text(span)}: "
            f"{j.shorten(reason, 120) or 'no reason printed'}"
        ),
        explain=(
            "No checkpoint has been taken since. Sources that have finished keep all others from being "
            "checkpointed up to 1.13, and later if the option is off."
        ),
        rank=Rank.SYMPTOM,
        cause="finished-tasks" if finished else None,
        first_us=refused[0].time_us,
        last_us=refused[-1].time_us,
        count=len(refused),
        measurements=(
            Measurement(
                name="refused-triggers",
                value=len(refused),
                unit="attempts",
                threshold=limits.attempts,
                population="since the last checkpoint that was triggered",
            ),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Let checkpoints go on when tasks have finished",
                option=finish,
                current=j.configured(job, finish) if finish else None,
                proposed="true" if finish else None,
                restart_needed=True,
                verify="'Triggering checkpoint' follows",
            )
            if finish
            else Action(
                text="Keep every source subtask running: no more subtasks than partitions, and no bounded "
                "source beside unbounded ones (checkpoints with finished tasks need 1.14)",
                restart_needed=True,
            ),
        ),
    )


def _silent(job: JobFacts, silence: float, limits: CheckpointNotTriggeredLimits) -> Finding:
    last = max(
        (c for c in job.checkpoints if c.triggered_us is not None),
        key=lambda c: c.triggered_us or 0,
    )
    interval = j.interval_ms(job) or 0.0
    return Finding(
        job=job.key,
        severity=grade(state=State.ONGOING, share=1.0),
        state=State.ONGOING,
        subject=j.job_subject(job),
        title=f"No checkpoint was triggered for {j.duration_text(silence)}, and nothing says why",
        explain=(
            f"The interval is {j.duration_text(interval)}, and the last checkpoint had ended. The log goes "
            "on, so the job has not."
        ),
        rank=Rank.SYMPTOM,
        first_us=last.ended_us,
        last_us=job.last_us,
        measurements=(
            Measurement(
                name="silence",
                value=silence,
                unit="ms",
                threshold=limits.silence * interval,
            ),
        ),
        evidence=j.ends([last]),
        actions=(
            Action(
                text="Take a thread dump of the JobManager: the checkpoint coordinator's timer is stuck",
                verify="'Triggering checkpoint' follows",
            ),
        ),
    )


RULE: Final = Rule("CP107", judge, CheckpointNotTriggeredLimits)
