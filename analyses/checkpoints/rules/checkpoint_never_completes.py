"""Checkpoints never end, or are never triggered.

What it reports
---------------
- A job whose log shows triggers but neither completions nor failures.
- A checkpoint that has been in progress for much longer than the timeout, or than completed checkpoints took.
- A job that has run for hours without triggering a single checkpoint.

Why it matters
--------------
If checkpoints never end, either the JobManager hangs or part of the log is missing. Without a completed checkpoint
the job starts from scratch after its next failure. An overdue checkpoint reveals a task that hangs or waits, long
before the timeout does. Checkpointing may be off on purpose or by mistake.

How it decides
--------------
- Never completes: at least `triggers` checkpoints were triggered, and none ended.
- Stuck: the last trigger is older than `overdue-ratio` times the timeout (10 minutes if unknown), and the job's log
  continues.
- Overdue: the last trigger is older than `min-age`, and older than `baseline-ratio` times the longest completed
  checkpoint (or the interval if none completed). The log, or the series of snapshots from `flowdiag collect`, must
  continue after it. The finding is critical if no record moves in the job.
- Off: tasks ran for `hours-without` hours, and the JobManager's log contains no trigger.

Checkpoints that were interrupted by a cancellation, a stop or the end of the job do not count.

The result is inconclusive if a checkpoint that is not yet overdue already takes far longer than completed ones. It is
also inconclusive if the log ends with a checkpoint in progress although checkpoints take at most 2% of the interval.

What to do
----------
Overdue checkpoint: take a thread dump of the TaskManager whose subtask has not acknowledged it. CP201 names it.
Otherwise take a thread dump of the JobManager. It shows whether the checkpoint coordinator waits for the storage
of the metadata, an operator coordinator or a master hook. If the log was filtered, pass the complete log.

False alarms
------------
A log that was filtered for "Triggering checkpoint" looks like a hanging JobManager. Periods in which the
JobManager logs nothing at all do not count, because lines may be missing.
"""

from typing import Final

from flowdiag.analyses.checkpoints.pending import (
    LEAST_MS,
    TIMES,
    Pending,
    hours_without_checkpoint,
    pending,
)
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.stall import job_stall


class Limits(h.Limits):
    triggers: float = h.limit(
        3, "checkpoints", "minimum number of unfinished checkpoints; two may be in progress"
    )
    overdue_ratio: float = h.limit(
        2.0, "ratio", "minimum ratio of the last trigger's age to the timeout; expiry takes one"
    )
    baseline_ratio: float = h.limit(
        TIMES,
        "ratio",
        "minimum ratio of the age to the longest completed checkpoint; back pressure can "
        "double a duration",
    )
    min_age: float = h.limit(
        LEAST_MS / 1000, "s", "minimum age of the last trigger; large snapshots usually take less"
    )
    hours_without: float = h.limit(
        2.0, "hours", "minimum running time without a trigger; intervals above two hours are rare"
    )


def judge(job: h.Job, limits: Limits) -> h.Results:
    """Yield at most one finding per job, or the reason why the last checkpoint may not be healthy."""
    fields = (
        _fields_without_outcome(job, limits)
        or _in_progress(job, limits)
        or _disabled_fields(job, limits)
    )
    if fields is not None:
        defaults: h.FindingFields = {
            "severity": h.Severity.CRITICAL,
            "state": h.State.ONGOING,
            "rank": h.Rank.SYMPTOM,
            "last_us": job.last_us,
            "actions": h.shared_remedies(job, "coordinator-threads", "whole-log"),
        }
        yield h.job_finding(job, **(defaults | fields))
        return
    last = pending(job)
    log = not job.cluster.has_rest
    if last is not None and job.completed and last.may_hang(job.interval_ms, at_end_of_log=log):
        where = "when the input ends" if log else f"for {h.fmt.duration(last.age_ms)}"
        yield h.Inconclusive(
            reason=f"checkpoint {last.checkpoint.id} is in progress {where}; completed checkpoints took at most "
            f"{h.fmt.duration(last.reference_ms)}",
            checks=("jobmanager-log-later", "checkpoint-statistics"),
            job=job.key,
        )


def _fields_without_outcome(job: h.Job, limits: Limits) -> h.FindingFields | None:
    triggered = [
        c for c in job.in_order if c.triggered_us is not None and c.status is h.Status.IN_FLIGHT
    ]
    if len(triggered) < limits.triggers or job.concluded:
        return None
    return {
        "title": f"{len(triggered)} checkpoints were triggered, but none completed or failed",
        "explain": h.text("CP106.only-triggers"),
        "first_us": triggered[0].triggered_us,
        "last_us": triggered[-1].triggered_us,
        "count": len(triggered),
        "measurements": (
            h.measurement("triggered-checkpoints", len(triggered), "checkpoints"),
            h.measurement("completed-checkpoints", 0, "checkpoints"),
        ),
        "evidence": h.cite((c.trigger_ref, c.triggered_us) for c in triggered),
    }


def _in_progress(job: h.Job, limits: Limits) -> h.FindingFields | None:
    found, timeout = pending(job), job.timeout_ms or h.DEFAULT_TIMEOUT_MS
    if found is None:
        return None
    if found.age_ms > limits.overdue_ratio * timeout:
        return _stuck_fields(found, timeout, limits)
    if found.age_ms >= (limit_ms := found.limit_ms(limits.baseline_ratio, limits.min_age * 1000)):
        return _overdue(job, found, timeout, limit_ms)
    return None


def _stuck_fields(found: Pending, timeout_ms: float, limits: Limits) -> h.FindingFields:
    """Return the fields of a finding about a checkpoint that the coordinator should have expired."""
    last, age = found.checkpoint, found.age_ms
    return {
        "title": f"Checkpoint {last.id} has been in progress for {h.fmt.duration(age)}",
        "explain": h.text("CP106.not-expired", timeout=h.fmt.duration(timeout_ms)),
        "first_us": last.triggered_us,
        "measurements": (
            h.measurement("checkpoint-age", age, "ms", limits.overdue_ratio * timeout_ms),
        ),
        "evidence": h.cite([(last.trigger_ref, last.triggered_us)]),
    }


def _overdue(job: h.Job, found: Pending, timeout_ms: float, limit_ms: float) -> h.FindingFields:
    """Return the fields of a finding about a checkpoint that takes much longer than usual."""
    last, stall = found.checkpoint, job_stall(job)
    basis = "the interval is" if not job.completed else "completed checkpoints took at most"
    title = f"Checkpoint {last.id} has been in progress for {h.fmt.duration(found.age_ms)}"
    if last.acknowledged is not None and last.subtasks:
        title += f", acknowledged by {last.acknowledged} of {last.subtasks} subtasks"
    explain = h.text("CP106.expires", timeout=h.fmt.duration(timeout_ms))
    if stall is not None:
        title += "; no records move"
        explain += h.text("CP106.no-record-moves", lasted=h.fmt.duration(stall.duration_ms))
    return {
        "severity": h.Severity.CRITICAL if stall is not None else h.Severity.WARNING,
        "title": title,
        "explain": explain,
        "first_us": last.triggered_us,
        "last_us": found.until_us,
        "measurements": (
            h.measurement("checkpoint-age", round(found.age_ms), "ms", limit_ms),
            h.measurement("baseline", found.reference_ms, "ms", over=basis),
        ),
        "evidence": h.cite([(last.trigger_ref, last.triggered_us)]),
        "actions": h.shared_remedies(job, "unacknowledged-threads"),
    }


def _disabled_fields(job: h.Job, limits: Limits) -> h.FindingFields | None:
    hours = hours_without_checkpoint(job)
    if hours is None or hours < limits.hours_without:
        return None
    deployed = [(a.ref, a.deployed_us) for a in job.attempts if a.deployed_us is not None]
    return {
        "severity": h.Severity.INFO,
        "title": f"Tasks ran for {hours:.1f} h and no checkpoint was triggered: checkpointing is off",
        "explain": h.text("CP106.off"),
        "first_us": min(time for _, time in deployed),
        "measurements": (h.measurement("hours-running", hours, "hours", limits.hours_without),),
        "evidence": h.cite(deployed),
        "actions": h.shared_remedies(job, "switch-on"),
    }


RULE: Final = h.Rule(
    "CP106", judge, Limits, core=True, needs="checkpoints", severity=h.Severity.CRITICAL
)
