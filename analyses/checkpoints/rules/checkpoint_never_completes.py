"""Checkpoints never end, or are never triggered.

What it reports
---------------
- A job whose log shows triggers but neither completions nor failures.
- A checkpoint in progress for much longer than the timeout.
- A job that runs for hours without a single trigger.

Why it matters
--------------
In the first two cases the JobManager hangs, or part of the log is missing. Without a completed checkpoint the
job starts from scratch after its next failure. In the third case checkpointing is off, which may or may not
be intended.

How it decides
--------------
- Never completes: at least `triggers` checkpoints were triggered, and none ended.
- Stuck: the last trigger is older than `stuck` times the timeout (10 minutes if unknown), and the job's log
  continues.
- Off: tasks ran for `hours-without` hours, and the JobManager's log contains no trigger.

Checkpoints that were interrupted by a cancellation, a stop or the end of the job do not count. Nor does a
checkpoint that is still in progress when the input ends.

What to do
----------
Take a thread dump of the JobManager. It shows whether the checkpoint coordinator waits for metadata storage,
an operator coordinator or a master hook. If the log was filtered, pass the whole log.

False alarms
------------
A log that was filtered for "Triggering checkpoint" looks like a hanging JobManager. Periods without any record
in the JobManager's log do not count, because lines may be missing.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.flink.judging import ended_or_last

_ENDINGS: Final = (
    "cancelled",
    "finished",
    "job-failure",
    "coordinator-stopped",
    "restart",
    "restored",
    "leadership",
)
_HANGING: Final = (
    h.Action(
        text="Take a thread dump of the JobManager and check the checkpoint coordinator's threads",
        verify="no thread waits for storage or for an operator coordinator",
    ),
    h.Action(
        text="If the log was filtered, pass the whole JobManager log, or save /jobs/:id/checkpoints",
    ),
)


class Limits(h.Limits):
    triggers: float = h.limit(
        3,
        "checkpoints",
        "one checkpoint may be in progress when the input ends, or two if concurrent checkpoints are allowed",
    )
    stuck: float = h.limit(
        2.0, "ratio", "multiple of the timeout; a healthy coordinator expires the checkpoint at 1.0"
    )
    hours_without: float = h.limit(
        2.0, "hours", "some jobs use intervals above one hour, but hardly any above two hours"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """At most one finding per job."""
    pending = [
        c for c in job.in_order if c.triggered_us is not None and c.status is h.Status.IN_FLIGHT
    ]
    timeout = job.timeout_ms or h.DEFAULT_TIMEOUT_MS
    deployed = [(a.ref, a.deployed_us) for a in job.attempts if a.deployed_us is not None]
    fields: h.FindingFields = {
        "severity": h.Severity.CRITICAL,
        "state": h.State.ONGOING,
        "rank": h.Rank.SYMPTOM,
        "last_us": job.last_us,
        "actions": _HANGING,
    }
    if len(pending) >= limits.triggers and not job.concluded:
        fields |= {
            "title": f"{len(pending)} checkpoints were triggered, none completed and none failed",
            "explain": "The log shows only the triggers. The same log would report a checkpoint that "
            "exceeds its timeout as expired. So either the JobManager hangs, or the log is incomplete.",
            "first_us": pending[0].triggered_us,
            "last_us": pending[-1].triggered_us,
            "count": len(pending),
            "measurements": (
                h.measurement("triggered-checkpoints", len(pending), "checkpoints"),
                h.measurement("completed-checkpoints", 0, "checkpoints"),
            ),
            "evidence": h.cite((c.trigger_ref, c.triggered_us) for c in pending),
        }
    elif (age := _age_ms(job, pending)) is not None and age > limits.stuck * timeout:
        last = pending[-1]
        fields |= {
            "title": f"Checkpoint {last.id} has been in progress for {h.fmt.duration(age)}",
            "explain": f"It neither completed nor expired, although the timeout is {h.fmt.duration(timeout)} "
            "and the log continues. Either the coordinator hangs, or log lines are missing.",
            "first_us": last.triggered_us,
            "measurements": (h.measurement("in-progress", age, "ms", limits.stuck * timeout),),
            "evidence": h.cite([(last.trigger_ref, last.triggered_us)]),
        }
    elif (hours := _hours_without(job)) is not None and hours >= limits.hours_without:
        fields |= {
            "severity": h.Severity.INFO,
            "title": f"Tasks ran for {hours:.1f} h and no checkpoint was triggered: checkpointing is off",
            "explain": "Without checkpoints the job restarts with empty state after a failure. That is fine "
            "for batch jobs and for jobs without state.",
            "first_us": min(time for _, time in deployed),
            "measurements": (h.measurement("hours-running", hours, "hours", limits.hours_without),),
            "evidence": h.cite(deployed),
            "actions": h.shared_remedies(job, "switch-on"),
        }
    else:
        return
    yield h.job_finding(job, **fields)


def _age_ms(job: h.Job, pending: list[h.Checkpoint]) -> float | None:
    """Return the age of the checkpoint in progress; None without one, or if the job ended."""
    if not pending or job.last_us is None:
        return None
    last = pending[-1]
    since = last.triggered_us or 0
    if any(i.time_us is None or i.time_us >= since for i in h.incidents(job, *_ENDINGS)):
        return None
    if any((c.run, c.id) > (last.run, last.id) for c in job.checkpoints if c.status != last.status):
        return None
    return (jobmanager_logged_until(job.cluster, since, job.last_us) - since) / 1000


def _hours_without(job: h.Job) -> float | None:
    """Return how long tasks ran; None with checkpoints, or if the JobManager's log is missing."""
    deployed = [a.deployed_us for a in job.attempts if a.deployed_us is not None]
    end = ended_or_last(job)
    if job.checkpoints or not job.cluster.has_jobmanager_log or not deployed or end is None:
        return None
    begun = min(deployed)
    return (jobmanager_logged_until(job.cluster, begun, end) - begun) / 3_600_000_000


RULE: Final = h.Rule("CP106", judge, Limits)
