"""The driver makes batches late.

What it reports
---------------
Batches that were submitted long after their batch time: the driver itself is late, before any delay
that Spark counts.

Why it matters
--------------
Spark's scheduling delay counts from the submission, so that a slow driver (looking up offsets,
listing files, writing checkpoints, collecting garbage) hides in neither delay of the interface.

How it decides
--------------
Submission minus batch time, as the listener tells both. Reported when the median over the present
(`fewest` batches at least) is above `share` of the interval and above `floor`.

What to do
----------
See what the driver does between batches: a checkpoint interval shorter than it takes to write one,
thousands of files to list, slow brokers, a heap that is too small.

False alarms
------------
After a restart from a checkpoint all batches of the down time are submitted at once; they are left
out where the lag falls from batch to batch.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.stability import trend


class Lag(h.Limits):
    """What RT105 compares with."""

    share: float = h.limit(0.5, "share", "half an interval spent before the job begins")
    floor: float = h.limit(500, "ms", "a busy driver is late by tens of milliseconds")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer are chance")


def judge(assessed: h.Assessed, limits: Lag) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose driver is late."""
    app = assessed.app
    late = [b for b in h.late_window(app.completed) if b.generation_lag_ms is not None]
    lags = [float(b.generation_lag_ms or 0) for b in late]
    if not app.interval_ms or len(lags) < max(1, limits.fewest):
        return
    middle = median(lags)
    least = max(limits.share * app.interval_ms, limits.floor)
    slope = trend([float(b.time_ms) for b in late], lags)
    if middle < least or (slope is not None and slope.falls):
        return
    yield h.batch_finding(
        assessed,
        late,
        title=f"Batches are submitted {h.fmt.duration(middle)} after their time, of an interval of "
        f"{h.fmt.duration(app.interval_ms)}",
        why=f"its driver needs {h.fmt.duration(middle)} to make a batch",
        cause="generation-lag",
        rank=h.Rank.MECHANISM,
        measurements=(h.measurement("median-lag", middle, "ms", least),),
        actions=h.remedies("generation-lag", app),
    )


RULE = h.Rule("RT105", judge, Lag, causes=("generation-lag",))
