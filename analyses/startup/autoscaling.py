"""Reads the autoscaler's events from its own log or from audit lines of the Kubernetes Operator."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from flowdiag.analyses.flink.settings import setting
from flowdiag.analyses.startup.facts import JobStarts, StartupFacts, Trouble

REASONS: Final = {
    "scalingreport": "report",
    "ineffectivescaling": "ineffective",
    "scalinglimited": "limited",
    "memorypressure": "memory-pressure",
    "resourcequotareached": "quota",
    "scalingvetoed": "vetoed",
}
"""Kinds of events by reason in lower case. The operator prints reasons in upper case."""
_EVENTS: Final = frozenset({"autoscaler-event", "operator-event", "operator-event-warning"})
_LINES: Final = {
    "autoscaler-not-adaptive": "not-adaptive",
    "autoscaler-no-metric": "no-metric",
    "autoscaler-no-rate": "no-metric",
}
_DISABLED: Final = re.compile(r"Scaling execution disabled by config (?P<option>[\w.-]{1,80}):")
_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")


def reason_of(trouble: Trouble) -> str | None:
    """Return the kind of an autoscaler event, or None for anything else.

    >>> reason_of(Trouble(kind="operator-event", count=1, first_us=None, last_us=None,
    ...     values={"reason": "INEFFECTIVESCALING"}))
    'ineffective'
    """
    if trouble.kind in _LINES:
        return _LINES[trouble.kind]
    if trouble.kind not in _EVENTS:
        return None
    found = REASONS.get(trouble.values.get("reason", "").lower().replace("_", ""))
    if found == "report" and disabled_by(trouble) is not None:
        return "excluded-period" if "excluded" in str(disabled_by(trouble)) else "disabled"
    return found


def disabled_by(trouble: Trouble) -> str | None:
    """Return the option that turns the reported scaling into a mere recommendation, or None."""
    found = _DISABLED.search(trouble.values.get("said", ""))
    return found["option"] if found else None


def events_of(facts: StartupFacts, job: JobStarts) -> Mapping[str, list[Trouble]]:
    """Return the events about a job, by kind.

    The name of a deployment may differ from the name of its job. A single deployment belongs to a single job.
    """
    events = [(_key(t), reason, t) for t in facts.troubles if (reason := reason_of(t)) is not None]
    deployments = {key for key, _, _ in events if key and not _ID.fullmatch(key)}
    cluster = setting(job.job, "kubernetes.cluster-id")
    own = {job.job.key.job_id, job.job.name, cluster.value if cluster is not None else None}
    if len(facts.jobs) == 1 and len(deployments) <= 1:
        own |= {"", *deployments}
    found: defaultdict[str, list[Trouble]] = defaultdict(list)
    for key, reason, trouble in events:
        if key in own:
            found[reason].append(trouble)
    return found


def _key(trouble: Trouble) -> str:
    """Return the job ID or deployment name of an event, or an empty string."""
    return trouble.values.get("key") or (trouble.resource or "").rpartition("/")[2]


def task_in(trouble: Trouble, job: JobStarts) -> str | None:
    """Return the name of an event's task or, failing that, its vertex ID."""
    found = _ID.search(trouble.values.get("vertex") or trouble.values.get("said", ""))
    if found is None:
        return None
    vertices = job.job.graph.vertices if job.job.graph else ()
    return next((v.task for v in vertices if v.vertex_id == found[0]), found[0])
