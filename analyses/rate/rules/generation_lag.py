"""The driver generates batches late.

What it reports
---------------
Batches that the driver submits long after their batch time. Spark does not count this lag as a delay.

Why it matters
--------------
Spark's scheduling delay starts at the submission. The delays in the Web UI therefore do not show a driver that is
slow to look up offsets, list files, write checkpoints or collect garbage.

How it decides
--------------
The lag is the submission time minus the batch time, both from the listener. The median lag of the recent
batches is at least `share` of the interval and at least `floor`. The rule needs at least `min-batches` recent
batches.

What to do
----------
Check the driver's work between batches. Typical causes are checkpoints that take longer than the
checkpoint interval, thousands of files to list, slow brokers, and a small heap.

False alarms
------------
After a restart from a checkpoint, the driver submits all batches of the downtime at once. The rule
ignores a lag that falls from batch to batch.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import trend


class Limits(h.Limits):
    share: float = h.limit(
        0.5, "share", "minimum lag of the driver as a share of the batch interval"
    )
    floor: float = h.limit(
        500, "ms", "minimum lag of the driver; a busy driver is only slightly late"
    )
    min_batches: float = h.min_count_limit("batches")


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose driver submits batches late."""
    app = assessed.app
    late = [b for b in h.late_window(app.completed) if b.generation_lag_ms is not None]
    lags = [float(b.generation_lag_ms or 0) for b in late]
    if not app.interval_ms or len(lags) < max(1, limits.min_batches):
        return
    middle, took = median(lags), h.fmt.duration(median(lags))
    least = max(limits.share * app.interval_ms, limits.floor)
    slope = trend([float(b.time_ms) for b in late], lags)
    if middle < least or (slope is not None and slope.is_falling):
        return
    yield h.batch_finding(
        assessed,
        late,
        title=f"The driver submits batches {took} after their batch time (batch interval: "
        f"{h.fmt.duration(app.interval_ms)})",
        why=f"its driver needs {took} to generate a batch",
        cause="generation-lag",
        rank=h.Rank.MECHANISM,
        measurements=(h.measurement("median-lag", middle, "ms", least),),
        actions=h.remedies("generation-lag", app),
    )


RULE = h.Rule("RT105", judge, Limits, causes=("generation-lag",), needs="batches")
