"""What failed tasks and jobs say of why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.flink.crises import classify_incident
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.parsers.exceptions import classify

_FAILURES: Final = ("task-failure", "job-failing", "job-failure")

KEEPS: Final = frozenset(
    {
        "not-enough-slots",
        "network-buffers",
        "class-loading",
        "submission-failed",
        "deployment-failed",
        "restore-by-hand",
        "frame-too-large",
        "invalid-options",
        "invalid-sql",
        "state-has-no-operator",
        "serializer-changed",
        "restore-failed",
        "not-serializable",
        "coordinator-failed",
        "restarts-used-up",
        "leadership-lost",
        "jobmanager-lost",
        "rpc-timeout",
    }
)
"""Classes of exceptions that keep a job from running at all."""


def keeps_from_running(incident: Incident) -> str | None:
    """The class of a job's exception, or of one that stands by itself, if it keeps a job from running."""
    said = classify_incident(incident) if incident.kind in ("exception", "job-failure") else None
    return said.name if said is not None and said.name in KEEPS else None


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


_SIGNS: Final = ("leader-election-failed", "leader-session-expired", "leader-contender-out")


def leadership_signs(facts: StartupFacts) -> list[Incident]:
    """What says that an election failed, or that a job is suspended for it; each once, in order."""
    seen = {
        (incident.time_us, incident.ref): incident
        for incident in incidents_of(facts)
        if incident.time_us is not None
        and (incident.text.get("template") in _SIGNS or _deposed(incident))
    }
    return sorted(seen.values(), key=lambda incident: incident.time_us or 0)


def _deposed(incident: Incident) -> bool:
    """Whether a job was suspended since its JobManager is no longer the leader."""
    if incident.kind != "suspended" or not incident.cause:
        return False
    said = classify([incident.text.get("exception") or "", incident.cause], "flink")
    return said is not None and said.name == "leadership-lost"
