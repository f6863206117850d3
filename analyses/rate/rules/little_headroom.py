"""Processing takes almost the whole interval.

What it reports
---------------
An application that keeps up, with little room: the median processing time is most of the interval,
or batches wait although the delay does not grow.

Why it matters
--------------
A slower machine, a longer collection of garbage or a busier hour turns it into an overload.

How it decides
--------------
Median processing time of the present above `use` of the interval, or a wait above two intervals
that does not grow. Where back pressure or a limit holds the job there, RT203 or RT204 say so
instead.

What to do
----------
More cores or fewer records per batch. Where most of a batch is cost of its own, a longer interval
makes room.

False alarms
------------
Jobs that are sized so on purpose, with back pressure as a guard.
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
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.stability import Stability
from flowdiag.analyses.rate.state import Assessed, late_triggers, late_window
from flowdiag.analyses.rule import Limits, Rule, limit


class LittleHeadroomLimits(Limits):
    """What RT106 compares with."""

    use: float = limit(rate_state.NARROW, "share", "a fifth is what single batches vary by anyway")


def judge(assessed: Assessed, limits: LittleHeadroomLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query that is just able to keep up."""
    for state in assessed.dstreams:
        if state.stability is not Stability.BORDERLINE:
            continue
        late = late_window(assessed.app.completed)
        yield Finding(
            job=assessed.key,
            severity=Severity.WARNING,
            state=State.ONGOING,
            subject=j.application_subject(assessed.app),
            title=f"The application keeps up with little room: {state.because}",
            explain="The delay does not grow, but the next burst has nowhere to go.",
            cause=None,
            rank=Rank.SYMPTOM,
            last_us=assessed.app.last_us,
            measurements=(
                Measurement(
                    name="use",
                    value=None if state.use is None else round(state.use, 3),
                    unit="share",
                    threshold=limits.use,
                    population=f"median of {len(late)} batches",
                ),
            ),
            evidence=j.of_batches(j.slowest(late, 5)),
            actions=(
                Action(
                    text="More cores, or fewer records per batch",
                    verify="processing time below four fifths of the interval",
                ),
            ),
        )
    for query, state in assessed.queries:
        if state.stability is not Stability.BORDERLINE:
            continue
        triggers = late_triggers(query.triggers)
        yield Finding(
            job=assessed.key,
            severity=Severity.WARNING,
            state=State.ONGOING,
            subject=j.query_subject(assessed.app, query),
            title=f"Query {query.name or query.id} keeps up with little room: {state.because}",
            explain="Triggers are in time, but the next burst has nowhere to go.",
            cause=None,
            rank=Rank.SYMPTOM,
            last_us=assessed.app.last_us,
            measurements=(
                Measurement(
                    name="use",
                    value=None if state.use is None else round(state.use, 3),
                    unit="share",
                    threshold=limits.use,
                    population=f"median of {len(triggers)} triggers",
                ),
            ),
            evidence=j.of_triggers(sorted(triggers, key=lambda t: -(t.duration_ms or 0))[:5]),
            actions=(
                Action(
                    text="More cores and partitions, or a longer trigger interval",
                    verify="triggerExecution below four fifths of the interval",
                ),
            ),
        )


RULE: Final = Rule("RT106", judge, LittleHeadroomLimits)
