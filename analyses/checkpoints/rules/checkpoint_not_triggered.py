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
At least `attempts` refused triggers (`finished-attempts` where they say that tasks have finished, over
`finishing`) since the last one that worked, at the end of the input. Critical
from `critical` times as many, a warning below; information as long as the sources have been finished for less
than `finishing`. Or: the last trigger is more than `silence` intervals
(and `silence-floor`) old, nothing is in progress, and the job goes on.

What to do
----------
Finished sources: checkpoints with finished tasks (1.14+), or parallelism that fits the partitions. Tasks
that are not running: look at what they wait for (slots, restores).

False alarms
------------
The triggers refused while the job starts or restarts, and those before a bounded job finishes, do not
count. Nor does time in which the JobManager's log has no record at all: lines may be missing. A source that reads its backlog may switch checkpoints off for that time
(`execution.checkpointing.interval-during-backlog`, 1.19+): where the option is seen, silence says
nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.crises import crises
from flowdiag.analyses.flink.episodes import finished_us
from flowdiag.analyses.flink.judging import setting
from flowdiag.analyses.flink.silences import heard_until
from flowdiag.parsers.flink.failures import reason_kind


class NotTriggered(h.Limits):
    """What CP107 compares with."""

    attempts: float = h.limit(5, "attempts", "a start or a restart refuses one to three")
    finished_attempts: float = h.limit(
        3, "attempts", "no start or restart says that tasks have finished: it does not pass"
    )
    critical: float = h.limit(
        10.0, "ratio", "so many times `attempts` are no wait for something any more"
    )
    finishing: float = h.limit(
        30_000.0, "ms", "a bounded job ends within seconds after its sources, and so may an excerpt"
    )
    silence: float = h.limit(20.0, "intervals", "pauses stretch a gap to two or three intervals")
    silence_floor: float = h.limit(
        600_000.0, "ms", "ten minutes: intervals of seconds make twenty of them short"
    )


def judge(job: h.Job, limits: NotTriggered) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    if finished_us(job) is not None:
        return
    refused = _refused(job)
    if len(refused) >= limits.attempts or _have_finished(refused, limits):
        yield _given_up(job, refused, limits)
        return
    most = max(limits.silence_floor, limits.silence * (job.interval_ms or 0.0))
    silence = _silence_ms(job)
    if silence is not None and silence > most:
        yield _silent(job, silence, most)


def _have_finished(refused: list[h.Incident], limits: NotTriggered) -> bool:
    """Whether all say that tasks have finished, for longer than a bounded job needs to end."""
    if len(refused) < limits.finished_attempts:
        return False
    span = ((refused[-1].time_us or 0) - (refused[0].time_us or 0)) / 1000
    return span >= limits.finishing and all("finished" in (i.cause or "") for i in refused)


def _refused(job: h.Job) -> list[h.Incident]:
    """Refused triggers since the last one that worked; none if the job ended or restarted after."""
    # A job that fails and does not come back explains its refused triggers: other rules say why.
    if any(crisis.state is h.State.ONGOING for crisis in crises(job)):
        return []
    last = max(
        (c.triggered_us for c in job.checkpoints if c.triggered_us is not None), default=None
    )
    return [
        i
        for i in h.incidents(job, "not-triggered")
        if i.time_us is not None and (last is None or i.time_us > last)
    ]


_EXCUSES: Final = (
    "cancelled",
    "coordinator-stopped",
    "job-failure",
    "job-failing",
    "job-restarting",
    "suspended",
    "task-failure",
    "savepoint",
)


def _silence_ms(job: h.Job) -> float | None:
    """Milliseconds since the last checkpoint; None where nothing says that another was due."""
    triggered = [c for c in job.checkpoints if c.triggered_us is not None]
    if job.interval_ms is None or job.last_us is None or not triggered:
        return None
    if any(c.status is h.Status.IN_FLIGHT for c in triggered):
        return None
    if setting(job, "execution.checkpointing.interval-during-backlog") is not None:
        return None  # while a source reads its backlog, checkpoints may be rare or off (1.19+)
    last = max(c.ended_us or c.triggered_us or 0 for c in triggered)
    until = heard_until(job.cluster, last, job.last_us)
    if any(i.time_us is None or i.time_us >= last for i in h.incidents(job, *_EXCUSES)):
        return None
    return (until - last) / 1000


_BROKEN: Final = (
    "The JobManager fails before any task is asked: at the storage of the checkpoints, their counter or a coordinator "
    "of a source. No checkpoint has been taken since."
)
_READ_ON: Final = h.Action(
    text="Read the exceptions below these records in the JobManager's log: the deepest says why",
    verify="'Triggering checkpoint' follows",
)


def _given_up(job: h.Job, refused: list[h.Incident], limits: NotTriggered) -> h.Finding:
    kinds = Counter(reason_kind(i.cause or "") or "unknown" for i in refused)
    span = ((refused[-1].time_us or 0) - (refused[0].time_us or 0)) / 1000
    reason = " ".join((refused[-1].cause or "").split())
    usual = kinds.most_common(1)[0][0]
    finished = usual == "finished" or "finished" in reason
    broken = not finished and usual == "trigger_io"
    many = len(refused) >= limits.critical * limits.attempts
    ending = finished and span < limits.finishing
    return h.incident_finding(
        job,
        refused,
        ongoing=True,
        severity=h.Severity.INFO if ending else h.Severity.CRITICAL if many else h.Severity.WARNING,
        title=f"{len(refused)} triggers in a row were given up within {h.fmt.duration(span)}: "
        f"{h.fmt.shorten(reason, 120) or 'no reason printed'}",
        explain=_BROKEN if broken else h.explanation("finished-tasks"),
        rank=h.Rank.SYMPTOM,
        cause="finished-tasks" if finished else None,
        measurements=(
            h.measurement(
                "refused-triggers",
                len(refused),
                "attempts",
                limits.attempts,
                over="since the last checkpoint that was triggered",
            ),
        ),
        actions=(_READ_ON,)
        if broken
        else h.remedies("finished-tasks", job, "let-them-finish")
        or h.remedies("finished-tasks", job, "keep-running"),
    )


def _silent(job: h.Job, silence: float, most: float) -> h.Finding:
    last = max(
        (c for c in job.checkpoints if c.triggered_us is not None),
        key=lambda c: c.triggered_us or 0,
    )
    return h.job_finding(
        job,
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        title=f"No checkpoint was triggered for {h.fmt.duration(silence)}, and nothing says why",
        explain=f"The interval is {h.fmt.duration(job.interval_ms)} ({job.interval_from}), and the last checkpoint had "
        "ended. The log goes on, so the job has not.",
        rank=h.Rank.SYMPTOM,
        first_us=last.ended_us,
        last_us=job.last_us,
        measurements=(h.measurement("silence", silence, "ms", most),),
        evidence=h.end_records([last]),
        actions=(
            h.Action(
                text="Take a thread dump of the JobManager: the checkpoint coordinator's timer is stuck",
                verify="'Triggering checkpoint' follows",
            ),
        ),
    )


RULE: Final = h.Rule("CP107", judge, NotTriggered, causes=("finished-tasks",))
