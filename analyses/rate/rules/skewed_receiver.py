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
Records per stream over the latest batches, or the bytes of the blocks that the driver's log names where
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

from flowdiag.analyses.rate.helpers import (
    Assessed,
    Batch,
    Finding,
    Inconclusive,
    Iterator,
    Limits,
    Rank,
    Rule,
    Sequence,
    fmt,
    late_window,
    limit,
    limited,
    measured,
    of_stream,
    records_of,
    remedies,
)
from flowdiag.analyses.rate.judging import receiver_name


class Skew(Limits):
    """What RT301 compares with."""

    ratio: float = limit(3.0, "ratio", "below it the others have about as much to do")


def judge(assessed: Assessed, limits: Skew) -> Iterator[Finding | Inconclusive]:
    """One finding per application with such a stream."""
    late = late_window(assessed.app.completed)
    for state in assessed.dstreams:
        totals, unit = brought(assessed, late)
        if not limited(state) or len(totals) < 2:
            continue
        biggest = max(sorted(totals), key=lambda stream: totals[stream])
        others = sum(totals.values()) - totals[biggest]
        mean = max(others / (len(totals) - 1), 1.0)
        if totals[biggest] >= limits.ratio * mean:
            yield _finding(assessed, late, (totals, unit), biggest, mean, limits)


def brought(assessed: Assessed, late: Sequence[Batch]) -> tuple[dict[int, int], str]:
    """What each stream brought, and in which unit."""
    totals: dict[int, int] = {}
    for batch in late:
        for one in batch.streams:
            totals[one.stream] = totals.get(one.stream, 0) + one.records
    if len(totals) >= 2:
        return totals, "records"
    # A driver's log alone tells blocks and their sizes, which is as good.
    return {one.stream: one.bytes for one in assessed.app.blocks}, "bytes"


def _finding(
    assessed: Assessed,
    late: Sequence[Batch],
    told: tuple[dict[int, int], str],
    biggest: int,
    mean: float,
    limits: Skew,
) -> Finding:
    totals, unit = told
    most, total = totals[biggest], sum(totals.values())
    name = receiver_name(assessed.app, biggest) or f"stream {biggest}"
    return of_stream(
        assessed,
        biggest,
        title=f"{name} brings {fmt.percent(most / total)} of the {unit}, {most / mean:.1f} times as many as the "
        "others",
        why=f"brings {fmt.percent(most / total)} of the {unit} of {len(totals)} streams",
        cause="skewed-receiver",
        rank=Rank.ROOT_CAUSE,
        count=max(1, len(late)),
        measurements=(
            measured(
                unit,
                most,
                unit,
                over=f"{fmt.thousands(total)} of {len(totals)} streams in"
                f" {fmt.plural(len(late), 'batch', 'batches')}",
            ),
            measured(
                "ratio",
                round(most / mean, 2),
                "ratio",
                limits.ratio,
                over="against the mean of the others",
            ),
        ),
        evidence=records_of(late or assessed.app.batches),
        actions=remedies("skewed-receiver", assessed.app),
    )


RULE = Rule("RT301", judge, Skew, causes=("skewed-receiver",))
