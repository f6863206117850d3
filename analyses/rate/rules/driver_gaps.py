"""The driver works while no job runs.

What it reports
---------------
Batches or triggers in which no Spark job runs for much of the time.

Why it matters
--------------
All cores wait for one thread: more of them do not help.

How it decides
--------------
A batch's processing time (a trigger's `addBatch`) less what all its Spark jobs took, added up as if
none overlapped: what is left is the driver's, and at least that. Reported where it is `share` of
the batch or more, and `floor` at least, in `batches` of the present batches, of which there are
`fewest` or more. Only where batches queue, or take `use` of the interval or more, and where the
event log tells of jobs.

What to do
----------
Look at what the function of `foreachRDD` or `foreachBatch` does itself: calls to a database, loops
over collected rows, listing or renaming of files, planning of large queries.

False alarms
------------
An event log that lost events lacks jobs; the report says so.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h


class Gaps(h.Limits):
    """What RT308 compares with."""

    share: float = h.limit(0.5, "share", "of the batch: more than all its jobs together")
    floor: float = h.limit(500, "ms", "to start and end jobs takes tens of milliseconds")
    batches: float = h.limit(0.6, "share", "of the present batches")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer are chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Gaps) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application or query whose driver holds batches up."""
    if assessed.app.lost:
        return
    for flow in h.flows_of(assessed):
        told = [unit for unit in flow.units if unit.gap_ms is not None and unit.rows]
        if not h.short_of_time(flow.state, use=limits.use) or len(told) < max(1, limits.fewest):
            continue
        over = [
            unit
            for unit in told
            if _gap(unit) >= limits.floor and _gap(unit) >= limits.share * unit.lasted_ms
        ]
        if len(over) >= limits.batches * len(told):
            yield _finding(flow, told, len(over), limits)


def _gap(unit: h.Unit) -> int:
    return unit.gap_ms or 0


def _finding(flow: h.Flow, told: list[h.Unit], over: int, limits: Gaps) -> h.Finding:
    gap = median(_gap(unit) for unit in told)
    share = median(_gap(unit) / max(1, unit.lasted_ms) for unit in told)
    return h.flow_finding(
        flow,
        told,
        title=f"In {over} of {flow.plural(len(told))} no job runs for {h.fmt.duration(gap)}, "
        f"{h.fmt.percent(share)} of the time",
        why=f"no job runs for {h.fmt.duration(gap)} of each batch",
        cause="driver-gaps",
        rank=h.Rank.EXPLANATION,
        count=over,
        measurements=(
            h.measurement(
                "without-a-job",
                round(gap),
                "ms",
                limits.floor,
                over=f"median of {flow.plural(len(told))}",
            ),
            h.measurement("share", round(share, 3), "share", limits.share),
        ),
        actions=h.remedies("driver-gaps", flow.assessed.app),
    )


RULE = h.Rule("RT308", judge, Gaps, causes=("driver-gaps",))
