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

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.facts import Operation


class Slow(h.Limits):
    """What RT309 compares with."""

    share: float = h.limit(0.7, "share", "of the time of all output operations")
    batches: float = h.limit(10, "batches", "fewer are chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


def judge(assessed: h.Assessed, limits: Slow) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application with such an operation."""
    told = [one for one in assessed.app.operations if one.batches >= limits.batches]
    total = sum(one.total_ms for one in told)
    for state in assessed.dstreams:
        if len(told) < 2 or not total or not h.short_of_time(state, use=limits.use):
            continue
        slow = max(told, key=lambda one: (one.total_ms, -one.output))
        if slow.total_ms >= limits.share * total:
            yield _finding(assessed, slow, told, limits)


def _finding(
    assessed: h.Assessed, slow: Operation, told: h.Sequence[Operation], limits: Slow
) -> h.Finding:
    app = assessed.app
    share = slow.total_ms / sum(one.total_ms for one in told)
    mean = slow.total_ms / slow.batches
    name = f" ({slow.name})" if slow.name else ""
    return h.application_finding(
        assessed,
        subject=h.Subject(
            kind="output",
            job_name=app.name,
            application=app.application,
            output_operation=slow.output,
            task=slow.name,
        ),
        title=f"Output operation {slow.output}{name} takes {h.fmt.duration(mean)} per batch, "
        f"{h.fmt.percent(share)} of the time of all {len(told)}",
        why=f"takes {h.fmt.percent(share)} of the time of {len(told)} output operations",
        cause="slow-output",
        rank=h.Rank.EXPLANATION,
        count=slow.batches,
        measurements=(
            h.measurement(
                "share",
                round(share, 3),
                "share",
                limits.share,
                over=h.fmt.plural(slow.batches, "batch", "batches"),
            ),
            h.measurement("per-batch", round(mean), "ms"),
        ),
        evidence=h.evidence_of(h.slowest_first(h.late_window(app.completed))),
        ranked=True,
        actions=h.remedies("slow-output", app),
    )


RULE = h.Rule("RT309", judge, Slow, causes=("slow-output",))
