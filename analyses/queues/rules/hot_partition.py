"""One partition has most of the waiting records.

What it reports
---------------
The subtask of a source that is far behind while its siblings keep up, and its partition if an input names it.

Why it matters
--------------
Each partition is read by a single subtask, so more subtasks do not help. Event time waits for the slowest
partition.

How it decides
--------------
At the end of the input, the subtask has at least `share` of the `pendingRecords` of its source, and at least
`ratio` times the mean of its siblings. Its delay is at least `delay`, and its lag grows. The subtask also emits
at least `records` times as many records as its siblings on average. A subtask that emits about as many records as
its siblings is slow, not hot. A subtask that waits for downstream tasks is neither. In the output of
`kafka-consumer-groups`, the rule looks for the partition with the same share of the lag. If the subtask that emits most
is busy, the lag of this partition counts as well. A busy source rarely fetches, and its `pendingRecords` stays too low.

False alarms
------------
A subtask may be behind because it reads several partitions while others read one.
"""

from flowdiag.analyses.queues import helpers as h


class Limits(h.Limits):
    share: float = h.limit(
        0.5, "share", "minimum share of the total lag; below it, other partitions lag as well"
    )
    ratio: float = h.limit(3, "ratio", "minimum lag as a multiple of the siblings' mean")
    records: float = h.limit(1.5, "ratio", "minimum output as a multiple of the siblings' mean")
    delay: float = h.limit(
        10, "s", "minimum delay of the source; checkpoints, pauses and bursts cause shorter delays"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per source, or one about a partition if only a consumer group is known."""
    found = False
    for task in sorted(job.topology.sources):
        hot = h.hot_subtask(job, task, limits.share, limits.ratio, limits.records, limits.delay)
        if hot is None:
            continue
        key, trend, share = hot
        name = h.hot_partition(job, limits.share, limits.ratio)
        found = True
        yield _finding(job, name, trend, share, limits, key)
    name = h.hot_partition(job, limits.share, limits.ratio)
    if found or name is None or job.samples:
        return
    alone = h.group_trend(job, name)
    if alone is not None and h.is_falling_behind(alone, limits.delay):
        yield _finding(job, name, alone, None, limits, None)


def _finding(
    job: h.JobQueues,
    partition: str | None,
    trend: h.Trend,
    share: float | None,
    limits: Limits,
    key: h.SubtaskKey | None,
) -> h.Finding:
    who = "its partition" if partition is None else f"partition {partition}"
    fields: h.FindingFields = {
        "title": f"{h.fmt.capital(who)} is hot: its lag grows by {h.fmt.rate(trend.per_s)}"
        f" to {h.fmt.number(round(trend.last))} records",
        "why": f"{who} has {h.fmt.number(round(trend.last))} waiting records"
        + (f", {h.fmt.percent(share)} of the lag" if share is not None else ""),
        "severity": h.Severity.WARNING,
        "cause": "hot-partition",
        "rank": h.Rank.ROOT_CAUSE,
        "first_us": trend.first_us,
        "last_us": trend.last_us,
        "measurements": h.lag_measurements(trend, limits.delay),
        "evidence": trend.evidence,
        "actions": h.remedies("hot-partition", job.job),
    }
    if key is None:
        subject = h.Subject(kind="partition", partition=partition)
        return h.job_finding(job, subject=subject, **fields)
    subject = h.subtask_subject(job, key, job.samples[key][-1].taskmanager)
    if partition is None:
        fields["title"] = (
            f"{h.subtask_name(job, key)} reads a hot partition: "
            + fields["title"].partition(": ")[2]
        )
    return h.job_finding(job, subject=h.with_partition(subject, partition), **fields)


RULE = h.Rule("IO102", judge, Limits, causes=("hot-partition",), needs="lags")
