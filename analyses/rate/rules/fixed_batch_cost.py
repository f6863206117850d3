"""A batch costs an interval whatever it holds.

What it reports
---------------
Batches that take about the whole interval even with few records: a cost of each batch by itself
that no rate can lower.

Why it matters
--------------
Back pressure sheds load, which does not help: the rate goes down to its floor, throughput with it,
and the delay grows all the same.

How it decides
--------------
Processing time against records over all warm batches: those with `small` of the largest batch or
less, at least `batches` of them, take `cost` of the interval or more in the median, or the robust
line through all has such a base, where batches differ in size by `spread` of the largest.

What to do
----------
Make the interval longer than the cost by what the records need. Find what each batch does once:
opening connections, listing files, planning, many small tasks.

False alarms
------------
Batches whose few records are the expensive ones.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if


class Fixed(h.Limits):
    """What RT202 compares with."""

    cost: float = h.limit(h.COST, "share", "of the interval: nothing is left for the records")
    small: float = h.limit(h.SMALL, "share", "of the largest batch: the records cost little")
    batches: float = h.limit(h.BATCHES, "batches", "fewer small ones are chance")
    spread: float = h.limit(h.SPREAD, "share", "of the largest batch, for a line through all")


def judge(assessed: h.Assessed, limits: Fixed) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose empty batches are too long."""
    for state in assessed.dstreams:
        if state.stability not in (h.Stability.OVERLOADED, h.Stability.BORDERLINE):
            continue
        cost = h.fixed_cost(
            assessed,
            state,
            cost=limits.cost,
            small=limits.small,
            fewest=limits.batches,
            spread=limits.spread,
        )
        if cost is not None:
            yield _finding(assessed, state, cost, limits)


def _finding(assessed: h.Assessed, state: h.StreamState, cost: float, limits: Fixed) -> h.Finding:
    app, interval = assessed.app, state.interval_ms or 1
    in_vain = any(h.floor_share(one) > 0.5 for one in assessed.estimators)
    counted = (b for b in app.completed[h.defaults.COLD :] if b.records is not None)
    longer = max(2 * cost, 1.5 * interval)
    return h.application_finding(
        assessed,
        title=f"A batch takes {h.fmt.duration(cost)} whatever it holds; the interval is "
        f"{h.fmt.duration(interval)}",
        explain=h.explanation("fixed-cost")
        + (" Back pressure went down to its floor in vain." if in_vain else ""),
        why=f"each of its batches costs {h.fmt.duration(cost)} by itself",
        cause="fixed-cost",
        rank=h.Rank.ROOT_CAUSE,
        count=len(app.completed),
        measurements=(
            h.measurement("cost-per-batch", round(cost), "ms", round(limits.cost * interval)),
            h.measurement(
                "cost-per-record", round(state.line.per_x, 3) if state.line else None, "ms"
            ),
        ),
        # The smallest batches prove it.
        evidence=h.evidence_of(sorted(counted, key=lambda b: (b.records or 0, b.time_ms))),
        ranked=True,
        actions=(
            h.longer_interval(
                h.BATCH_INTERVAL,
                interval,
                longer,
                "Make the interval longer than what a batch costs by itself. "
                + what_if(assessed, state, interval_ms=round(longer)),
                verify="processing time over interval",
            ),
            *h.remedies("fixed-cost", app, "once"),
        ),
    )


RULE = h.Rule("RT202", judge, Fixed, causes=("fixed-cost",))
