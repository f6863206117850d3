"""The gains of the rate estimator make the rate oscillate.

What it reports
---------------
A published rate that swings up and down from batch to batch, because the gains of the estimator overreact
to errors.

Why it matters
--------------
Batches alternate between too large and too small. Large batches cause delay, and small batches waste part
of the interval.

How it decides
--------------
flowdiag recalculates the rates of the estimators and examines the second half of the updates, but at least the last
`updates`. The rate changes direction in at least `reversals` of these updates. The spread of the rates (90th minus 10th
percentile) is at least `rate-spread` of their median. In addition, a gain is outside the stable range: the proportional
gain is above `proportional`, or the derivative gain is above 0.

What to do
----------
Restore the defaults: proportional 1.0, integral 0.2, derived 0.0. With a proportional gain of 1, the new
rate does not depend on the last rate, so the rate cannot oscillate.

False alarms
------------
A source whose bursts last about one interval looks the same.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.detect.swings import late_updates, swing
from flowdiag.analyses.rate.stability import quantile


class Limits(h.Limits):
    rate_spread: float = h.limit(
        0.5, "share", "minimum spread of the rates that the estimator sets; 10% to 20% are normal"
    )
    reversals: float = h.limit(
        0.45, "share", "minimum share of updates that change direction; trends have few, noise 0.67"
    )
    proportional: float = h.limit(
        1.0, "gain", "maximum stable gain; with 1, the new rate ignores the previous rate"
    )
    updates: float = h.limit(
        8, "updates", "minimum number of rate updates; fewer may be a coincidence"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose rate oscillates."""
    for state in assessed.dstreams:
        for estimator in assessed.estimators:
            found = swing(estimator, limits.updates)
            gain = "derived" if estimator.gains.derived > 0 else None
            if estimator.gains.proportional > limits.proportional:
                gain = "proportional"
            if found and gain and found[0] >= limits.rate_spread and found[1] >= limits.reversals:
                yield _finding(assessed, state, estimator, gain, found, limits)
                break


def _finding(
    assessed: h.AssessedApplication,
    state: h.StreamState,
    estimator: h.Replay,
    gain: str,
    found: tuple[float, float],
    limits: Limits,
) -> h.Finding:
    option, value = f"{h.pid.PREFIX}pid.{gain}", getattr(estimator.gains, gain)
    spread, turns = found
    rates = [step.new_rate or 0.0 for step in estimator.updates[-12:]]
    low, high = quantile(rates, 0.1), quantile(rates, 0.9)
    steps = zip(estimator.batch_ms, estimator.steps, strict=True)
    published = [time for time, step in steps if step.new_rate is not None]
    late = set(published[max(0, len(published) - late_updates(estimator, limits.updates)) :])
    model = what_if(assessed, state, **{gain: 1.0 if gain == "proportional" else 0.0})
    return h.option_finding(
        assessed,
        option,
        title=f"The rate oscillates between {low:.0f} and {high:.0f} records/s and changes direction at "
        f"{h.fmt.percent(turns)} of the updates; {gain} is {value:g}",
        why=f"{option} = {value:g} makes the rate oscillate by {h.fmt.percent(spread)} of its median",
        cause="unstable-gains",
        rank=h.Rank.ROOT_CAUSE,
        count=len(estimator.updates),
        measurements=(
            h.measurement("rate-spread", round(spread, 3), "share", limits.rate_spread),
            h.measurement("reversals", round(turns, 3), "share", limits.reversals),
        ),
        evidence=h.evidence_of(b for b in assessed.app.completed if b.time_ms in late),
        actions=h.remedies("unstable-gains", assessed.app, gain, model=model),
    )


RULE = h.Rule("RT205", judge, Limits, causes=("unstable-gains",), needs="batches")
