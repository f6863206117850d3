"""Judges CP314 for `flowdiag startup`, based on the incidents of the cluster."""

from __future__ import annotations

from flowdiag.analyses.flink.rules.unrecognised_failure import (
    RULE,
    Unrecognized,
    judge,
    judge_failures,
)
from flowdiag.analyses.startup import helpers as h

__all__ = ["RULE"]


@judge.register
def judge_starts(facts: h.StartupFacts, limits: Unrecognized) -> h.Iterator[h.Finding]:
    """Report each kind of failure of each job."""
    yield from judge_failures(facts.common, limits)
