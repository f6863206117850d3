"""Batches and triggers that do not end, and what they wait for."""

from __future__ import annotations

from itertools import pairwise

from flowdiag.analyses.rate import helpers as h


def longest_ms(triggers: h.Sequence[h.Trigger]) -> int:
    """Return the longest earlier trigger, without the cold ones if there are others."""
    warm = [b for a, b in pairwise(triggers) if a.run_id == b.run_id]
    return max((t.duration_ms or 0 for t in warm or triggers), default=0)


def find_hanging_batch(
    app: h.ApplicationFacts, *, intervals: float, ratio: float
) -> tuple[h.Batch, int, int] | None:
    """Return the batch that hangs, how long it has run, and the longest earlier batch."""
    running = [
        batch
        for batch in h.batches.unfinished_batches(app)
        if batch.state == "processing" and batch.start_ms is not None
    ]
    ends = [us for us in (app.last_us, app.stopped_us) if us is not None]
    if not running or not app.interval_ms or not ends:
        return None
    oldest = min(running, key=lambda b: b.start_ms or 0)
    begun = oldest.start_ms or 0
    ran = min(min(ends) // 1000, h.batches.contiguous_until_ms(app, begun)) - begun
    warm = app.completed[h.defaults.COLD :] or app.completed
    longest = max((b.processing_ms or 0 for b in warm), default=0)
    enough = max(intervals * app.interval_ms, ratio * longest)
    return (oldest, ran, longest) if ran >= enough else None


def running_clause(tasks: h.Sequence[h.OpenTask], work: h.Work | None) -> str:
    """Return what has not ended, in a clause."""
    if tasks:
        task = tasks[0]
        name = f" ({h.fmt.shorten(code, 60)})" if (code := _code_of(task)) else ""
        others = f" and {h.fmt.plural(len(tasks) - 1, 'other task')}" if len(tasks) > 1 else ""
        ended = f", while {task.ended} of its stage ended" if task.ended else ""
        return (
            f": task {task.index} of stage {task.stage}{name} on executor {task.executor}{others} "
            f"{'have' if others else 'has'} not ended{ended}"
        )
    if work is None:
        return ""
    if work.busy_ms is not None:
        return ": no Spark job runs, so the driver waits in the sink"
    return ": a job of it has no running task"


def _code_of(task: h.OpenTask) -> str:
    """Return the name of the stage if it shows the user's code, not the gateway that calls it."""
    name = task.stage_name or ""
    gateways = ("py4j", "NativeMethodAccessorImpl", "<unknown>")
    return "" if any(word in name for word in gateways) else name
