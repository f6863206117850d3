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
The estimators are replayed from the batches, to the last bit. In `share` of the late updates or more
(the last third, at least six) the unclamped rate lies below `minRate`, what is processed (records
over processing time) too, the batches hold `full` of what the floor lets in, and the delay grows. Where
the source brings less than the floor permits, a lower one would change nothing. Where even batches with few records take the whole
interval, lower rates would not help either: that is RT202.

What to do
----------
Lower `minRate` to a tenth of what the job processes, per stream.

False alarms
------------
A floor that is kept on purpose to work off what a topic would delete.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if


class Floor(h.Limits):
    """What RT201 compares with."""

    share: float = h.limit(h.defaults.MOSTLY, "share", "of the late updates, held at the floor")
    full: float = h.limit(
        h.defaults.AT_LIMIT, "share", "of what the floor lets in: with less, it is not what binds"
    )


def judge(assessed: h.Assessed, limits: Floor) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose floor is above what it processes."""
    for state in assessed.dstreams:
        if state.stability is not h.Stability.OVERLOADED or h.fixed_cost(assessed, state):
            continue
        held = [
            one
            for one in assessed.estimators
            if h.floor_share(one) >= limits.share and too_high(one) and _binds(one, state, limits)
        ]
        if held:
            yield _finding(assessed, state, held)


def too_high(estimator: h.Replay) -> bool:
    """Whether the floor lies above what is processed: a low floor alone does no harm."""
    rates = [s.processing_rate for s in estimator.updates[-6:] if s.processing_rate]
    return bool(rates) and median(rates) < estimator.gains.min_rate


def _binds(estimator: h.Replay, state: h.StreamState, limits: Floor) -> bool:
    """Whether the late batches are as large as the floor permits."""
    permitted = estimator.gains.min_rate * (state.interval_ms or 0) / 1000
    return median(s.observation.elements for s in estimator.updates[-6:]) >= limits.full * permitted


def _finding(assessed: h.Assessed, state: h.StreamState, held: list[h.Replay]) -> h.Finding:
    app = assessed.app
    floor = held[0].gains.min_rate
    late = [step for one in held for step in one.updates[-6:]]
    able = median(step.processing_rate for step in late if step.processing_rate)
    wanted = [step.unclamped_rate for step in late if step.unclamped_rate]
    proposed = max(1.0, able / 10)
    model = what_if(assessed, state, min_rate=proposed * max(1, len(assessed.estimators)))
    return h.option_finding(
        assessed,
        h.pid.MIN_RATE,
        title=f"The rate is held at minRate ({h.fmt.rate(floor)}), above the {h.fmt.rate(able)} that "
        "are processed",
        why=f"lets in {h.fmt.rate(floor)} where {h.fmt.rate(able)} are processed",
        cause="rate-floor",
        # Too few batches to tell what one costs with fewer records: it may cost as much.
        confidence=h.Confidence.HIGH if state.line is not None else h.Confidence.LOW,
        rank=h.Rank.ROOT_CAUSE,
        count=sum(step.at_floor for one in held for step in one.steps),
        measurements=(
            h.measurement("floor", floor, "records/s"),
            h.measurement(
                "processed",
                round(able, 1),
                "records/s",
                floor,
                over="records over processing time, median of the last updates",
            ),
            h.measurement(
                "wanted-rate",
                h.round_or_none(median(wanted), 1) if wanted else None,
                "records/s",
                over="before it was clamped",
            ),
            h.measurement("updates-at-floor", round(h.floor_share(held[0]), 3), "share"),
        ),
        evidence=h.evidence_of(h.late_window(app.completed)),
        actions=h.remedies("rate-floor", app, proposed={"min-rate": proposed}, model=model),
    )


RULE = h.Rule("RT201", judge, Floor, causes=("rate-floor",))
