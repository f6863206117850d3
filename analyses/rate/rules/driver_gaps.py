"""The driver spends time between jobs.

What it reports
---------------
Batches or triggers during which no Spark job runs for much of the time.

Why it matters
--------------
All cores wait for a single thread of the driver, so more cores do not help.

How it decides
--------------
The gap is the processing time of a batch (`addBatch` for a trigger) minus the total duration of its Spark jobs.
Overlapping jobs count in full, so the real time without a job is at least as long as the gap. In at least
`batches` of the recent batches with records, the gap is at least `floor` and at least `share` of the batch. The
rule needs an event log with jobs. It also needs at least `min-batches` recent batches with records, or three with a gap
of at least `long-gap`.

The rule only applies if the job is at its limit: batches queue, take at least `use` of the interval, or
are kept small by back pressure. Without a known interval, triggers must follow each other without a pause.

What to do
----------
Check the code that runs on the driver in `foreachRDD` or `foreachBatch`. Look for database calls, loops over
collected rows, the listing or renaming of files, and the planning of large queries.

False alarms
------------
If the event log lacks jobs, the gap looks too long. The rule does not run if Spark reported that it dropped
events.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.code import line_of, remedies_for_line, with_line


class Limits(h.Limits):
    share: float = h.limit(0.5, "share", "minimum share of the batch without a running job")
    floor: float = h.limit(
        500, "ms", "minimum gap in a batch; starting and ending jobs takes less time"
    )
    long_gap: float = h.limit(
        3000, "ms", "minimum length of a gap at which three batches are enough"
    )
    batches: float = h.limit(0.6, "share", "minimum share of recent batches with such a gap")
    min_batches: float = h.min_count_limit("batches")
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query whose driver delays batches."""
    for flow in h.flows_of(assessed) if not assessed.app.lost else ():
        units = [unit for unit in flow.units if unit.gap_ms is not None and unit.rows]
        gaps = [(unit.gap_ms or 0, max(1, unit.duration_ms)) for unit in units]
        over = sum(gap >= max(limits.floor, limits.share * lasted) for gap, lasted in gaps)
        if over < max(
            _required_gaps(gaps, limits), limits.batches * len(units)
        ) or not h.has_no_pause(flow, use=limits.use):
            continue
        gap, share = median(gap for gap, _ in gaps), median(gap / lasted for gap, lasted in gaps)
        of = f"median of {flow.plural(len(units))}"
        code = line_of(flow, "driver-gaps")
        yield h.flow_finding(
            flow,
            units,
            title=f"In {over} of {flow.plural(len(units))}{flow.of_query}, no job runs for {h.fmt.duration(gap)}, "
            f"{h.fmt.percent(share)} of the time{_sink_clause(flow)}",
            why=with_line(
                f"no job runs for {h.fmt.duration(gap)} of each {flow.plural(1).removeprefix('1 ')}{_sink_clause(flow)}",
                code,
            ),
            cause="driver-gaps",
            rank=h.Rank.EXPLANATION,
            count=over,
            measurements=(
                h.measurement("gap", round(gap), "ms", limits.floor, over=of),
                h.measurement("gap-share", round(share, 3), "share", limits.share),
            ),
            actions=remedies_for_line(flow, "driver-gaps", code),
        )


def _sink_clause(flow: h.Flow) -> str:
    """Return a clause about the function that the sink calls on the driver, or an empty string."""
    sinks = [unit.record.sink or "" for unit in flow.units if isinstance(unit.record, h.Trigger)]
    return ": foreachBatch runs or waits on the driver" if "ForeachBatch" in "".join(sinks) else ""


def _required_gaps(gaps: list[tuple[int, int]], limits: Limits) -> float:
    """Return how many batches with a gap are required. Long gaps require fewer."""
    long = sum(gap >= limits.long_gap for gap, _ in gaps)
    return 3 if long >= 3 else max(1, limits.min_batches)


RULE = h.Rule("RT308", judge, Limits, causes=("driver-gaps",), needs="work")
