"""The first batch takes a whole backlog.

What it reports
---------------
A first batch that takes everything a topic holds, since nothing limits it before the first
estimate.

Why it matters
--------------
It runs for many intervals, and all others wait behind it; after each restart again.

How it decides
--------------
Kafka's direct stream: of at least `batches` batches with records the first holds `ratio` times the
median of the later ones or more and took longer than `intervals` intervals, while neither
`initialRate` nor `maxRatePerPartition` was set. The estimator needs two completed batches before its
first rate.

What to do
----------
Set `spark.streaming.kafka.maxRatePerPartition`, or with back pressure
`spark.streaming.backpressure.initialRate` (2.4 and later for Kafka).

False alarms
------------
An application that is meant to read a backlog once; it is information as long as the delay falls
again.
"""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.model import kafka_ranges


class First(h.Limits):
    """What RT207 compares with."""

    ratio: float = h.limit(5.0, "ratio", "more than any burst between two batches")
    intervals: float = h.limit(5.0, "intervals", "shorter ones are a cold start")
    batches: float = h.limit(h.defaults.FEW, "batches", "with records: fewer tell of no usual size")


def judge(assessed: h.Assessed, limits: First) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application that begins so."""
    app = assessed.app
    options = (h.pid.INITIAL_RATE, h.pid.MAX_PER_PARTITION)
    filled = [b for b in app.completed if b.records]
    if not app.interval_ms or any(h.pid.number(app.settings.get(key)) for key in options):
        return
    if len(filled) < max(2, limits.batches) or filled[0].processing_ms is None:
        return
    first, later = filled[0], median(b.records or 0 for b in filled[1:])
    took = filled[0].processing_ms
    direct = any(kafka_ranges(stream.description) for stream in first.streams)
    much = (first.records or 0) >= limits.ratio * later
    if not direct or not much or took < limits.intervals * app.interval_ms:
        return
    lasting = any(h.batches.overloaded(state) for state in assessed.dstreams)
    option = h.pid.INITIAL_RATE if h.pid.enabled(app) else h.pid.MAX_PER_PARTITION
    yield h.option_finding(
        assessed,
        option,
        severity=h.Severity.WARNING if lasting else h.Severity.INFO,
        state=h.State.ONGOING if lasting else h.State.RECOVERED,
        title=f"The first batch took {h.fmt.plural(first.records or 0, 'record')} and {h.fmt.duration(took)}; later ones "
        f"hold {later:.0f}",
        why=f"{option} is not set, so that the first batch took {h.fmt.plural(first.records or 0, 'record')}",
        cause="unlimited-first-batch",
        rank=h.Rank.ROOT_CAUSE,
        first_us=first.time_ms * 1000,
        last_us=first.time_ms * 1000,
        measurements=(
            h.measurement("records", first.records, "records"),
            h.measurement("later-batches", later, "records"),
        ),
        evidence=h.evidence_of([first]),
        actions=h.remedies(
            "unlimited-first-batch",
            app,
            "initial-rate" if h.pid.enabled(app) else "max-per-partition",
        ),
    )


RULE = h.Rule("RT207", judge, First, causes=("unlimited-first-batch",))
