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
is above `share` of the interval and above `floor`.

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

from collections.abc import Iterator
from statistics import median
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
)
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.stability import trend
from flowdiag.analyses.rate.state import Assessed, late_window
from flowdiag.analyses.rule import Limits, Rule, limit


class GenerationLagLimits(Limits):
    """What RT105 compares with."""

    share: float = limit(0.5, "share", "half an interval spent before the job begins")
    floor: float = limit(500, "ms", "a busy driver is late by tens of milliseconds")


def judge(assessed: Assessed, limits: GenerationLagLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose driver is late."""
    for _ in assessed.dstreams:
        found = _finding(assessed, limits)
        if found is not None:
            yield found


def _finding(assessed: Assessed, limits: GenerationLagLimits) -> Finding | None:
    app = assessed.app
    late = [b for b in late_window(app.completed) if b.generation_lag_ms is not None]
    lags = [float(b.generation_lag_ms or 0) for b in late]
    interval = app.interval_ms
    if len(lags) < 5 or not interval:
        return None
    middle = median(lags)
    limit = max(limits.share * interval, limits.floor)
    slope = trend([float(b.time_ms) for b in late], lags)
    if middle < limit or (slope is not None and slope.falls):
        return None
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.application_subject(app),
        title=(
            f"Batches are submitted {duration_text(middle)} after their time, of an interval of "
            f"{duration_text(interval)}"
        ),
        explain="No delay that Spark shows counts this time: it lies before the submission.",
        why=f"its driver needs {duration_text(middle)} to make a batch",
        cause="generation-lag",
        rank=Rank.MECHANISM,
        first_us=late[0].time_ms * 1000,
        last_us=late[-1].time_ms * 1000,
        count=len(late),
        measurements=(Measurement(name="median-lag", value=middle, unit="ms", threshold=limit),),
        evidence=j.of_batches(late),
        actions=(
            Action(
                text="See what the driver does between batches, and give it more memory and cores",
                verify="submission time against batch time",
            ),
        ),
    )


RULE: Final = Rule("RT105", judge, GenerationLagLimits)
