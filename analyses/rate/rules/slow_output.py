"""One output operation takes most of the batches.

What it reports
---------------
Of several output operations, the one that takes most of the time.

Why it matters
--------------
They run one after the other: the others are done in a moment, and wait for this one.

How it decides
--------------
The durations of the output operations over all batches that tell them (listener, REST): one takes at
least `share` of them all, over `batches` batches. Only where batches queue, or take `use` of the
interval or more.

What to do
----------
Look at its stages (RT303). Cache what it and the others compute twice.

False alarms
------------
With several output operations, the first may compute what the others find cached.
"""

from __future__ import annotations

from flowdiag.analyses.rate.facts import Operation
from flowdiag.analyses.rate.helpers import (
    Assessed,
    Finding,
    Inconclusive,
    Iterator,
    Limits,
    Rank,
    Rule,
    Sequence,
    Subject,
    fmt,
    late_window,
    limit,
    measured,
    of_application,
    present,
    records_of,
    remedies,
    short_of_time,
    slowest,
)


class Slow(Limits):
    """What RT309 compares with."""

    share: float = limit(0.7, "share", "of the time of all output operations")
    batches: float = limit(10, "batches", "fewer are chance")
    use: float = limit(present.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: Assessed, limits: Slow) -> Iterator[Finding | Inconclusive]:
    """One finding per application with such an operation."""
    told = [one for one in assessed.app.operations if one.batches >= limits.batches]
    total = sum(one.total_ms for one in told)
    for state in assessed.dstreams:
        if len(told) < 2 or not total or not short_of_time(state, use=limits.use):
            continue
        slow = max(told, key=lambda one: (one.total_ms, -one.output))
        if slow.total_ms >= limits.share * total:
            yield _finding(assessed, slow, told, limits)


def _finding(
    assessed: Assessed, slow: Operation, told: Sequence[Operation], limits: Slow
) -> Finding:
    app = assessed.app
    share = slow.total_ms / sum(one.total_ms for one in told)
    mean = slow.total_ms / slow.batches
    name = f" ({slow.name})" if slow.name else ""
    return of_application(
        assessed,
        subject=Subject(
            kind="output",
            job_name=app.name,
            application=app.application,
            output_operation=slow.output,
            task=slow.name,
        ),
        title=f"Output operation {slow.output}{name} takes {fmt.duration(mean)} per batch, "
        f"{fmt.percent(share)} of the time of all {len(told)}",
        why=f"takes {fmt.percent(share)} of the time of {len(told)} output operations",
        cause="slow-output",
        rank=Rank.EXPLANATION,
        count=slow.batches,
        measurements=(
            measured(
                "share",
                round(share, 3),
                "share",
                limits.share,
                over=fmt.plural(slow.batches, "batch", "batches"),
            ),
            measured("per-batch", round(mean), "ms"),
        ),
        evidence=records_of(slowest(late_window(app.completed))),
        ranked=True,
        actions=remedies("slow-output", app),
    )


RULE = Rule("RT309", judge, Slow, causes=("slow-output",))
