"""Each batch has a fixed cost of about an interval.

What it reports
---------------
Batches that take about the whole interval even with few records. A lower rate cannot reduce this fixed
cost.

Why it matters
--------------
Back pressure lowers the rate, but this does not help. The rate falls to its minimum, the throughput falls
with it, and the delay still grows.

How it decides
--------------
flowdiag compares the processing time with the number of records for all warm batches. At least `batches`
batches contain at most `empty-batch` of the records of the largest batch, and their median duration is at least
`cost` of the interval. Alternatively, a robust line through all batches predicts that duration for an
empty batch. The line is used only if batch sizes vary by at least `spread` of the largest batch.

The rule only applies if the application is overloaded or barely keeps up.

What to do
----------
Use an interval that is longer than the fixed cost plus the time for the records. Find the work that happens once
per batch, such as opening connections, listing files, planning, or running many small tasks.

False alarms
------------
A small batch may take long because its few records are expensive.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if


class Limits(h.Limits):
    cost: float = h.limit(
        h.COST,
        "share",
        "minimum share of the interval that an almost empty batch takes; little time "
        "remains for records",
    )
    empty_batch: float = h.limit(
        h.SMALL, "share", "maximum size of an almost empty batch, as a share of the largest batch"
    )
    batches: float = h.limit(
        h.BATCHES, "batches", "minimum number of almost empty batches; fewer may be a coincidence"
    )
    spread: float = h.limit(
        h.SPREAD, "share", "minimum spread of batch sizes, as a share of the largest batch"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose almost empty batches take too long."""
    for state in assessed.dstreams:
        cost = h.fixed_cost(
            assessed,
            state,
            cost=limits.cost,
            small=limits.empty_batch,
            fewest=limits.batches,
            spread=limits.spread,
        )
        strained = state.stability in (h.Stability.OVERLOADED, h.Stability.BORDERLINE)
        if cost is not None and strained:
            yield _finding(assessed, state, cost, limits)


def _finding(
    assessed: h.AssessedApplication, state: h.StreamState, cost: float, limits: Limits
) -> h.Finding:
    app, interval, line = assessed.app, state.interval_ms or 1, state.line
    explain = h.explanation("fixed-cost")
    if any(h.floor_share(estimator) > 0.5 for estimator in assessed.estimators):
        explain += " Back pressure lowered the rate to its minimum, which did not help."
    counted = [b for b in app.completed[h.defaults.COLD :] if b.records is not None]
    smallest_first = sorted(counted, key=lambda b: (b.records or 0, b.time_ms))
    longer, took = max(2 * cost, 1.5 * interval), h.fmt.duration(cost)
    per_record = round(line.per_x, 3) if line else None
    return h.application_finding(
        assessed,
        title=f"Each batch takes {took} regardless of its records, and the interval is "
        f"{h.fmt.duration(interval)}",
        explain=explain,
        why=f"each of its batches has a fixed cost of {took}",
        cause="fixed-cost",
        rank=h.Rank.ROOT_CAUSE,
        count=len(app.completed),
        measurements=(
            h.measurement("cost-per-batch", round(cost), "ms", round(limits.cost * interval)),
            h.measurement("cost-per-record", per_record, "ms"),
        ),
        evidence=h.evidence_of(smallest_first),
        ranked=True,
        actions=(
            h.longer_interval(
                h.BATCH_INTERVAL,
                interval,
                longer,
                "Set a batch interval longer than the fixed cost of a batch. "
                + what_if(assessed, state, interval_ms=round(longer)),
                verify="the processing time is well below the interval",
            ),
            *h.remedies("fixed-cost", app, "once"),
        ),
    )


RULE = h.Rule("RT202", judge, Limits, causes=("fixed-cost",), needs="work")
