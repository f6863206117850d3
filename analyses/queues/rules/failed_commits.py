"""The source cannot commit its offsets to Kafka.

What it reports
---------------
How many commits failed, for how long, and with which error.

Why it matters
--------------
Flink restores offsets from its checkpoints, so the job loses no data. But the lag of the consumer group, and alerts
on it, are wrong. A start without a checkpoint begins at an old offset and reads records again.

How it decides
--------------
The source logs each checkpoint whose offsets it could not commit. At least `commits` checkpoints must be affected.
Failures in the same second count once: they waited while the source did not poll.
Failures count as ongoing if they occur within `recent` of the end of the input.

What to do
----------
Fix the error of the commits. Until then, use `pendingRecords` for alerts instead of the lag of the group.

False alarms
------------
A few commits fail when the broker of the group restarts.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    commits: float = h.limit(
        3, "checkpoints", "minimum number of failed commits; a broker restart causes one or two"
    )
    recent: float = h.limit(
        60, "s", "period at the end of the input in which failures count as ongoing"
    )


_CAUSE = "failed-commits"


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    found = [incident for incident in job.job.incidents if incident.kind == "commit-failed"]
    checkpoints = h.affected_checkpoints(job)
    if len(checkpoints) < limits.commits:
        return
    times = [incident.time_us for incident in found if incident.time_us is not None]
    name = h.service_name(job, h.KAFKA, "Consumer")
    error = h.class_of(found[-1])
    denied = error is not None and "denied" in error
    count = h.fmt.plural(len(checkpoints), "checkpoint")
    yield h.job_finding(
        job,
        subject=h.service_subject(job, name),
        title=f"{h.fmt.capital(name)} did not accept the offset commits of {count}: the lag of the consumer group is wrong",
        why=f"the offset commits of {count} failed",
        severity=h.Severity.WARNING,
        state=h.state_at_end(job, max(times, default=None), limits.recent),
        cause=_CAUSE,
        rank=h.Rank.MECHANISM,  # it slows nothing down
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(checkpoints),
        measurements=(
            h.measurement("failed-commits", len(checkpoints), "checkpoints", limits.commits),
        ),
        evidence=h.cite((incident.ref, incident.time_us) for incident in found),
        actions=h.remedies(_CAUSE, job.job, *(("allow",) if denied else ("group",))),
    )


RULE = h.Rule("IO106", judge, Limits, causes=(_CAUSE,), needs="records")
