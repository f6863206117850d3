"""Detects records that the broker has, but that Kafka's client of a source cannot see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink.job import Status
from flowdiag.analyses.neighbours.facts import Lag
from flowdiag.analyses.queues.facts import Flow, JobQueues
from flowdiag.analyses.queues.neighbours.lags import (
    client_sees_none,
    commits_fail,
    has_back_pressured_sources,
    lags_of_job,
    read_rate,
    record_counter,
)

FEW_RECORDS: Final = 100
"""Maximum number of waiting records that may be markers: each transaction ends with one that no client reads."""
RECENT_US: Final = 60_000_000
"""Maximum time from the last report of the source to the output of Kafka's tool: one report per minute."""
PAUSES: Final = 2
"""Minimum duration as a multiple of the longest earlier pause, because transactions that end regularly cause pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRecords:
    """Records that wait in a topic while its source reads nothing and its client sees none of them.

    Args:
        source: the source task.
        records: number of waiting records.
        since_us: since when the source has read nothing.
        until_us: when Kafka's tool counted the records.
        lags: the positions of the partitions.
    """

    source: str
    records: int
    since_us: int
    until_us: int
    lags: tuple[Lag, ...]


def hidden_records(job: JobQueues, behind_s: float, silent_s: float) -> HiddenRecords | None:
    """Return the records that the source cannot see at the end of its metrics, or None.

    Flink commits offsets when a checkpoint completes. Only after a checkpoint does the lag of a source that reads
    nothing consist of records that it has not read.

    Args:
        job: the job.
        behind_s: minimum number of waiting records, in seconds of reading.
        silent_s: minimum time without a record.
    """
    known = _latest(lags_of_job(job))
    records = sum(lag.row.lag or 0 for lag in known)
    if len(job.topology.sources) != 1 or records <= FEW_RECORDS or commits_fail(job):
        return None
    [source] = job.topology.sources
    rate = read_rate(job, [key for key in job.samples if key.task == source]) or 0.0
    pause = _pause_at_end(job, source, known[0].row.time_us, silent_s)
    if pause is None or records < behind_s * rate or has_back_pressured_sources(job):
        return None
    if not _committed_in(job, *pause) or not client_sees_none(job, source, records):
        return None
    since, until = pause
    return HiddenRecords(
        source=source, records=records, since_us=since, until_us=until, lags=tuple(known)
    )


def _pause_at_end(
    job: JobQueues, source: str, output_us: int | None, silent_s: float
) -> tuple[int, int] | None:
    """Return the time without a record from its start to the output of Kafka's tool, or None if it is ordinary."""
    flow = record_counter(job, source)
    if flow is None or flow.constant_since_us is None:
        return None
    since, last = flow.constant_since_us, flow.points[-1].until_us
    # Output without a time may be older than the pause, unless the source has read nothing at all.
    until = output_us or (last if flow.total == 0 else since)
    least_us = max(silent_s * 1e6, PAUSES * _longest_pause_us(flow))
    return (since, until) if since + least_us <= until <= last + RECENT_US else None


def _latest(lags: Sequence[Lag]) -> list[Lag]:
    """Return the positions that Kafka's tool printed last."""
    outputs: dict[tuple[int, int], list[Lag]] = defaultdict(list)
    for lag in lags:
        outputs[lag.row.time_us or 0, lag.ref.source].append(lag)
    return outputs[max(outputs)] if outputs else []


def _longest_pause_us(flow: Flow) -> int:
    """Return the longest time without an increase of a counter before the one at the end."""
    moved = [flow.points[0], *(point for point in flow.points if point.increase > 0)]
    return max((after.time_us - before.until_us for before, after in pairwise(moved)), default=0)


def _committed_in(job: JobQueues, since_us: int, until_us: int) -> bool:
    """Return whether a checkpoint completed in a period."""
    return any(
        checkpoint.status is Status.COMPLETED and since_us < (checkpoint.ended_us or 0) <= until_us
        for checkpoint in job.job.checkpoints
    )
