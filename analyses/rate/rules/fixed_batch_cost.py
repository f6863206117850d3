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
Processing time against records over all warm batches: those with a quarter of the largest batch or
less take nine tenths of the interval or more in the median, or the robust line through all has such
a base.

What to do
----------
Make the interval longer than the cost by what the records need. Find what each batch does once:
opening connections, listing files, planning, many small tasks.

False alarms
------------
Batches whose few records are the expensive ones.
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
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.advice import what_if
from flowdiag.analyses.rate.rules.rate_floor import fixed_cost, floor_share
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule


def judge(assessed: Assessed, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose empty batches are too long."""
    for state in assessed.dstreams:
        if state.stability not in (Stability.OVERLOADED, Stability.BORDERLINE):
            continue
        cost = fixed_cost(assessed, state)
        if cost is not None:
            yield _finding(assessed, state, cost)


def _finding(assessed: Assessed, state: StreamState, cost: float) -> Finding:
    app = assessed.app
    interval = state.interval_ms or 1
    floored = any(floor_share(one) > 0.5 for one in assessed.estimators)
    few = sorted(
        (b for b in app.completed[2:] if b.records is not None),
        key=lambda b: (b.records or 0, b.time_ms),
    )
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.application_subject(app),
        title=(
            f"A batch takes {duration_text(cost)} whatever it holds; the interval is "
            f"{duration_text(interval)}"
        ),
        explain=(
            "Fewer records do not make the batches short enough. "
            + ("Back pressure went down to its floor in vain." if floored else "")
        ).strip(),
        why=f"each of its batches costs {duration_text(cost)} by itself",
        cause="fixed-cost",
        rank=Rank.ROOT_CAUSE,
        last_us=app.last_us,
        count=len(app.completed),
        measurements=(
            Measurement(
                name="cost-per-batch", value=round(cost), unit="ms", threshold=round(0.9 * interval)
            ),
            Measurement(
                name="cost-per-record",
                value=round(state.line.per_x, 3) if state.line else None,
                unit="ms",
            ),
        ),
        evidence=j.of_batches(few[:5]),
        actions=(
            Action(
                text="Make the interval longer than what a batch costs by itself. "
                + what_if(assessed, state, interval_ms=round(max(2 * cost, 1.5 * interval))),
                current=duration_text(interval),
                proposed=duration_text(max(2 * cost, 1.5 * interval)),
                risk="results come later",
                restart_needed=True,
                verify="processing time over interval",
            ),
            Action(
                text="Find what every batch does once, and do it less often",
                verify="the stages of a batch without records",
            ),
        ),
    )


RULE: Final = Rule("RT202", judge)
