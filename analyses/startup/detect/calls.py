"""Finds failed remote calls, and the process that most of them name."""

from __future__ import annotations

from collections import Counter

from flowdiag.analyses.startup import helpers as h


def before_shutdown(facts: h.StartupFacts, kinds: tuple[str, ...]) -> list[h.Trouble]:
    """Return the troubles of these kinds that occurred before the cluster shut down."""
    ends = [job.ended_us for job in facts.jobs]
    for job in facts.jobs:
        ends += [i.time_us for i in job.job.incidents if i.kind in ("cancelled", "finished")]
    known = [us for us in ends if us is not None]
    shutdown_us = max(known) if known and len(known) >= len(facts.jobs) else float("inf")
    return [t for t in facts.of_kind(*kinds) if t.first_us is None or t.first_us < shutdown_us]


def main_peer(troubles: list[h.Trouble]) -> tuple[str | None, int, int]:
    """Return the host that most records name (None if no record names one), its number of records, and the total."""
    peers: Counter[str | None] = Counter()
    for trouble in troubles:
        peers[trouble.peer or None] += trouble.count
    return *peers.most_common(1)[0], peers.total()
