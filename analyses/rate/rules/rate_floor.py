"""The rate may not go as low as it would have to.

What it reports
---------------
An estimator that would lower the rate further, but is held at its floor, `minRate`, while the job
processes less than that per second.

Why it matters
--------------
Back pressure is on and seems to work, yet the delay grows: the floor lets in more than is
processed. It is Spark's default of 100 records per second and stream that does it most often, or a
value copied from another job.

How it decides
--------------
The estimators are replayed from the batches, to the last bit. In most of the late updates the
unclamped rate lies below `minRate`, what is processed (records over processing time) too, and the
delay grows. Where even batches with few records take the whole interval, lower rates would not help
either: that is RT202.

What to do
----------
Lower `minRate` to a tenth of what the job processes, per stream.

False alarms
------------
A floor that is kept on purpose to work off what a topic would delete.
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
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class RateFloorLimits(Limits):
    """What RT201 compares with."""

    share: float = limit(rate_state.MOSTLY, "share", "of the late updates, held at the floor")


def judge(assessed: Assessed, limits: RateFloorLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose floor is above what it processes."""
    for state in assessed.dstreams:
        if state.stability is not Stability.OVERLOADED or fixed_cost(assessed, state):
            continue
        held = [
            one for one in assessed.estimators if floor_share(one) >= limits.share and too_high(one)
        ]
        if held:
            yield _finding(assessed, state, held)


def floor_share(estimator: Replay) -> float:
    """How many of the late updates the floor decided.

    An estimator that would go below the floor by a hair only is not held by it.
    """
    late = estimator.updates[-max(6, len(estimator.updates) // 3) :]
    if not late:
        return 0.0
    held = sum(
        step.at_floor and (step.unclamped_rate or 0.0) < 0.99 * estimator.gains.min_rate
        for step in late
    )
    return held / len(late)


def too_high(estimator: Replay) -> bool:
    """Whether the floor lies above what is processed: a low floor alone does no harm."""
    rates = [s.processing_rate for s in estimator.updates[-6:] if s.processing_rate]
    return bool(rates) and median(rates) < estimator.gains.min_rate


def fixed_cost(assessed: Assessed, state: StreamState) -> float | None:
    """What a batch costs that holds next to nothing, if that is about the interval; else None."""
    interval = state.interval_ms or 0
    done = [
        b
        for b in assessed.app.completed[rate_state.COLD :]
        if b.processing_ms and not b.failed_outputs
    ]
    counted = [b.records for b in done if b.records is not None]
    if not counted or len(done) < rate_state.FEW:
        return None
    top = max(counted)
    small = [
        float(b.processing_ms or 0) for b in done if b.records is not None and b.records <= top / 4
    ]
    if top and len(small) >= 3 and median(small) >= 0.9 * interval:
        return median(small)
    line = state.line
    if line is not None and line.spread >= 0.5 and line.base >= 0.9 * interval:
        return line.base
    return None


def _finding(assessed: Assessed, state: StreamState, held: list[Replay]) -> Finding:
    app = assessed.app
    floor = held[0].gains.min_rate
    rates = [s.processing_rate for one in held for s in one.updates[-6:] if s.processing_rate]
    able = median(rates) if rates else None
    wanted = [s.unclamped_rate for one in held for s in one.updates[-6:] if s.unclamped_rate]
    proposed = max(1.0, (able or floor) / 10)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.option_subject(app, pid.MIN_RATE),
        title=(
            f"The rate is held at minRate ({j.rate_text(floor)}), above the "
            f"{j.rate_text(able)} that are processed"
        ),
        explain=(
            "The estimator would go lower and may not. A scheduling delay of five intervals alone "
            "pins it there with the default gains, but here the floor itself is too high: what it "
            "lets in is more than the job processes, so that the delay never falls."
        ),
        why=f"lets in {j.rate_text(floor)} where {j.rate_text(able)} are processed",
        cause="rate-floor",
        rank=Rank.ROOT_CAUSE,
        option=pid.MIN_RATE,
        last_us=app.last_us,
        count=sum(step.at_floor for one in held for step in one.steps),
        measurements=(
            Measurement(name="floor", value=floor, unit="records/s"),
            Measurement(
                name="processed",
                value=None if able is None else round(able, 1),
                unit="records/s",
                threshold=floor,
                population="records over processing time, median of the last updates",
            ),
            Measurement(
                name="wanted-rate",
                value=round(median(wanted), 1) if wanted else None,
                unit="records/s",
                population="before it was clamped",
            ),
            Measurement(
                name="updates-at-floor", value=round(floor_share(held[0]), 3), unit="share"
            ),
        ),
        evidence=j.of_batches(rate_state.late_window(app.completed)),
        actions=(
            Action(
                text="Let the rate go as low as the job needs. "
                + what_if(assessed, state, min_rate=proposed * max(1, len(assessed.estimators))),
                option=pid.MIN_RATE,
                current=j.setting(app, pid.MIN_RATE),
                proposed=f"{proposed:.0f}",
                restart_needed=True,
                verify="scheduling delay falls below an interval",
            ),
        ),
    )


RULE: Final = Rule("RT201", judge, RateFloorLimits)
