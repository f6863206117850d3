"""The first batch takes a whole backlog.

What it reports
---------------
A first batch that takes everything a topic holds, since nothing limits it before the first
estimate.

Why it matters
--------------
It runs for many intervals, and all others wait behind it; after each restart again.

How it decides
--------------
Kafka's direct stream: the first batch with records holds `ratio` times the median of the later ones
or more and took longer than `intervals` intervals, while neither `initialRate` nor
`maxRatePerPartition` was set. The estimator needs two completed batches before its first rate.

What to do
----------
Set `spark.streaming.kafka.maxRatePerPartition`, or with back pressure
`spark.streaming.backpressure.initialRate` (2.4 and later for Kafka).

False alarms
------------
An application that is meant to read a backlog once; it is information as long as the delay falls
again.
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
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.model import kafka_ranges
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class UnlimitedFirstBatchLimits(Limits):
    """What RT207 compares with."""

    ratio: float = limit(5.0, "ratio", "more than any burst between two batches")
    intervals: float = limit(5.0, "intervals", "shorter ones are a cold start")


def judge(
    assessed: Assessed, limits: UnlimitedFirstBatchLimits
) -> Iterator[Finding | Inconclusive]:
    """One finding per application that begins so."""
    for state in assessed.dstreams:
        found = _finding(assessed, state, limits)
        if found is not None:
            yield found


def _finding(
    assessed: Assessed, state: StreamState, limits: UnlimitedFirstBatchLimits
) -> Finding | None:
    app = assessed.app
    options = (pid.INITIAL_RATE, pid.MAX_PER_PARTITION)
    if not app.interval_ms or any(pid.number(app.settings.get(key)) for key in options):
        return None
    filled = [b for b in app.completed if b.records]
    if len(filled) < 5 or filled[0].processing_ms is None:
        return None
    first, later = filled[0], median(b.records or 0 for b in filled[1:])
    direct = any(kafka_ranges(stream.description) for stream in first.streams)
    if (
        not direct
        or (first.records or 0) < limits.ratio * later
        or filled[0].processing_ms < limits.intervals * app.interval_ms
    ):
        return None
    lasting = rate_state.overloaded(state)
    option = pid.INITIAL_RATE if pid.enabled(app) else pid.MAX_PER_PARTITION
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING if lasting else Severity.INFO,
        state=State.ONGOING if lasting else State.RECOVERED,
        subject=j.option_subject(app, option),
        title=(
            f"The first batch took {first.records} records and "
            f"{duration_text(filled[0].processing_ms)}; later ones hold {later:.0f}"
        ),
        explain="Before the first estimate nothing limits a batch of the direct stream.",
        why=f"{option} is not set, so that the first batch took {first.records} records",
        cause="unlimited-first-batch",
        rank=Rank.ROOT_CAUSE,
        option=option,
        first_us=first.time_ms * 1000,
        last_us=first.time_ms * 1000,
        measurements=(
            Measurement(name="records", value=first.records, unit="records"),
            Measurement(name="later-batches", value=later, unit="records"),
        ),
        evidence=j.of_batches([first]),
        actions=(
            Action(
                text="Limit what a batch may take before the first estimate",
                option=option,
                current=j.setting(app, option),
                restart_needed=True,
                verify="records of the first batch after a restart",
            ),
        ),
    )


RULE: Final = Rule("RT207", judge, UnlimitedFirstBatchLimits)
