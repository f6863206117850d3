"""The published rate is not heeded.

What it reports
---------------
Back pressure that is on and publishes rates, while batches hold much more than they permit, or no
record at all is counted.

Why it matters
--------------
The estimator believes that it acts and does not: the delay grows as without it.

How it decides
--------------
In an overloaded application with back pressure: at least `share` of the latest batches hold more than
`ratio` times what the replayed rate permits in their interval, a second of burst included. Only
`Receiver.store(record)` passes the limiter; `store(iterator)` and the like do not. Or every batch,
of those that wait as well, counts zero records while it takes time, five completed ones at least (the first third of
spark/4.3.0/floor-too-high has two, and full ones wait): file
streams never count, and an estimator without records skips every update.

What to do
----------
Store records one by one, or through the receiver's own block generator; for files limit what is new
per batch where it is written.

False alarms
------------
Batches that were made while the driver was late hold the records of more than one interval: RT105
says so.
"""

from __future__ import annotations

from typing import Any

from flowdiag.analyses.rate import helpers as h


class Unheeded(h.Limits):
    """What RT206 compares with."""

    ratio: float = h.limit(2.0, "ratio", "a late batch may hold two intervals' worth, not more")
    share: float = h.limit(h.defaults.MOSTLY, "share", "of the latest batches")


def judge(assessed: h.Assessed, limits: Unheeded) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose receivers take what they like."""
    app = assessed.app
    for state in assessed.dstreams:
        if h.pid.enabled(app) is not True or not h.batches.overloaded(state):
            continue
        late = h.late_window(app.completed)
        known = [b.records for b in app.batches if b.records is not None]
        if known and len(late) >= h.defaults.FEW and not any(known):
            why = "no batch counts a record, so that no rate is computed"
            yield _finding(assessed, late, why)
            continue
        # The batches that wait are newer than the rates, those that completed may be older.
        counted = [b for b in app.batches if b.records is not None]
        late = tuple(counted[-max(h.defaults.LATE, len(counted) // 3) :])
        for estimator in assessed.estimators:
            over = [b for b in late if beyond(b, estimator, app, limits.ratio)]
            if late and len(over) >= limits.share * len(late):
                times = "twice" if limits.ratio == 2 else f"{limits.ratio:g} times"
                why = f"{len(over)} of {len(late)} batches hold more than {times} what it permits"
                yield _finding(assessed, over, why, estimator.stream)
                break


def beyond(batch: h.Batch, estimator: h.Replay, app: h.ApplicationFacts, ratio: float) -> bool:
    """Whether a batch holds more than the rates before and during its interval explain."""
    interval = app.interval_ms or 0
    records = next((s.records for s in batch.streams if s.stream == estimator.stream), 0)
    begin = batch.time_ms - interval
    published = [(s.observation.time_ms, s.new_rate) for s in estimator.steps if s.new_rate]
    before = [rate for time, rate in published if time <= begin][-1:]
    during = [rate for time, rate in published if begin < time <= batch.time_ms]
    return bool(before) and records > ratio * max(before + during) * (interval / 1000 + 1)


def _finding(
    assessed: h.Assessed, batches: h.Sequence[h.Batch], why: str, stream: int | None = None
) -> h.Finding:
    said: dict[str, Any] = {
        "title": f"Back pressure is on and has no effect: {why}",
        "why": why,
        "rank": h.Rank.ROOT_CAUSE,
        "count": len(batches),
        "measurements": (h.measurement("batches-beyond", len(batches), "batches"),),
        "evidence": h.evidence_of(batches),
        "actions": h.remedies("unheeded-rate", assessed.app),
    }
    if stream is None:
        return h.application_finding(assessed, cause="unheeded-rate", **said)
    return h.stream_finding(assessed, stream, cause="unheeded-rate", **said)


RULE = h.Rule("RT206", judge, Unheeded, causes=("unheeded-rate",))
