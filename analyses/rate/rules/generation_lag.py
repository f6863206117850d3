"""The driver generates batches late.

What it reports
---------------
Batches that the driver submits long after their batch time, before any delay that Spark counts.

Why it matters
--------------
Spark's scheduling delay starts at the submission. A slow driver (looking up offsets, listing files,
writing checkpoints, collecting garbage) appears in no delay of the Web UI.

How it decides
--------------
The lag is submission minus batch time, both from the listener. The finding requires a median above
`share` of the interval and above `floor`, over at least `fewest` recent batches.

What to do
----------
Check the driver's work between batches: a checkpoint interval shorter than the checkpoint itself,
thousands of files to list, slow brokers, a small heap.

False alarms
------------
After a restart from a checkpoint, the driver submits all batches of the downtime together. The rule
ignores a lag that falls from batch to batch.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import trend


class Lag(h.Limits):
    """Limits of RT105."""

    share: float = h.limit(0.5, "share", "of the interval, before the job begins")
    floor: float = h.limit(500, "ms", "a busy driver is late by tens of milliseconds")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer may be chance")


def judge(assessed: h.Assessed, limits: Lag) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application whose driver is late."""
    app = assessed.app
    late = [b for b in h.late_window(app.completed) if b.generation_lag_ms is not None]
    lags = [float(b.generation_lag_ms or 0) for b in late]
    if not app.interval_ms or len(lags) < max(1, limits.fewest):
        return
    middle, took = median(lags), h.fmt.duration(median(lags))
    least = max(limits.share * app.interval_ms, limits.floor)
    slope = trend([float(b.time_ms) for b in late], lags)
    if middle < least or (slope is not None and slope.falls):
        return
    yield h.batch_finding(
        assessed,
        late,
        title=f"The driver submits batches {took} after their batch time, with an interval of "
        f"{h.fmt.duration(app.interval_ms)}",
        why=f"its driver needs {took} to generate a batch",
        cause="generation-lag",
        rank=h.Rank.MECHANISM,
        measurements=(h.measurement("median-lag", middle, "ms", least),),
        actions=h.remedies("generation-lag", app),
    )


RULE = h.Rule("RT105", judge, Lag, causes=("generation-lag",))
