"""The watermark of one subtask is far behind its siblings'.

What it reports
---------------
A subtask whose input watermark is minutes behind that of the other subtasks of its task.

Why it matters
--------------
Windows and timers of the subtask fire late, its state grows, and downstream joins have to wait.

How it decides
--------------
In every window of the metrics, the `currentInputWatermark` of the subtask is lower than the median of its siblings
by at least `lag`. At least `samples` samples are required.

What to do
----------
Check the upstream tasks for an idle partition or split (use `withIdleness`) and for a source that lags.

False alarms
------------
Without a shuffle, each chain has the watermark of its own source, so subtasks may differ. The finding is
only a note.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.watermark_lags import steady_lags


class Limits(h.Limits):
    lag: float = h.limit(
        60, "s", "minimum lag of a watermark behind the median; windows are rarely shorter"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one note per task."""
    for task in job.topology.tasks:
        lags = steady_lags(job, task, limits.samples)
        key = max(lags, key=lambda key: (lags[key], key), default=None)
        if key is None or lags[key] < limits.lag * 1000:
            continue
        samples = job.samples[key]
        yield h.subtask_finding(
            job,
            key,
            samples[-1].taskmanager,
            title=f"The watermark of {h.subtask_name(job, key)} is {h.fmt.duration(lags[key])} behind its "
            "siblings'",
            confidence=h.Confidence.MEDIUM,
            rank=h.Rank.SYMPTOM,
            explain="A source or task upstream of this subtask holds event time back.",
            measurements=(
                h.measurement(
                    "watermark-lag",
                    round(lags[key]),
                    "ms",
                    limits.lag * 1000,
                    over="the smallest lag behind the siblings' median in any window",
                ),
            ),
            evidence=h.records_of(samples, "watermark", key=key),
            actions=h.shared_remedies(job.job, "idle-upstream"),
        )


RULE = h.Rule("SK106", judge, Limits, needs="event-time")
