"""One output operation takes most of the batches.

What it reports
---------------
The slowest of several output operations, if this operation takes most of their total time.

Why it matters
--------------
Output operations run one after the other, so the fast operations wait for the slow one.

How it decides
--------------
The durations of the output operations come from the listener, the REST API or the driver's log at INFO. An event log
alone has the times of their Spark jobs, without the work on the driver. One operation takes at least `share` of the
total time, over at least `batches` batches. The rule only applies if batches queue or take at least `use` of the
interval.

False alarms
------------
The first output operation may compute results that the others then read from the cache.
"""

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    share: float = h.limit(
        0.7, "share", "minimum share of the total time of all operations that the slowest takes"
    )
    batches: float = h.limit(5, "batches", "minimum number of batches; fewer may be a coincidence")
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application with a slow output operation."""
    app = assessed.app
    operations = [one for one in app.operations if one.batches >= limits.batches]
    total = sum(one.total_ms for one in operations)
    for state in assessed.dstreams:
        if len(operations) < 2 or not total or not h.is_at_limit(state, use=limits.use):
            continue
        slow = max(operations, key=lambda one: (one.total_ms, -one.output))
        if slow.total_ms < limits.share * total:
            continue
        share, mean = slow.total_ms / total, slow.total_ms / slow.batches
        name = f" ({slow.name})" if slow.name else ""
        over = h.fmt.plural(slow.batches, "batch", "batches")
        yield h.application_finding(
            assessed,
            subject=h.Subject(
                kind="output",
                job_name=app.name,
                application=app.application,
                output_operation=slow.output,
                task=slow.name,
            ),
            title=f"Output operation {slow.output}{name} takes {h.fmt.duration(mean)} per batch, "
            f"{h.fmt.percent(share)} of the time of all {len(operations)} operations",
            why=f"takes {h.fmt.percent(share)} of the time of {len(operations)} output operations",
            cause="slow-output",
            rank=h.Rank.EXPLANATION,
            count=slow.batches,
            measurements=(
                h.measurement("output-share", round(share, 3), "share", limits.share, over=over),
                h.measurement("time-per-batch", round(mean), "ms"),
            ),
            evidence=h.evidence_of(h.slowest_first(h.late_window(app.completed))),
            ranked=True,
            actions=h.remedies("slow-output", app),
        )


RULE = h.Rule("RT309", judge, Limits, causes=("slow-output",), needs="work")
