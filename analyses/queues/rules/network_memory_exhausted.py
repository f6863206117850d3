"""Tasks request more network buffers than the TaskManager has.

What it reports
---------------
TaskManagers whose tasks request more network buffers than exist, or that sometimes have no free buffer.

Why it matters
--------------
If a buffer pool gets little more than its minimum, every burst uses it up. Tasks then wait although no task is
slow.

How it decides
--------------
There are two signs. Each requires at least `samples` samples.

Too many buffers requested: the mean of `RequestedMemoryUsage` is above `requested` (1.15 and later; Flink also
warns about it). The finding is a warning if a task waits for more than `wait-share` of the whole input or of at least
one minute, and no slow task explains the wait. Individual minutes count because the mean of a long input hides bursts.
The confidence is low unless a task waits in at least `minutes` minutes. Without such a wait the finding is a note,
because the job may not need all these buffers.

No free buffers: on average, at most `free-share` of the memory segments are available, and sometimes none. The finding
is a warning unless a slow task explains why all buffers are in use.

What to do
----------
Add network memory. Alternatively, use fewer buffers per channel, or a lower parallelism if there are many
channels.

False alarms
------------
A job may be fast enough with the buffers that it has.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.segments import Shortage, minutes_of_waiting, shortage_of


class Limits(h.Limits):
    requested: float = h.limit(1.0, "share", "share of requested buffers above which Flink warns")
    wait_share: float = h.limit(
        0.1, "share", "maximum share of time that tasks wait; the Web UI highlights higher shares"
    )
    minutes: float = h.limit(
        2, "minutes", "minimum number of minutes for medium confidence; one may be a coincidence"
    )
    free_share: float = h.limit(
        0.05, "share", "maximum share of free segments; a burst needs more segments"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    short = [
        shortage_of(
            name, reports, most=limits.requested, hardly=limits.free_share, samples=limits.samples
        )
        for name, reports in job.taskmanagers.items()
    ]
    found = sorted(filter(None, short), key=lambda s: (-(s.requested or 0.0), s.taskmanager))
    if found:
        yield _finding(job, found, limits)


def _finding(job: h.JobQueues, found: list[Shortage], limits: Limits) -> h.Finding:
    minutes = minutes_of_waiting(job, waits=limits.wait_share, samples=limits.samples)
    exhausted = any(shortage.exhausted for shortage in found)
    unexplained = (minutes or exhausted) and not h.serious_spells(job)
    worst = found[0]
    problem = "at times, no buffer is free"
    if worst.requested is not None and worst.requested > limits.requested:
        problem = f"tasks request {h.fmt.percent(worst.requested)} of it"
    severity, confidence = h.Severity.INFO, h.Confidence.LOW
    if unexplained:
        severity = h.Severity.WARNING
        if exhausted or minutes >= limits.minutes:
            confidence = h.Confidence.MEDIUM
    reports = [job.taskmanagers[shortage.taskmanager] for shortage in found]
    return h.job_finding(
        job,
        subject=h.taskmanager_subject(job, worst.taskmanager) if len(found) == 1 else None,
        title=f"Network memory is tight on {h.fmt.plural(len(found), 'TaskManager')}: {problem}"
        + (", and tasks wait" if minutes else ""),
        severity=severity,
        cause="network-memory",
        confidence=confidence,
        rank=h.Rank.MECHANISM,
        count=len(found),
        measurements=worst.measurements,
        # The last report of each TaskManager, out of all its reports.
        evidence=h.records_of(
            [each[-1] for each in reports],
            "segments_requested",
            "segments_free",
        ),
        evidence_total=sum(len(h.records_of(each)) for each in reports),
        ranked=True,
        actions=h.remedies("network-memory", job.job),
    )


RULE = h.Rule("BP202", judge, Limits, causes=("network-memory",), needs="records")
