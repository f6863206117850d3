"""One receiver brings most of the records.

What it reports
---------------
Several input streams of which one brings most of the records, in an application that is throttled
or overloaded.

Why it matters
--------------
All estimators see the delays of whole batches: when one receiver brings too much, the small ones
are throttled with it. And the blocks of a receiver lie on its own executor, which then has most of
the work.

How it decides
--------------
Records per stream over the late batches, or the bytes of the blocks that the driver's log names where
no record is told: the largest has `ratio` times the mean of the others or more.

What to do
----------
Split the busy source over several receivers and unite them; repartition what they bring. Give
innocent small streams an application of their own.

False alarms
------------
Streams that differ by nature; they matter only where the application is held back.
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
from flowdiag.analyses.rate.state import Assessed, StreamState
from flowdiag.analyses.rule import Limits, Rule, limit


class SkewedReceiverLimits(Limits):
    """What RT301 compares with."""

    ratio: float = limit(3.0, "ratio", "below it the others have about as much to do")


def judge(assessed: Assessed, limits: SkewedReceiverLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application with such a stream."""
    for state in assessed.dstreams:
        if j.limited(state):
            found = _finding(assessed, state, limits.ratio)
            if found is not None:
                yield found


def _finding(assessed: Assessed, state: StreamState, ratio: float) -> Finding | None:
    app = assessed.app
    totals: dict[int, int] = {}
    late = rate_state.late_window(app.completed)
    for batch in late:
        for one in batch.streams:
            totals[one.stream] = totals.get(one.stream, 0) + one.records
    unit = "records"
    if len(totals) < 2:
        # A driver's log alone tells blocks and their sizes, which is as good.
        totals = {one.stream: one.bytes for one in app.blocks}
        unit = "bytes"
    if len(totals) < 2:
        return None
    biggest = max(sorted(totals), key=lambda stream: totals[stream])
    others = [count for stream, count in totals.items() if stream != biggest]
    mean = sum(others) / len(others)
    if totals[biggest] < ratio * max(mean, 1.0):
        return None
    share = totals[biggest] / sum(totals.values())
    subject = j.receiver_subject(app, biggest)
    name = subject.receiver or f"stream {biggest}"
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=(
            f"{name} brings {share:.0%} of the {unit}, {totals[biggest] / max(mean, 1.0):.1f} times "
            "as many as the others"
        ),
        explain=(
            "The delay it causes throttles the other streams too: each estimator sees the whole "
            "batch."
        ),
        why=f"brings {share:.0%} of the {unit} of {len(totals)} streams",
        cause="skewed-receiver",
        rank=Rank.ROOT_CAUSE,
        last_us=app.last_us,
        count=max(1, len(late)),
        measurements=(
            Measurement(
                name=unit,
                value=totals[biggest],
                unit=unit,
                population=f"{sum(totals.values())} of {len(totals)} streams in {len(late)} batches",
            ),
            Measurement(
                name="ratio",
                value=round(totals[biggest] / max(mean, 1.0), 2),
                unit="ratio",
                threshold=ratio,
                population="against the mean of the others",
            ),
        ),
        evidence=j.of_batches(late or app.batches),
        actions=(
            Action(
                text="Split this source over several receivers, and repartition what they bring",
                restart_needed=True,
                verify="records per stream",
            ),
        ),
    )


RULE: Final = Rule("RT301", judge, SkewedReceiverLimits)
