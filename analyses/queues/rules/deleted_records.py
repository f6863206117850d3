"""Kafka deleted records before the job read them.

What it reports
---------------
The partitions whose records were deleted, and how many records the job skipped.

Why it matters
--------------
The source continues at the oldest or newest remaining record, without an error. The deleted records are
permanently missing from the results.

How it decides
--------------
Kafka's client logs that its position is out of range and that it resets the position. The difference between the
old and the new position is the number of lost records. If a job starts without a position, a reset loses no
records. A loss counts as ongoing if it happened within `recent` of the end of the input.

What to do
----------
Find out why the job was behind by more than the retention time. Set a retention time longer than the longest
outage of the job.

False alarms
------------
After a topic is deleted and created again, its offsets are lower. In this case, the job has lost the unread
records of the old topic.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    recent: float = h.limit(
        60, "s", "time before the end of the input in which a loss counts as ongoing"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    resets = h.lossy_resets(job)
    if not resets:
        return
    partitions = sorted({reset.partition for reset in resets})
    lost = [reset.lost for reset in resets if reset.lost is not None]
    count = f"{h.fmt.plural(sum(lost), 'record')} of " if lost else "records of "
    times = [reset.time_us for reset in resets if reset.time_us is not None]
    names = h.fmt.listed(partitions[:3], " and ")
    yield h.job_finding(
        job,
        title=f"Kafka deleted {count}{h.fmt.plural(len(partitions), 'partition')} before the job read them",
        why=f"the positions of {names} were out of range",
        severity=h.Severity.CRITICAL,
        state=h.state_at_end(job, max(times, default=None), limits.recent),
        cause="offsets-out-of-range",
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(resets),
        measurements=(
            h.measurement("lost-records", sum(lost) if lost else None, "records"),
            h.measurement("partitions", len(partitions), "partitions"),
        ),
        evidence=h.cite((reset.ref, reset.time_us) for reset in resets),
        actions=h.remedies("offsets-out-of-range", job.job, "retention"),
    )


RULE = h.Rule(
    "IO104",
    judge,
    Limits,
    causes=("offsets-out-of-range",),
    needs="records",
    severity=h.Severity.CRITICAL,
)
