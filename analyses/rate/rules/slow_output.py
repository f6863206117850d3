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
least `share` of them all, over `batches` batches. Only where batches queue, or take almost the whole
interval.

What to do
----------
Look at its stages (RT303). Cache what it and the others compute twice.

False alarms
------------
With several output operations, the first may compute what the others find cached.
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
    Subject,
)
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import Operation
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class SlowOutputLimits(Limits):
    """What RT309 compares with."""

    share: float = limit(0.7, "share", "of the time of all output operations")
    batches: float = limit(10, "batches", "fewer are chance")


def judge(assessed: Assessed, limits: SlowOutputLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application with such an operation."""
    for state in assessed.dstreams:
        told = [one for one in assessed.app.operations if one.batches >= limits.batches]
        total = sum(one.total_ms for one in told)
        if len(told) < 2 or not total or not j.short_of_time(state):
            continue
        slow = max(told, key=lambda one: (one.total_ms, -one.output))
        if slow.total_ms >= limits.share * total:
            yield _finding(assessed, slow, told, limits.share)


def _finding(assessed: Assessed, slow: Operation, told: list[Operation], limit: float) -> Finding:
    app = assessed.app
    share = slow.total_ms / sum(one.total_ms for one in told)
    mean = slow.total_ms / slow.batches
    name = f" ({slow.name})" if slow.name else ""
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=Subject(
            kind="output",
            job_name=app.name,
            application=app.application,
            output_operation=slow.output,
            task=slow.name,
        ),
        title=(
            f"Output operation {slow.output}{name} takes {duration_text(mean)} per batch, {share:.0%} of "
            f"all {len(told)}"
        ),
        explain="They run one after the other: a batch is little else than this one.",
        why=f"takes {share:.0%} of the time of {len(told)} output operations",
        cause="slow-output",
        rank=Rank.EXPLANATION,
        last_us=app.last_us,
        count=slow.batches,
        measurements=(
            Measurement(
                name="share",
                value=round(share, 3),
                unit="share",
                threshold=limit,
                population=f"{slow.batches} batches",
            ),
            Measurement(name="per-batch", value=round(mean), unit="ms"),
        ),
        evidence=j.of_batches(j.slowest(rate_state.late_window(app.completed))),
        actions=(
            Action(
                text="Look at its stages, and cache what several operations compute",
                verify="durations of the output operations",
            ),
        ),
    )


RULE: Final = Rule("RT309", judge, SlowOutputLimits)
