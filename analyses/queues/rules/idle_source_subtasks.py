"""The topic has fewer partitions than the source has subtasks, and the busy subtasks cannot keep up.

What it reports
---------------
How many subtasks of a source read nothing while the lag grows.

Why it matters
--------------
Each partition is read by a single subtask. Subtasks without a partition do nothing, but they occupy slots, and
they block watermarks unless the source marks them as idle.

How it decides
--------------
Some subtasks of the source emit no record throughout the input, and have no `pendingRecords`. All others are busy
for at least `busy` of the time, or the source reports no busy times. The lag of the source grows, and its delay is
at least `delay`. If tasks downstream limit the job, more partitions do not help, and the rule reports nothing. It
also reports nothing if the job keeps up, because idle subtasks alone are harmless.

False alarms
------------
Partitions that receive no record for a long time look like missing partitions.
"""

from flowdiag.analyses.queues import helpers as h


def judge(job: h.JobQueues, limits: h.SourceLimits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per source."""
    if h.serious_spells(job) or h.has_back_pressured_sources(job):
        return
    for task in sorted(job.topology.sources):
        idle = h.silent_subtasks(job, task)
        loads = h.active_loads(job, task)
        trend = h.job_trend(job)
        if trend is None or not h.is_falling_behind(trend, limits.delay):
            continue
        if not h.lacks_partitions(job, task, limits.busy):
            continue
        size = max(job.topology.parallelism.get(task, 0), len(idle) + len(loads))
        yield h.task_finding(
            job,
            task,
            title=f"{len(idle)} of {size} subtasks of {h.fmt.shorten(task)} have no partition"
            f" while the lag grows by {h.fmt.rate(trend.per_s)}",
            why=f"{len(idle)} of {size} subtasks read nothing, and the others are busy all the time",
            severity=h.Severity.WARNING,
            cause="too-few-partitions",
            rank=h.Rank.ROOT_CAUSE,
            first_us=trend.first_us,
            last_us=trend.last_us,
            measurements=(
                h.measurement("idle-subtasks", len(idle), "subtasks", over=f"of {size}"),
                *h.lag_measurements(trend, limits.delay),
            ),
            evidence=(
                *trend.evidence,
                *h.records_of(job.samples[idle[0]], "pending", "idle", key=idle[0]),
            ),
            actions=h.remedies("too-few-partitions", job.job),
        )


RULE = h.Rule("IO103", judge, h.SourceLimits, causes=("too-few-partitions",), needs="lags")
