"""Finds suspended jobs and revoked leaderships, with the signs that precede them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.startup import helpers as h

_GRANTED: Final = ("leadership-session", "leadership-granted")


def times_us(incidents: list[h.Incident]) -> list[int]:
    return [incident.time_us or 0 for incident in incidents]


def suspensions(facts: h.StartupFacts) -> h.Iterator[h.Incident]:
    for incident in h.incidents_of(facts):
        if incident.kind == "suspended" and incident.time_us is not None:
            yield incident


def has_leader_after(facts: h.StartupFacts, time_us: int) -> bool:
    """Return whether a leader was elected or a job resumed after a given time."""
    return any(
        (i.time_us or 0) > time_us
        and (i.kind == "job-running" or i.text.get("template") in _GRANTED)
        for i in h.incidents_of(facts)
    )


def follows(incident: h.Incident, signs_us: Sequence[int], after_us: float) -> bool:
    """Return whether an incident coincides with a sign of a failed election or follows soon after. Signs are in order."""
    at = incident.time_us or 0
    before = bisect_right(signs_us, at)
    return before > 0 and at - signs_us[before - 1] <= after_us
