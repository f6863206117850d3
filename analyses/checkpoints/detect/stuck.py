"""Describes tasks that do not end, and finds the watchdog that killed their TaskManager."""

from __future__ import annotations

from flowdiag.analyses.flink import helpers as h


def ended_by(last: h.Incident, ends: list[h.Incident], *, alone: bool) -> h.Incident | None:
    """Return the watchdog's record if it killed the TaskManager of this task, otherwise None."""
    for end in ends:
        here = end.ref is not None and last.ref is not None and end.ref.source == last.ref.source
        same = end.taskmanager == last.taskmanager if end.taskmanager and last.taskmanager else here
        after = 0 <= (end.time_us or 0) - (last.time_us or 0) <= 2000 * (end.duration_ms or 0)
        if after and (same or alone):
            return end
    return None


def method_of(incident: h.Incident) -> str:
    """Return the method in which a task is stuck: the innermost frame, and the user frame that called it."""
    lines = [line.strip() for line in (incident.cause or "").splitlines() if line.strip()]
    innermost = h.fmt.shorten(lines[0].removeprefix("at "), 120) if lines else None
    own = incident.text.get("user_frame")
    if own and innermost and own not in innermost:
        return f"{innermost}, called by {h.fmt.shorten(own, 120)}"
    return innermost or own or "an unknown method"
