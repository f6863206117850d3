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

from flowdiag.analyses.rate import helpers as h


class Skew(h.Limits):
    """What RT301 compares with."""

    ratio: float = h.limit(3.0, "ratio", "below it the others have about as much to do")


def judge(assessed: h.Assessed, limits: Skew) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application with such a stream."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        totals, unit = brought(assessed, late)
        if not h.is_limited(state) or len(totals) < 2:
            continue
        biggest = max(sorted(totals), key=lambda stream: totals[stream])
        others = sum(totals.values()) - totals[biggest]
        mean = max(others / (len(totals) - 1), 1.0)
        if totals[biggest] >= limits.ratio * mean:
            yield _finding(assessed, late, (totals, unit), biggest, mean, limits)


def brought(assessed: h.Assessed, late: h.Sequence[h.Batch]) -> tuple[dict[int, int], str]:
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
    assessed: h.Assessed,
    late: h.Sequence[h.Batch],
    told: tuple[dict[int, int], str],
    biggest: int,
    mean: float,
    limits: Skew,
) -> h.Finding:
    totals, unit = told
    most, total = totals[biggest], sum(totals.values())
    name = h.receiver_name(assessed.app, biggest) or f"stream {biggest}"
    return h.stream_finding(
        assessed,
        biggest,
        title=f"{name} brings {h.fmt.percent(most / total)} of the {unit}, {most / mean:.1f} times as many as the "
        "others",
        why=f"brings {h.fmt.percent(most / total)} of the {unit} of {len(totals)} streams",
        cause="skewed-receiver",
        rank=h.Rank.ROOT_CAUSE,
        count=max(1, len(late)),
        measurements=(
            h.measurement(
                unit,
                most,
                unit,
                over=f"{h.fmt.thousands(total)} of {len(totals)} streams in"
                f" {h.fmt.plural(len(late), 'batch', 'batches')}",
            ),
            h.measurement(
                "ratio",
                round(most / mean, 2),
                "ratio",
                limits.ratio,
                over="against the mean of the others",
            ),
        ),
        evidence=h.evidence_of(late or assessed.app.batches),
        actions=h.remedies("skewed-receiver", assessed.app),
    )


RULE = h.Rule("RT301", judge, Skew, causes=("skewed-receiver",))
