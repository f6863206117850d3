"""A batch does not end.

What it reports
---------------
A batch whose processing began and did not end for many intervals, while it was the only thing to
do.

Why it matters
--------------
Batches are processed one after the other: behind one that hangs all others wait.

How it decides
--------------
The oldest batch without an end began more than `intervals` before the last sign of life, and took
longer than any batch before it. Batches that only wait are RT101's matter, and those behind which
others ended RT107's.

What to do
----------
Take a thread dump of the executors: look for a call without a time-out in the output function.
Speculation helps against a slow machine, not against a lock.

False alarms
------------
A first batch that takes a whole backlog (see RT206).
"""

from __future__ import annotations

from collections.abc import Iterator
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
from flowdiag.analyses.rate.state import Assessed, unfinished
from flowdiag.analyses.rule import Limits, Rule, limit


class HangingBatchLimits(Limits):
    """What RT104 compares with."""

    intervals: float = limit(10.0, "intervals", "shorter stalls end by themselves")
    ratio: float = limit(3.0, "ratio", "against the longest batch before it")


def judge(assessed: Assessed, limits: HangingBatchLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application with a batch that hangs at the end."""
    for _ in assessed.dstreams:
        found = _finding(assessed, limits)
        if found is not None:
            yield found


def _finding(assessed: Assessed, limits: HangingBatchLimits) -> Finding | None:
    app = assessed.app
    running = [b for b in unfinished(app) if b.state == "processing" and b.start_ms is not None]
    if not running or not app.interval_ms or app.last_us is None:
        return None
    oldest = min(running, key=lambda b: b.start_ms or 0)
    since = app.last_us // 1000 - (oldest.start_ms or 0)
    usual = max((b.processing_ms or 0 for b in app.completed), default=0)
    if since < limits.intervals * app.interval_ms or since < limits.ratio * usual:
        return None
    return Finding(
        job=assessed.key,
        severity=Severity.CRITICAL,
        state=State.ONGOING,
        subject=j.application_subject(app),
        title=(
            f"A batch has been processed for {duration_text(since)} without an end; the longest "
            f"before it took {duration_text(usual)}"
        ),
        explain="All later batches wait behind it.",
        why=f"one batch has not ended for {duration_text(since)}",
        cause="hanging-batch",
        rank=Rank.ROOT_CAUSE,
        first_us=oldest.time_ms * 1000,
        last_us=app.last_us,
        measurements=(
            Measurement(name="running-for", value=since, unit="ms", threshold=usual or None),
        ),
        evidence=j.of_batches([oldest]),
        actions=(
            Action(
                text="Take thread dumps of the executors, and give every call a time-out",
                verify="the batch ends",
            ),
        ),
    )


RULE: Final = Rule("RT104", judge, HangingBatchLimits)
