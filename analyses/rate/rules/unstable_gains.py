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
The estimators are replayed. Over the late half of the updates (`updates` at least) the rate turns at
`turns` of them or more, its spread (90th less 10th percentile) is above `swing` of its median, and
a gain lies outside of what is stable: the `proportional` one above 1, or a derivative one.

What to do
----------
Go back to the defaults: proportional 1.0, integral 0.2, derived 0.0. With proportional 1 the last
rate cancels out, so that nothing can swing.

False alarms
------------
A source that itself comes in bursts as long as an interval.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.stability import quantile


class Swinging(h.Limits):
    """What RT205 compares with."""

    swing: float = h.limit(0.5, "share", "the rate of a steady job varies by a tenth or two")
    turns: float = h.limit(0.45, "share", "of the updates; noise alone turns at two thirds")
    proportional: float = h.limit(1.0, "gain", "with 1 the last rate cancels out")
    updates: float = h.limit(8, "updates", "of the late half; fewer are chance")


def judge(assessed: h.Assessed, limits: Swinging) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose rate swings."""
    for state in assessed.dstreams:
        for estimator in assessed.estimators:
            found = swing(estimator, limits.updates)
            gain = outside(estimator, limits.proportional)
            if found and gain and found[0] >= limits.swing and found[1] >= limits.turns:
                yield _finding(assessed, state, estimator, gain, found, limits)
                break


def swing(estimator: h.Replay, fewest: float = 8) -> tuple[float, float] | None:
    """Spread of the late rates over their median, and the share of updates at which they turn."""
    late = [step.new_rate for step in estimator.updates[-_late(estimator, fewest) :]]
    rates = [rate for rate in late if rate is not None]
    if len(rates) < max(1, fewest):
        return None
    middle = median(rates)
    spread = (quantile(rates, 0.9) - quantile(rates, 0.1)) / middle if middle else 0.0
    steps = [b - a for a, b in pairwise(rates) if a != b]
    turns = sum((a > 0) != (b > 0) for a, b in pairwise(steps))
    return spread, turns / max(1, len(steps) - 1)


def _late(estimator: h.Replay, fewest: float) -> int:
    return max(int(fewest), len(estimator.updates) // 2)


def outside(estimator: h.Replay, proportional: float = 1.0) -> str | None:
    """The gain that lies outside of what is stable; None where neither does."""
    if estimator.gains.proportional > proportional:
        return "proportional"
    return "derived" if estimator.gains.derived > 0 else None


def _finding(
    assessed: h.Assessed,
    state: h.StreamState,
    estimator: h.Replay,
    gain: str,
    found: tuple[float, float],
    limits: Swinging,
) -> h.Finding:
    app, option = assessed.app, f"{h.pid.PREFIX}pid.{gain}"
    value = getattr(estimator.gains, gain)
    rates = [step.new_rate or 0.0 for step in estimator.updates[-12:]]
    low, high = quantile(rates, 0.1), quantile(rates, 0.9)
    published = [
        time
        for time, step in zip(estimator.batch_ms, estimator.steps, strict=True)
        if step.new_rate is not None
    ]
    first = len(published) - _late(estimator, limits.updates)
    late = {time for number, time in enumerate(published) if number >= first}
    model = what_if(assessed, state, **{gain: 1.0 if gain == "proportional" else 0.0})
    return h.option_finding(
        assessed,
        option,
        title=f"The rate swings between {low:.0f} and {high:.0f} records/s and turns at "
        f"{h.fmt.percent(found[1])} of the updates; {gain} is {value:g}",
        why=f"{option} = {value:g} makes the rate swing by {h.fmt.percent(found[0])} of its median",
        cause="unstable-gains",
        rank=h.Rank.ROOT_CAUSE,
        count=len(estimator.updates),
        measurements=(
            h.measurement("swing", round(found[0], 3), "share", limits.swing),
            h.measurement("turns", round(found[1], 3), "share", limits.turns),
        ),
        evidence=h.evidence_of(b for b in app.completed if b.time_ms in late),
        actions=h.remedies("unstable-gains", app, gain, model=model),
    )


RULE = h.Rule("RT205", judge, Swinging, causes=("unstable-gains",))
