"""The positions of a source no longer exist in Kafka.

What it reports
---------------
The partitions whose records were deleted before the job read them, and how many records the job skipped. If the offsets
of a partition begin again, the rule reports this instead.

Why it matters
--------------
The source continues at the oldest or newest remaining record, without an error. The deleted records are
permanently missing from the results.

How it decides
--------------
Kafka's client logs that its position is out of range and that it resets the position. If the new position is higher,
the difference is the number of lost records. If it is lower, the topic was deleted and recreated, or a replica
without the latest records became the leader. If a job starts without a position, a reset loses no
records. A loss counts as ongoing if it happened within `recent` of the end of the input.

What to do
----------
Find out why the job was behind by more than the retention time. Set a retention time longer than the longest
outage of the job. If offsets begin again, find out who recreated the topic.

False alarms
------------
With `auto.offset.reset=latest`, the new position after a loss is that of the newest record, so the number also includes
records that Kafka still has.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    recent: float = h.limit(
        60, "s", "time before the end of the input in which a loss counts as ongoing"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding about deleted records, and one about offsets that begin again."""
    resets = h.lossy_resets(job)
    back = [reset for reset in resets if reset.skipped is not None and reset.skipped < 0]
    gone = [reset for reset in resets if reset not in back]
    if gone:
        lost = sum(reset.skipped or 0 for reset in gone)
        count = f"{h.fmt.plural(lost, 'record')} of " if lost else "records of "
        fields: h.FindingFields = {
            "title": f"Kafka deleted {count}{_count(gone)} before the job read them",
            "why": f"the positions of {_names(gone)} were out of range",
            "cause": "offsets-out-of-range",
            "measurements": (
                h.measurement("lost-records", lost or None, "records"),
                h.measurement("partitions", _distinct(gone), "partitions"),
            ),
            "actions": h.remedies("offsets-out-of-range", job.job, "retention"),
        }
        yield h.job_finding(job, **(_fields(job, gone, limits) | fields))
    if back:
        fields = {
            "title": f"The offsets of {_count(back)} begin again, at lower positions than the job had read",
            "why": f"the positions of {_names(back)} were above the last offset",
            "cause": "offsets-went-back",
            "measurements": (h.measurement("partitions", _distinct(back), "partitions"),),
            "actions": h.remedies("offsets-went-back", job.job),
        }
        yield h.job_finding(job, **(_fields(job, back, limits) | fields))


def _fields(job: h.JobQueues, resets: list[h.LossyReset], limits: Limits) -> h.FindingFields:
    times = [reset.time_us for reset in resets if reset.time_us is not None]
    return {
        "severity": h.Severity.CRITICAL,
        "state": h.state_at_end(job, max(times, default=None), limits.recent),
        "rank": h.Rank.ROOT_CAUSE,
        "first_us": min(times, default=None),
        "last_us": max(times, default=None),
        "count": len(resets),
        "evidence": h.cite((reset.ref, reset.time_us) for reset in resets),
    }


def _distinct(resets: list[h.LossyReset]) -> int:
    return len({reset.partition for reset in resets})


def _count(resets: list[h.LossyReset]) -> str:
    return h.fmt.plural(_distinct(resets), "partition")


def _names(resets: list[h.LossyReset]) -> str:
    return h.fmt.listed(sorted({reset.partition for reset in resets})[:3])


RULE = h.Rule(
    "IO104",
    judge,
    Limits,
    causes=("offsets-out-of-range", "offsets-went-back"),
    needs="records",
    severity=h.Severity.CRITICAL,
)
