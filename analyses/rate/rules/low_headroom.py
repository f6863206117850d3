"""Processing takes almost the whole interval.

What it reports
---------------
An application or query that keeps up with low headroom. Its processing takes most of the interval, or its
batches wait although the delay does not grow.

Why it matters
--------------
A slow host, a long garbage collection, or a busy hour is enough to overload the job.

How it decides
--------------
The median processing time of the recent batches is at least `use` of the interval. Alternatively, batches
wait for at least `delay` intervals, and the wait neither grows nor falls. If back pressure or a fixed
limit keeps the job at that level, RT203 or RT204 reports it instead.

What to do
----------
Add cores, or reduce the records per batch. If most of a batch is fixed cost, a longer interval adds
headroom.

False alarms
------------
Some jobs are sized this way on purpose, with back pressure as a safeguard.
"""

from flowdiag.analyses.rate import helpers as h

_TEXTS = {
    "batches": (
        "The delay does not grow, but they have no headroom for the next burst.",
        "Add cores, or reduce the records per batch",
        "the processing time is below 80% of the interval",
    ),
    "triggers": (
        "Triggers are on time, but they have no headroom for the next burst.",
        "Add cores and partitions, or use a longer trigger interval",
        "triggerExecution is below 80% of the interval",
    ),
    "pauses": (
        (
            "Triggers take longer than their interval but still have to wait for rows. They "
            "have no headroom for the next burst."
        ),
        "Add cores and partitions",
        "triggerExecution is below the trigger interval",
    ),
}


class Limits(h.Limits):
    use: float = h.limit(
        h.defaults.NARROW, "share", "minimum share of the interval used; durations vary by a fifth"
    )
    delay: float = h.delay_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query that barely keeps up."""
    for flow in h.flows_of(assessed):
        state, query = flow.state, flow.query
        filled = (state.use or 0.0) >= limits.use
        waits = query is None and h.batches.is_waiting(state, delay=limits.delay)
        if state.stability not in (h.Stability.STABLE, h.Stability.BORDERLINE) or not (
            filled or waits
        ):
            continue
        kind = "pauses" if state.pauses else "triggers" if query else "batches"
        explain, advice, verify = _TEXTS[kind]
        has = "keeps up with low headroom"
        if (state.use or 0.0) >= 1 and not state.pauses:
            has = "has no headroom"
            explain = (
                f"Recent {kind} take longer than the interval. If this continues, the delay grows."
            )
        if _waits_outside_tasks(flow):
            advice = (
                "Reduce the driver's work in each batch: more cores do not help while no job runs"
            )
        who = h.fmt.capital(query.label) if query else "The application"
        over = f"median of {flow.plural(len(flow.units))}"
        use = h.round_or_none(state.use)
        yield h.flow_finding(
            flow,
            sorted(flow.units, key=lambda unit: -unit.duration_ms),
            ranked=True,
            title=f"{who} {has}: {state.because}",
            explain=explain,
            cause=None,
            rank=h.Rank.SYMPTOM,
            measurements=(h.measurement("utilization", use, "share", limits.use, over=over),),
            actions=(h.Action(text=advice, verify=verify),),
        )


def _waits_outside_tasks(flow: h.Flow) -> bool:
    """Return whether no Spark job runs for at least half of the time."""
    gaps = [(unit.gap_ms, unit.duration_ms) for unit in flow.units if unit.gap_ms is not None]
    return sum(gap for gap, _ in gaps) * 2 >= max(1, sum(lasted for _, lasted in gaps))


RULE = h.Rule("RT106", judge, Limits, needs="work")
