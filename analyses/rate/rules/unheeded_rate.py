"""The published rate is not heeded.

What it reports
---------------
Back pressure that is on and publishes rates, while batches hold much more than they permit, or no
record at all is counted.

Why it matters
--------------
The estimator believes that it acts and does not: the delay grows as without it.

How it decides
--------------
In an overloaded application with back pressure: most late batches hold more than `ratio` times what
the replayed rate permits in their interval, a second of burst included. Only
`Receiver.store(record)` passes the limiter; `store(iterator)` and the like do not. Or every batch
counts zero records while it takes time: file streams never count, and an estimator without records
skips every update.

What to do
----------
Store records one by one, or through the receiver's own block generator; for files limit what is new
per batch where it is written.

False alarms
------------
Batches that were made while the driver was late hold the records of more than one interval: RT105
says so.
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
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class UnheededRateLimits(Limits):
    """What RT206 compares with."""

    ratio: float = limit(2.0, "ratio", "a late batch may hold two intervals' worth, not more")
    share: float = limit(rate_state.MOSTLY, "share", "of the late batches")


def judge(assessed: Assessed, limits: UnheededRateLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose receivers take what they like."""
    for state in assessed.dstreams:
        if pid.enabled(assessed.app) is not True or not rate_state.overloaded(state):
            continue
        late = rate_state.late_window(assessed.app.completed)
        if late and all(b.records == 0 for b in assessed.app.completed):
            yield _finding(assessed, late, "no batch counts a record, so that no rate is computed")
            continue
        # The batches that wait are newer than the rates, those that completed may be older.
        counted = [b for b in assessed.app.batches if b.records is not None]
        late = tuple(counted[-max(rate_state.LATE, len(counted) // 3) :])
        for estimator in assessed.estimators:
            over = [b for b in late if beyond(b, estimator, assessed.app, limits.ratio)]
            if late and len(over) >= limits.share * len(late):
                said = f"{len(over)} of {len(late)} batches hold more than twice what it permits"
                yield _finding(assessed, over, said, estimator.stream)
                break


def beyond(batch: Batch, estimator: Replay, app: ApplicationFacts, ratio: float) -> bool:
    """Whether a batch holds more than the rates before and during its interval explain."""
    interval = app.interval_ms or 0
    records = next((s.records for s in batch.streams if s.stream == estimator.stream), 0)
    begin = batch.time_ms - interval
    before = [s.new_rate for s in estimator.steps if s.new_rate and s.observation.time_ms <= begin][
        -1:
    ]
    during = [
        s.new_rate
        for s in estimator.steps
        if s.new_rate and begin < s.observation.time_ms <= batch.time_ms
    ]
    if not before:
        return False
    return records > ratio * max(before + during) * (interval / 1000 + 1)


def _finding(
    assessed: Assessed,
    batches: list[Batch] | tuple[Batch, ...],
    said: str,
    stream: int | None = None,
) -> Finding:
    app = assessed.app
    subject = j.application_subject(app) if stream is None else j.receiver_subject(app, stream)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=f"Back pressure is on and has no effect: {said}",
        explain="Only records that a receiver stores one by one pass the limiter.",
        why=said,
        cause="unheeded-rate",
        rank=Rank.ROOT_CAUSE,
        last_us=app.last_us,
        count=len(batches),
        measurements=(Measurement(name="batches-beyond", value=len(batches), unit="batches"),),
        evidence=j.of_batches(batches),
        actions=(
            Action(
                text="Store records one by one, or limit what the source brings per batch",
                option=pid.ENABLED,
                current=j.setting(app, pid.ENABLED),
                verify="records per batch against the published rate",
            ),
        ),
    )


RULE: Final = Rule("RT206", judge, UnheededRateLimits)
