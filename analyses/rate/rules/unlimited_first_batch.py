"""The first batch reads a whole backlog.

What it reports
---------------
A first batch that reads the entire backlog of a topic, because nothing limits the rate before the first
estimate.

Why it matters
--------------
The batch runs for many intervals, and all later batches wait for it. The same happens after every restart.

How it decides
--------------
The application uses Kafka's direct stream and has at least `batches` batches with records. The first of
them contains at least `ratio` times the median of the later ones, and takes `intervals` intervals or
longer. Neither `initialRate` nor `maxRatePerPartition` is set. The estimator publishes its first rate only
after two batches have completed.

What to do
----------
Set `spark.streaming.kafka.maxRatePerPartition`. With back pressure, set
`spark.streaming.backpressure.initialRate` (for Kafka, since Spark 2.4).

False alarms
------------
Some applications only have to read a backlog once. The finding is a note if the delay decreases again.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.model import kafka_ranges


class Limits(h.Limits):
    ratio: float = h.limit(
        5.0, "ratio", "minimum ratio of records to the median of later batches; bursts are smaller"
    )
    intervals: float = h.limit(
        5.0, "intervals", "minimum duration of the first batch; a cold start takes less time"
    )
    batches: float = h.limit(
        h.defaults.FEW, "batches", "number of batches that show a typical size"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose first batch read the whole backlog."""
    app = assessed.app
    filled = [b for b in app.completed if b.records]
    options = (h.pid.INITIAL_RATE, h.pid.MAX_PER_PARTITION)
    if any(h.pid.number(app.settings.get(key)) for key in options):
        return
    if not app.interval_ms or len(filled) < max(2, limits.batches):
        return
    first, later = filled[0], median(b.records or 0 for b in filled[1:])
    took, records = first.processing_ms, first.records or 0
    direct = any(kafka_ranges(stream.description) for stream in first.streams)
    if took is None or took < limits.intervals * app.interval_ms or records < limits.ratio * later:
        return
    if direct:
        yield _finding(assessed, first, took, later)


def _finding(assessed: h.AssessedApplication, first: h.Batch, took: int, later: float) -> h.Finding:
    app, enabled = assessed.app, h.pid.is_enabled(assessed.app)
    lasting = any(h.batches.is_overloaded(state) for state in assessed.dstreams)
    option = h.pid.INITIAL_RATE if enabled else h.pid.MAX_PER_PARTITION
    records = h.fmt.plural(first.records or 0, "record")
    return h.option_finding(
        assessed,
        option,
        severity=h.Severity.WARNING if lasting else h.Severity.INFO,
        state=h.State.ONGOING if lasting else h.State.RECOVERED,
        title=f"The first batch read {records} and took {h.fmt.duration(took)}; later batches have "
        f"{later:.0f}",
        why=f"{option} is not set, so the first batch read {records}",
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
            "unlimited-first-batch", app, "initial-rate" if enabled else "max-per-partition"
        ),
    )


RULE = h.Rule("RT207", judge, Limits, causes=("unlimited-first-batch",), needs="batches")
