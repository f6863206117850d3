"""Finds the limits that batches of an application reach."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from statistics import median

from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment.parts import records_of_stream
from flowdiag.analyses.rate.assessment.state import AT_LIMIT, MOSTLY, NARROW, Cap
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch
from flowdiag.analyses.rate.replay import Replay


def dstream_caps(
    app: ApplicationFacts,
    late: Sequence[Batch],
    estimators: Sequence[Replay],
    *,
    full: float = AT_LIMIT,
    permitted: float = MOSTLY,
    fixed: float = NARROW,
) -> tuple[Cap, ...]:
    """Return the limits that most of the recent batches reach, the most frequently reached limit first.

    Args:
        app: the application with its settings.
        late: the recent batches.
        estimators: the estimators of its streams.
        full: share of the permitted records at which a batch counts as full.
        permitted: minimum share of the batches that reach the estimated rate.
        fixed: minimum share of the batches that reach a fixed limit.
    """
    seconds = (app.interval_ms or 0) / 1000
    if not seconds:
        return ()
    caps: list[Cap] = []
    streams = sorted({s.stream for b in late for s in b.streams})
    most = pid.number(app.settings.get(pid.MAX_RATE))
    for stream in streams:
        taken = records_of_stream(late, stream)
        share, rate = _share_at_estimate(stream, late, estimators, seconds, full)
        if 0 < share >= permitted and any(taken):
            caps.append(Cap(kind="pid", per_s=rate, share=share, stream=stream))
        elif most is not None and 0 < most < pid.NO_LIMIT:
            at_limit = len([n for n in taken if n >= full * most * seconds])
            if taken and at_limit >= fixed * len(taken):
                found = at_limit / len(taken)
                caps.append(Cap(kind="max-rate", per_s=most, share=found, stream=stream))
    caps += _kafka_caps(app, late, seconds, full=full, fixed=fixed)
    return tuple(sorted(caps, key=lambda cap: -cap.share))


def _share_at_estimate(
    stream: int,
    late: Sequence[Batch],
    estimators: Sequence[Replay],
    seconds: float,
    full: float,
) -> tuple[float, float]:
    """Return the share of recent batches that reach the estimated rate, and the median estimated rate."""
    mine = next((one for one in estimators if one.stream == stream), None)
    if mine is None:
        return 0.0, 0.0
    # In time order, because an estimator skips older batches than it has seen.
    published = [
        (step.observation.time_ms, step.new_rate)
        for step in mine.steps
        if step.new_rate is not None
    ]
    times, values = [time for time, _ in published], [rate for _, rate in published]
    reached, counted, rates = 0, 0, []
    for batch in late:
        records = next((s.records for s in batch.streams if s.stream == stream), None)
        # The records of a batch arrive in the interval before its batch time.
        begin = batch.time_ms - seconds * 1000
        known = bisect(times, begin)
        held = values[max(0, known - 1) : max(known, bisect(times, batch.time_ms))]
        if records is None or not held:
            continue
        permitted, lowest = max(held), min(held)
        counted += 1
        rates.append(permitted)
        reached += full * lowest * seconds <= records
    if not counted:
        return 0.0, 0.0
    return reached / counted, median(rates)


def _kafka_caps(
    app: ApplicationFacts, late: Sequence[Batch], seconds: float, *, full: float, fixed: float
) -> list[Cap]:
    limit = pid.number(app.settings.get(pid.MAX_PER_PARTITION))
    if limit is None or limit <= 0:
        return []
    from flowdiag.analyses.rate.model import kafka_ranges

    reached = counted = 0
    for batch in late:
        ranges = [r for s in batch.streams for r in kafka_ranges(s.description)]
        if ranges:
            counted += 1
            reached += any(r.count >= full * limit * seconds for r in ranges)
    if not counted:
        # Without batch descriptions, executor logs show how many records each task read.
        tasks = [one for one in app.partitions if one.tasks]
        shares = [one.records / one.tasks / (limit * seconds) for one in tasks]
        share = min(max(shares, default=0.0), 1.0)
        return [Cap(kind="max-per-partition", per_s=limit, share=share)] if share >= full else []
    if reached < fixed * counted:
        return []
    return [Cap(kind="max-per-partition", per_s=limit, share=reached / counted)]
