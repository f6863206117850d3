"""Batches and triggers that do not end, and what they wait for."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.stacks import Stack


def longest_ms(triggers: h.Sequence[h.Trigger]) -> int:
    """Return the duration of the longest earlier trigger. Cold triggers count only if there is no other."""
    warm = [b for a, b in pairwise(triggers) if a.run_id == b.run_id]
    return max((t.duration_ms or 0 for t in warm or triggers), default=0)


def expected_ms(query: h.QueryFacts) -> float:
    """Return how long the unfinished trigger should take for its rows, at the last trigger's cost per row."""
    last = next((t for t in reversed(query.triggers) if t.rows and t.duration_ms), None)
    if last is None or query.unfinished is None or not last.rows or not last.input_per_s:
        return 0.0
    arrived = last.input_per_s * (query.unfinished.since_us - last.time_us) / 1e6
    return arrived * (last.duration_ms or 0) / last.rows


def user_of_cores(app: h.ApplicationFacts, query: h.QueryFacts) -> h.QueryFacts | None:
    """Return another query that may occupy all cores: it has a long open trigger, and no task of this one runs."""
    last = query.unfinished
    if last is None or last.tasks:
        return None
    return next(
        (
            other
            for other in app.queries
            if other is not query
            and (their := other.unfinished) is not None
            and their.duration_ms * 2 >= last.duration_ms
        ),
        None,
    )


def find_hanging_batch(
    app: h.ApplicationFacts, *, intervals: float, ratio: float, typical: float, alone: float
) -> tuple[h.Batch, int, int] | None:
    """Return the batch that hangs, how long it has run, and how long the longest earlier batch took (in ms)."""
    running = h.batches.running_batch(app)
    if running is None or not app.interval_ms:
        return None
    batch, ran = running
    warm = app.completed[h.defaults.COLD :] or app.completed
    lasted = [b.processing_ms or 0 for b in warm]
    longest, middle = max(lasted, default=0), median(lasted or [0])
    # A single long batch, such as the first one, must not hide a hang.
    most = min(ratio * longest, max(2 * longest, typical * middle)) if lasted else alone
    return (batch, ran, longest) if ran >= max(intervals * app.interval_ms, most) else None


def running_clause(tasks: h.Sequence[h.OpenTask], work: h.Work | None) -> str:
    """Return a clause about the task or job that has not ended."""
    if tasks:
        task = tasks[0]
        name = f" ({h.fmt.shorten(code, 60)})" if (code := _code_of(task)) else ""
        others = f" and {h.fmt.plural(len(tasks) - 1, 'other task')}" if len(tasks) > 1 else ""
        ended = (
            f", while {h.fmt.plural(task.ended, 'task')} of its stage ended" if task.ended else ""
        )
        return (
            f": task {task.index} of stage {task.stage}{name} on executor {task.executor}{others} "
            f"{'have' if others else 'has'} not ended{ended}"
        )
    if work is None:
        return ""
    if work.busy_ms is not None:
        return ": no Spark job runs, so the driver waits in the sink"
    return ": one of its jobs has no running task"


def _code_of(task: h.OpenTask) -> str:
    """Return the name of the stage if it shows user code rather than the Python gateway that calls the code."""
    name = task.stage_name or ""
    gateways = ("py4j", "NativeMethodAccessorImpl", "<unknown>")
    return "" if any(word in name for word in gateways) else name


_OFFSETS: Final = re.compile(
    r"[.$](?:latestOffset|fetchLatestOffsets|getOffset|retrieveAllPartitions)\("
)
"""Methods in which the thread of a query requests offsets from its source."""


def offset_requests(app: h.ApplicationFacts, query: h.QueryFacts) -> list[Stack]:
    """Return the stacks of the query's thread if it requests offsets in all dumps, at least two."""
    runs = (None, *query.runs)
    stacks = [one.stack for one in app.threads if one.role == "query" and one.run in runs]
    waits = all(any(map(_OFFSETS.search, stack.path)) for stack in stacks)
    return stacks if waits and len(stacks) > 1 else []
