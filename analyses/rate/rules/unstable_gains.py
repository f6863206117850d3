"""The gains make the rate swing.

What it reports
---------------
A published rate that jumps up and down from batch to batch, with gains that answer an error with
more than the error.

Why it matters
--------------
Batches are too large and too small by turns: the long ones make the delay, the short ones waste the
interval.

How it decides
--------------
The estimators are replayed. Over the late updates the rate turns at half of them or more, its
spread (90th less 10th percentile) is above `swing` of its median, and a gain lies outside of what
is stable: the proportional one above 1, or a derivative one.

What to do
----------
Go back to the defaults: proportional 1.0, integral 0.2, derived 0.0. With proportional 1 the last
rate cancels out, so that nothing can swing.

False alarms
------------
A source that itself comes in bursts as long as an interval.
"""

from __future__ import annotations

import itertools
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
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import quantile
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class UnstableGainsLimits(Limits):
    """What RT205 compares with."""

    swing: float = limit(0.5, "share", "the rate of a steady job varies by a tenth or two")
    turns: float = limit(0.45, "share", "of the updates; noise alone turns at two thirds")


def judge(assessed: Assessed, limits: UnstableGainsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose rate swings."""
    for state in assessed.dstreams:
        for estimator in assessed.estimators:
            found = _finding(assessed, state, estimator, limits)
            if found is not None:
                yield found
                break


def swing(estimator: Replay) -> tuple[float, float] | None:
    """Spread of the late rates over their median, and the share of updates at which they turn."""
    late = [step.new_rate for step in estimator.updates[-max(8, len(estimator.updates) // 2) :]]
    rates = [rate for rate in late if rate is not None]
    if len(rates) < 8:
        return None
    middle = median(rates)
    spread = (quantile(rates, 0.9) - quantile(rates, 0.1)) / middle if middle else 0.0
    steps = [b - a for a, b in itertools.pairwise(rates) if a != b]
    turns = sum((a > 0) != (b > 0) for a, b in itertools.pairwise(steps))
    return spread, turns / max(1, len(steps) - 1)


def _finding(
    assessed: Assessed, state: StreamState, estimator: Replay, limits: UnstableGainsLimits
) -> Finding | None:
    app, gains = assessed.app, estimator.gains
    found = swing(estimator)
    if found is None or found[0] < limits.swing or found[1] < limits.turns:
        return None
    name, value = "proportional", gains.proportional
    if gains.proportional <= 1.0:
        if gains.derived <= 0:
            return None
        name, value = "derived", gains.derived
    option = f"{pid.PREFIX}pid.{name}"
    low, high = (
        quantile([s.new_rate or 0.0 for s in estimator.updates[-12:]], q) for q in (0.1, 0.9)
    )
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.option_subject(app, option),
        title=(
            f"The rate swings between {low:.0f} and {high:.0f} records/s and turns at "
            f"{found[1]:.0%} of the updates; {name} is {value:g}"
        ),
        explain=(
            "Each error is answered with more than the error, so that the next one points the other "
            "way."
        ),
        why=f"{option} = {value:g} makes the rate swing by {found[0]:.0%} of its median",
        cause="unstable-gains",
        rank=Rank.ROOT_CAUSE,
        option=option,
        last_us=app.last_us,
        count=len(estimator.updates),
        measurements=(
            Measurement(
                name="swing", value=round(found[0], 3), unit="share", threshold=limits.swing
            ),
            Measurement(
                name="turns", value=round(found[1], 3), unit="share", threshold=limits.turns
            ),
        ),
        evidence=j.of_batches(app.completed[-10:]),
        actions=(
            Action(
                text="Go back to the default. "
                + what_if(assessed, state, **{name: 1.0 if name == "proportional" else 0.0}),
                option=option,
                current=j.setting(app, option),
                proposed="1.0" if name == "proportional" else "0.0",
                restart_needed=True,
                verify="published rates; flowdiag simulate pid tries other gains",
            ),
        ),
    )


RULE: Final = Rule("RT205", judge, UnstableGainsLimits)
