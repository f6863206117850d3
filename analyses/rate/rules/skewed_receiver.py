"""One receiver delivers most of the records.

What it reports
---------------
An input stream that delivers most of the records of all streams, in an application that is throttled or
overloaded, or that has low headroom with back pressure.

Why it matters
--------------
Every rate estimator uses the delay of whole batches. If one receiver delivers too much, back pressure throttles
the small receivers as well. The blocks of a receiver are stored on its own executor, which then does most of the
work.

How it decides
--------------
The rule compares the records of each stream over the recent batches. Without record counts, it uses the
size of the blocks in the driver's log. The largest stream must have at least `ratio` times the mean of the
others. If the input does not contain the rate limits, batches that fill the interval while back pressure is
enabled count as throttled.

What to do
----------
Split the busy source over several receivers, union the streams, and repartition the records. Move small
streams to a separate application.

False alarms
------------
Streams may differ in size on purpose. The difference only matters if the application is throttled or overloaded.
"""

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    ratio: float = h.limit(
        3.0, "ratio", "minimum ratio to the other receivers' mean; below it, the load is even"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application with a skewed receiver."""
    late = h.late_window(assessed.app.completed)
    totals, unit = totals_by_stream(assessed, late)
    for state in assessed.dstreams:
        if not (h.is_limited(state) or _is_held_at_interval(assessed, state)) or len(totals) < 2:
            continue
        biggest = max(sorted(totals), key=lambda stream: totals[stream])
        most, total = totals[biggest], sum(totals.values())
        mean = max((total - most) / (len(totals) - 1), 1.0)
        if most < limits.ratio * mean:
            continue
        name = h.receiver_name(assessed.app, biggest) or f"stream {biggest}"
        share, batches = h.fmt.percent(most / total), h.fmt.plural(len(late), "batch", "batches")
        of = f"{h.fmt.thousands(total)} of {len(totals)} streams in {batches}"
        ratio, against = round(most / mean, 2), "to the mean of the others"
        yield h.stream_finding(
            assessed,
            biggest,
            title=f"{name} delivers {share} of the {unit}, {most / mean:.1f} times as many as the "
            "other streams on average",
            why=f"delivers {share} of the {unit} of {len(totals)} streams",
            cause="skewed-receiver",
            rank=h.Rank.ROOT_CAUSE,
            count=max(1, len(late)),
            measurements=(
                h.measurement(unit, most, unit, over=of),
                h.measurement("ratio", ratio, "ratio", limits.ratio, over=against),
            ),
            evidence=h.evidence_of(late or assessed.app.batches),
            actions=h.remedies("skewed-receiver", assessed.app),
        )


def _is_held_at_interval(assessed: h.AssessedApplication, state: h.StreamState) -> bool:
    """Return whether back pressure is enabled and batches fill the interval without a growing delay."""
    return state.stability is h.Stability.BORDERLINE and bool(h.pid.is_enabled(assessed.app))


def totals_by_stream(
    assessed: h.AssessedApplication, late: h.Sequence[h.Batch]
) -> tuple[dict[int, int], str]:
    """Return the records of each stream, or the bytes of its blocks if no records were counted, and the unit."""
    totals: dict[int, int] = {}
    for batch in late:
        for stream in batch.streams:
            totals[stream.stream] = totals.get(stream.stream, 0) + stream.records
    if len(totals) >= 2:
        return totals, "records"
    # A driver's log without other inputs has only blocks and their sizes.
    return {blocks.stream: blocks.bytes for blocks in assessed.app.blocks}, "bytes"


RULE = h.Rule("RT301", judge, Limits, causes=("skewed-receiver",), needs="batches")
