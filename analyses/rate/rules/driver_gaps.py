"""The driver works while no job runs.

What it reports
---------------
Batches or triggers without a running Spark job for much of their time.

Why it matters
--------------
All cores wait for a single thread of the driver, so more cores do not help.

How it decides
--------------
The gap is the processing time of a batch (`addBatch` of a trigger) minus the durations of all its Spark
jobs, added up as if none overlapped. The driver works at least that long. The gap must be `share` of the
batch and `floor` or more, in `batches` of at least `fewest` recent batches. The rule only applies if
batches queue or take `use` of the interval, and if the event log contains jobs.

What to do
----------
Check the driver-side code in the function of `foreachRDD` or `foreachBatch`: database calls, loops over
collected rows, listing or renaming files, planning large queries.

False alarms
------------
An event log that lost events lacks jobs. The report shows lost events.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h


class Gaps(h.Limits):
    """Limits of RT308."""

    share: float = h.limit(0.5, "share", "of the batch: more than all its jobs together")
    floor: float = h.limit(500, "ms", "starting and ending jobs takes tens of milliseconds")
    batches: float = h.limit(0.6, "share", "of the recent batches")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer may be chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval; below it, time is not short")


def judge(assessed: h.Assessed, limits: Gaps) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application or query whose driver delays batches."""
    for flow in h.flows_of(assessed) if not assessed.app.lost else ():
        units = [unit for unit in flow.units if unit.gap_ms is not None and unit.rows]
        gaps = [(unit.gap_ms or 0, max(1, unit.lasted_ms)) for unit in units]
        over = sum(gap >= max(limits.floor, limits.share * lasted) for gap, lasted in gaps)
        if (
            not h.short_of_time(flow.state, use=limits.use)
            or len(units) < max(1, limits.fewest)
            or over < limits.batches * len(units)
        ):
            continue
        gap, share = median(gap for gap, _ in gaps), median(gap / lasted for gap, lasted in gaps)
        of = f"median of {flow.plural(len(units))}"
        yield h.flow_finding(
            flow,
            units,
            title=f"In {over} of {flow.plural(len(units))}, no job runs for {h.fmt.duration(gap)}, "
            f"{h.fmt.percent(share)} of the time",
            why=f"no job runs for {h.fmt.duration(gap)} of each batch",
            cause="driver-gaps",
            rank=h.Rank.EXPLANATION,
            count=over,
            measurements=(
                h.measurement("without-a-job", round(gap), "ms", limits.floor, over=of),
                h.measurement("share", round(share, 3), "share", limits.share),
            ),
            actions=h.remedies("driver-gaps", assessed.app),
        )


RULE = h.Rule("RT308", judge, Gaps, causes=("driver-gaps",))
