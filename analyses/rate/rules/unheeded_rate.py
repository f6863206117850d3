"""Receivers ignore the published rate.

What it reports
---------------
An application with back pressure whose batches contain many more records than the published rates permit,
or whose batches count no records at all.

Why it matters
--------------
Back pressure has no effect, and the delay grows as if it were off.

How it decides
--------------
The application is overloaded and back pressure is on. In addition, one of two patterns applies.

Rate exceeded: at least `share` of the recent batches contain more than `ratio` times the permitted records. The
permitted number is the recalculated rate times the interval, plus one second of burst. Only
`Receiver.store(record)` uses the rate limiter. `store(iterator)` and similar methods bypass it.

No record counts: all batches, including queued ones, count zero records although they take time. At least
five batches must have completed. (The first third of spark/4.3.0/floor-too-high has only two.) File streams
never count records, and an estimator without records skips every update.

What to do
----------
Store records one by one, or use the receiver's own block generator. For files, limit the number of new
files per batch in the process that writes them.

False alarms
------------
If the driver generates batches late (see RT105), they contain the records of more than one interval.
"""

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    ratio: float = h.limit(
        2.0, "ratio", "minimum ratio to the permitted number; a late batch may have twice as many"
    )
    share: float = h.limit(
        h.defaults.MOSTLY, "share", "minimum share of batches with more records than `ratio` allows"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application with back pressure that has no effect."""
    app, done = assessed.app, h.late_window(assessed.app.completed)
    counted = [b for b in app.batches if b.records is not None]
    # Queued batches are newer than the rates. Completed batches may be older.
    late = counted[-max(h.defaults.LATE, len(counted) // 3) :]
    overloaded = any(map(h.batches.is_overloaded, assessed.dstreams))
    if not overloaded or not counted or h.pid.is_enabled(app) is not True:
        return
    if len(done) >= h.defaults.FEW and not any(b.records for b in counted):
        why = "no batch counts a record, so Spark computes no rate"
        yield _finding(assessed, done, h.application_subject(app), why)
        return
    for estimator in assessed.estimators:
        over = [b for b in late if exceeds_rate(b, estimator, app, limits.ratio)]
        if len(over) >= limits.share * len(late):
            times = "twice" if limits.ratio == 2 else f"{limits.ratio:g} times"
            why = f"{len(over)} of {len(late)} batches contain more than {times} the permitted records"
            yield _finding(assessed, over, h.receiver_subject(app, estimator.stream), why)
            return


def exceeds_rate(
    batch: h.Batch, estimator: h.Replay, app: h.ApplicationFacts, ratio: float
) -> bool:
    """Return whether a batch has more records than the rates just before and during its interval permit."""
    interval = app.interval_ms or 0
    records = next((s.records for s in batch.streams if s.stream == estimator.stream), 0)
    begin = batch.time_ms - interval
    published = [(s.observation.time_ms, s.new_rate) for s in estimator.steps if s.new_rate]
    before = [rate for time, rate in published if time <= begin][-1:]
    during = [rate for time, rate in published if begin < time <= batch.time_ms]
    return bool(before) and records > ratio * max(before + during) * (interval / 1000 + 1)


def _finding(
    assessed: h.AssessedApplication, batches: h.Sequence[h.Batch], subject: h.Subject, why: str
) -> h.Finding:
    return h.application_finding(
        assessed,
        subject=subject,
        cause="unheeded-rate",
        title=f"Back pressure is on but has no effect: {why}",
        why=why,
        rank=h.Rank.ROOT_CAUSE,
        count=len(batches),
        measurements=(h.measurement("batches-over-limit", len(batches), "batches"),),
        evidence=h.evidence_of(batches),
        actions=h.remedies("unheeded-rate", assessed.app),
    )


RULE = h.Rule("RT206", judge, Limits, causes=("unheeded-rate",), needs="batches")
