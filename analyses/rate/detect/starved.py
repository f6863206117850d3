"""Triggers of a query that wait for the cores that another query uses."""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h


def measured_waits(starved: h.Sequence[h.Trigger]) -> h.Iterator[h.Measurement]:
    """Yield how long the jobs and the tasks of the triggers took, if the input has both."""
    known = [(t.work.busy_ms or 0, t.stage.total_ms) for t in starved if t.work and t.stage]
    if known:
        over = "median per trigger"
        yield h.measurement("jobs", round(median(busy for busy, _ in known)), "ms", over=over)
        over = "of the longest stage, median per trigger"
        yield h.measurement("tasks", round(median(tasks for _, tasks in known)), "ms", over=over)
