"""What failed tasks and jobs say of why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.startup.facts import StartupFacts

_FAILURES: Final = ("task-failure", "job-failing", "job-failure")


def failure_text(incident: Incident) -> str | None:
    """The causes of a failed task or job, deepest first; None for what is no failure."""
    if incident.kind not in _FAILURES:
        return None
    return joined(incident.cause, incident.text.get("exception"))


def joined(*texts: str | None) -> str:
    """Texts below each other, without those that are not there."""
    return "\n".join(filter(None, texts))


def incidents_of(facts: StartupFacts) -> Iterator[Incident]:
    """All incidents: those of no job, then those of each job."""
    yield from facts.common.incidents
    for job in facts.jobs:
        yield from job.job.incidents
