"""Measures the loads of subtasks while checkpoints failed.

All topics use these loads and windows, so each reports the same ratio of a subtask's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowdiag.analyses.engine.sql import union_all
from flowdiag.analyses.flink import lifecycle
from flowdiag.analyses.flink.job import ClusterFacts, Status
from flowdiag.analyses.flink.settled import Settled, rows_of

# Metrics are read from this long before the trigger of a failed checkpoint.
BEFORE_TRIGGER_US: Final = 5_000_000
# Spans closer together than this are joined.
APART_US: Final = 60_000_000
# Longer lists become one span, because each span is a condition in a query plan.
MAX_SPANS: Final = 64
# Length and maximum number of metric windows, and maximum number of rows that the driver receives.
MINUTE_US: Final = 60_000_000
MOST_WINDOWS: Final = 120
MOST_LOADS: Final = 100_000


def load_rows(common: ClusterFacts, settled: Settled) -> list[dict[str, Any]]:
    """Return the metrics of subtasks and TaskManagers while checkpoints failed, or over the whole input."""
    if not any(row["what"] == "stream" and row["scopes"] for row in settled.surveyed):
        return []
    spans = failing_spans(common)
    metrics, width_us = settled.metrics(), window_us(common, spans)
    names = [job.name for job in common.jobs]
    by_id = len(names) != len(set(names))
    loads = lifecycle.loads(metrics, spans, width_us, by_id=by_id)
    return rows_of(union_all([loads, lifecycle.garbage(metrics, spans, width_us)]))


def failing_spans(facts: ClusterFacts) -> list[tuple[int, int]]:
    """Return the spans of unsuccessful checkpoints in microseconds. Overlapping spans are joined."""
    spans = sorted(
        (checkpoint.triggered_us - BEFORE_TRIGGER_US, checkpoint.ended_us)
        for job in facts.jobs
        for checkpoint in job.checkpoints
        if checkpoint.status.unsuccessful and checkpoint.triggered_us and checkpoint.ended_us
    )
    joined: list[tuple[int, int]] = []
    for low, high in spans:
        if joined and low - joined[-1][1] <= APART_US:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    if len(joined) > MAX_SPANS:  # checkpoints fail throughout, so one span is enough
        joined = [(joined[0][0], max(high for _, high in joined))]
    return joined


def window_us(facts: ClusterFacts, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return the window length for metrics of failing or pending checkpoints, or None if there are none.

    It is a minute (the usual reporting interval), or a multiple that limits the number of windows of all subtasks.
    """
    if not spans:
        if not any(c.status is Status.IN_FLIGHT for job in facts.jobs for c in job.checkpoints):
            return None
        spans = [(job.first_us or 0, job.last_us or 0) for job in facts.jobs]
    subtasks = sum(len({(a.task, a.subtask_index) for a in job.attempts}) for job in facts.jobs)
    most = min(MOST_WINDOWS, max(1, MOST_LOADS // max(subtasks, 1)))
    lasted = sum(high - low for low, high in spans)
    return MINUTE_US * max(1, -(-lasted // (MINUTE_US * most)))
