"""The minimum rate is higher than the job can process.

What it reports
---------------
A rate estimator that would lower the rate further but is limited by its floor, `minRate`, while the job
processes fewer records than the floor permits.

Why it matters
--------------
Back pressure is on and seems to work. The delay still grows, because the floor permits more records than the job
processes. Usually the floor is Spark's default of 100 records per second and stream, or a value copied from
another job.

How it decides
--------------
flowdiag recalculates the rates of the estimators from the batches, with bit-identical results. It examines the last
third of the updates, but at least six. In `share` of them, the rate before the minimum is applied is below `minRate`.
The median processing rate of the last six updates is below `minRate` as well. The batches of these updates contain at
least `at-limit` of the records that the floor permits, and the delay grows. If the source delivers less than the floor, a
lower floor changes nothing. If even small batches take the whole interval, lower rates do not help (see RT202).

What to do
----------
Set `minRate` to a tenth of the rate that the job processes per stream.

False alarms
------------
The floor may be high on purpose, so that the job reads a backlog before Kafka deletes it.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if


class Limits(h.Limits):
    share: float = h.limit(h.defaults.MOSTLY, "share", "minimum share of updates below `minRate`")
    at_limit: float = h.limit(
        h.defaults.AT_LIMIT, "share", "minimum share of the records that the minimum rate permits"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose floor is above its processing rate."""
    for state in assessed.dstreams:
        if state.stability is not h.Stability.OVERLOADED or h.fixed_cost(assessed, state):
            continue
        held = [
            estimator
            for estimator in assessed.estimators
            if h.floor_share(estimator) >= limits.share and _exceeds(estimator, state, limits)
        ]
        if held:
            yield _finding(assessed, state, held)


def _exceeds(estimator: h.Replay, state: h.StreamState, limits: Limits) -> bool:
    """Return whether the floor is above the processing rate, and recent batches are as large as the floor permits."""
    late, floor = estimator.updates[-6:], estimator.gains.min_rate
    rates = [step.processing_rate for step in late if step.processing_rate]
    if not rates or median(rates) >= floor:
        return False
    permitted = floor * (state.interval_ms or 0) / 1000
    return median(s.observation.elements for s in late) >= limits.at_limit * permitted


def _finding(
    assessed: h.AssessedApplication, state: h.StreamState, held: list[h.Replay]
) -> h.Finding:
    app, floor = assessed.app, held[0].gains.min_rate
    late = [step for estimator in held for step in estimator.updates[-6:]]
    able = median(step.processing_rate for step in late if step.processing_rate)
    unclamped = [step.unclamped_rate for step in late if step.unclamped_rate]
    unclamped_rate = h.round_or_none(median(unclamped), 1) if unclamped else None
    proposed = max(1.0, able / 10)
    model = what_if(assessed, state, min_rate=proposed * max(1, len(assessed.estimators)))
    over = "records over processing time, median of the last updates"
    return h.option_finding(
        assessed,
        h.pid.MIN_RATE,
        title=f"minRate keeps the rate at {h.fmt.rate(floor)}, but the job processes only "
        f"{h.fmt.rate(able)}",
        why=f"permits {h.fmt.rate(floor)}, but the job processes only {h.fmt.rate(able)}",
        cause="rate-floor",
        # Without a fitted cost, small batches may take as long as large ones.
        confidence=h.Confidence.HIGH if state.line is not None else h.Confidence.LOW,
        rank=h.Rank.ROOT_CAUSE,
        count=sum(step.is_at_floor for estimator in held for step in estimator.steps),
        measurements=(
            h.measurement("minimum-rate", floor, "records/s"),
            h.measurement("processing-rate", round(able, 1), "records/s", floor, over=over),
            h.measurement("target-rate", unclamped_rate, "records/s", over="before it was clamped"),
            h.measurement("updates-at-minimum", round(h.floor_share(held[0]), 3), "share"),
        ),
        evidence=h.evidence_of(h.late_window(app.completed)),
        actions=h.remedies("rate-floor", app, proposed={"min-rate": proposed}, model=model),
    )


RULE = h.Rule("RT201", judge, Limits, causes=("rate-floor",), needs="batches")
