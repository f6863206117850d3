"""Finds the causes of failed tasks and jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.parsers.exceptions import classify

_FAILURES: Final = ("task-failure", "job-failing", "job-failure")

KEEPS: Final = frozenset(
    {
        "not-enough-slots",
        "network-buffers",
        "class-loading",
        "main-class-missing",
        "factory-missing",
        "submission-failed",
        "job-not-started",
        "deployment-failed",
        "yarn-deployment-failed",
        "yarn-resources-missing",
        "kerberos-missing",
        "quota-exceeded",
        "restore-by-hand",
        "frame-too-large",
        "kubernetes-invalid",
        "kubernetes-failed",
        "invalid-options",
        "invalid-sql",
        "state-has-no-operator",
        "serializer-changed",
        "max-parallelism-changed",
        "restore-failed",
        "not-serializable",
        "coordinator-failed",
        "restarts-used-up",
        "leadership-lost",
        "jobmanager-lost",
        "rpc-timeout",
    }
)
"""Exception classes that prevent a job from running at all."""


def keeps_from_running(incident: Incident) -> str | None:
    """Return the class of an exception that keeps the job from running, or None."""
    failure = classify_incident(incident) if incident.kind in ("exception", "job-failure") else None
    return failure.name if failure is not None and failure.name in KEEPS else None


def failure_text(incident: Incident) -> str | None:
    """Return the causes of a failed task or job, deepest first, or None for other incidents."""
    if incident.kind not in _FAILURES:
        return None
    return join_texts(incident.cause, incident.text.get("exception"))


def join_texts(*texts: str | None) -> str:
    """Join the texts that are not None, one per line."""
    return "\n".join(filter(None, texts))


def incidents_of(facts: StartupFacts) -> Iterator[Incident]:
    """Yield all incidents: first the incidents without a job, then the incidents of each job."""
    yield from facts.common.incidents
    for job in facts.jobs:
        yield from job.job.incidents


def incidents_by_template(facts: StartupFacts, templates: Collection[str]) -> list[Incident]:
    """Return the incidents that match the templates, in order and without per-job duplicates."""
    seen = {
        (incident.time_us, incident.ref): incident
        for incident in incidents_of(facts)
        if incident.text.get("template") in templates and incident.time_us
    }
    return sorted(seen.values(), key=lambda incident: incident.time_us or 0)


_SIGNS: Final = ("leader-election-failed", "leader-session-expired", "leader-contender-out")


def leadership_signs(facts: StartupFacts) -> list[Incident]:
    """Return signs of a failed election, and jobs suspended because of it, in order and without repetitions."""
    seen = {
        (incident.time_us, incident.ref): incident
        for incident in incidents_of(facts)
        if incident.time_us is not None
        and (incident.text.get("template") in _SIGNS or _lost_leadership(incident))
    }
    return sorted(seen.values(), key=lambda incident: incident.time_us or 0)


def _lost_leadership(incident: Incident) -> bool:
    """Return whether a job was suspended because its JobManager lost the leadership."""
    if incident.kind != "suspended" or not incident.cause:
        return False
    failure = classify([incident.text.get("exception") or "", incident.cause], "flink")
    return failure is not None and failure.name == "leadership-lost"
