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
Median processing time of the present above `use` of the interval, or a wait above `delay` intervals
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

from flowdiag.analyses.rate import helpers as h


class Tight(h.Limits):
    """What RT106 compares with."""

    use: float = h.limit(
        h.defaults.NARROW, "share", "a fifth is what single batches vary by anyway"
    )
    delay: float = h.limit(h.defaults.GROWN, "intervals", "a single long batch delays by less")


def judge(assessed: h.Assessed, limits: Tight) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application or query that is just able to keep up."""
    for flow in h.flows_of(assessed):
        if flow.state.stability not in (h.Stability.STABLE, h.Stability.BORDERLINE):
            continue
        filled = flow.state.use is not None and flow.state.use >= limits.use
        waits = flow.query is None and h.batches.is_waiting(flow.state, delay=limits.delay)
        if filled or waits:
            yield _finding(flow, limits)


def _finding(flow: h.Flow, limits: Tight) -> h.Finding:
    state, query = flow.state, flow.query
    if query is None:
        who, explain = (
            "The application",
            "The delay does not grow, but the next burst has nowhere to go.",
        )
        action = h.Action(
            text="More cores, or fewer records per batch",
            verify="processing time below four fifths of the interval",
        )
    else:
        who = h.fmt.capital(query.label)
        explain = "Triggers are in time, but the next burst has nowhere to go."
        action = h.Action(
            text="More cores and partitions, or a longer trigger interval",
            verify="triggerExecution below four fifths of the interval",
        )
        if state.pauses:
            explain = (
                "Triggers take longer than their interval and wait for rows all the same; the next burst "
                "has nowhere to go."
            )
            action = h.Action(
                text="More cores and partitions",
                verify="triggerExecution below the trigger interval",
            )
    over = f"median of {flow.plural(len(flow.units))}"
    return h.flow_finding(
        flow,
        sorted(flow.units, key=lambda unit: -unit.lasted_ms),
        ranked=True,
        title=f"{who} keeps up with little room: {state.because}",
        explain=explain,
        cause=None,
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement("use", h.round_or_none(state.use), "share", limits.use, over=over),
        ),
        actions=(action,),
    )


RULE = h.Rule("RT106", judge, Tight)
