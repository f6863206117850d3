"""The events of the autoscaler, from its own log or from the audit lines of the Kubernetes Operator."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.startup.facts import JobStarts, StartupFacts, Trouble

REASONS: Final = {
    "scalingreport": "report",
    "ineffectivescaling": "ineffective",
    "scalinglimited": "limited",
    "memorypressure": "memory-pressure",
    "resourcequotareached": "quota",
    "scalingvetoed": "vetoed",
}
"""Events by their reason in lower case; the operator prints reasons in upper case."""
_EVENTS: Final = frozenset({"autoscaler-event", "operator-event", "operator-event-warning"})
_LINES: Final = {
    "autoscaler-not-adaptive": "not-adaptive",
    "autoscaler-no-metric": "no-metric",
    "autoscaler-no-rate": "no-metric",
}
_DISABLED: Final = re.compile(r"Scaling execution disabled by config (?P<option>[\w.-]{1,80}):")
_CHANGE: Final = re.compile(
    r"Vertex ID (?P<vertex>[0-9a-f]{32}) \| Parallelism (?P<before>[0-9]{1,9}) -> (?P<after>[0-9]{1,9})"
    r" \| Processing capacity (?P<rate>[^ |]{1,40}) -> (?P<expected>[^ |]{1,40})"
    r" \| Target data rate (?P<target>[^ |}]{1,40})"
)
_VERTEX: Final = re.compile(r"\b[0-9a-f]{32}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the parallelism in a scaling report."""

    vertex: str
    before: int
    after: int
    expected: str


def reason_of(trouble: Trouble) -> str | None:
    """Return the kind of an event of the autoscaler; None for anything else.

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
    """Return the option that turns a scaling report into a recommendation."""
    found = _DISABLED.search(trouble.values.get("said", ""))
    return found["option"] if found else None


def events_of(facts: StartupFacts, job: JobStarts) -> Mapping[str, list[Trouble]]:
    """Return the events about a job by kind: all of them if there is only one job."""
    found: defaultdict[str, list[Trouble]] = defaultdict(list)
    for trouble in facts.troubles:
        reason = reason_of(trouble)
        if reason is None:
            continue
        key = trouble.values.get("key") or (trouble.resource or "").rpartition("/")[2]
        if len(facts.jobs) == 1 or key in (job.job.key.job_id, job.job.name):
            found[reason].append(trouble)
    return found


def changes_in(trouble: Trouble) -> list[Change]:
    """Return the changes of the parallelism in a scaling report."""
    return [
        Change(
            vertex=found["vertex"],
            before=int(found["before"]),
            after=int(found["after"]),
            expected=found["expected"],
        )
        for found in _CHANGE.finditer(trouble.values.get("said", ""))
    ]


def task_in(trouble: Trouble, job: JobStarts) -> str | None:
    """Return the name of the task that an event is about, else its vertex ID."""
    found = _VERTEX.search(trouble.values.get("vertex") or trouble.values.get("said", ""))
    if found is None:
        return None
    vertices = job.job.graph.vertices if job.job.graph else ()
    return next((v.task for v in vertices if v.vertex_id == found[0]), found[0])
