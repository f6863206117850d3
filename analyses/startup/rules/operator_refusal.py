"""The Kubernetes Operator reports trouble with a deployment.

What it reports
---------------
Warnings and errors that the operator's log tells of a resource: a refused specification, pods that
crash or cannot pull their image, a lost JobManager, a job that failed for good.

Why it matters
--------------
The pods of such a deployment may never exist, so that there is no other log.

How it decides
--------------
By the operator's own audit lines (`>>> Event`, `>>> Status`). A resource that reaches STABLE, or whose job
reaches RUNNING, after its last trouble has recovered.

What to do
----------
What the message says; `kubectl describe` of the resource and its pods shows the events behind it.

False alarms
------------
Retries that the operator makes by itself; they show as recovered.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from flowdiag.analyses.startup import helpers as h

_BAD: Final = ("operator-event-warning", "operator-status-error")
_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.){1,1000})"')
_QUOTA: Final = re.compile(r"quota|forbidden|Insufficient", re.IGNORECASE)
_IMAGE: Final = re.compile(r"ImagePull|ErrImage|pull", re.IGNORECASE)


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for each resource."""
    groups: dict[str, list[h.Trouble]] = defaultdict(list)
    for trouble in facts.troubles:
        if trouble.kind.startswith("operator-"):
            groups[trouble.resource or ""].append(trouble)
    for resource, told in sorted(groups.items()):
        bad = [trouble for trouble in told if _is_bad(trouble)]
        if bad:
            yield _finding(resource, told, bad)


def _is_bad(trouble: h.Trouble) -> bool:
    return trouble.kind in _BAD or trouble.values.get("state") == "FAILED"


def _is_good(trouble: h.Trouble) -> bool:
    said = trouble.values.get("said", "").rstrip()
    return trouble.values.get("state") == "STABLE" or said.endswith("to RUNNING")


def said_by(trouble: h.Trouble) -> str:
    """The sentence in an audit line; a status error is a JSON document with a message.

    >>> said_by(h.Trouble(kind="operator-status-error", count=1, first_us=None, last_us=None,
    ...     values={"said": '{"type":"x","message":"exceeded quota"}'}))
    'exceeded quota'
    """
    said = trouble.values.get("said", "").strip()
    found = _MESSAGE.search(said)
    return found[1].replace('\\"', '"') if found is not None else said


def _finding(resource: str, told: list[h.Trouble], bad: list[h.Trouble]) -> h.Finding:
    last = max(bad, key=lambda trouble: trouble.last_us or 0)
    recovered = any(
        _is_good(trouble) and (trouble.last_us or 0) > (last.last_us or 0) for trouble in told
    )
    # A warning's reason says more than the status that follows it.
    speaking = next((t for t in reversed(bad) if t.kind == "operator-event-warning"), last)
    reason = speaking.values.get("reason") or last.values.get("state") or "?"
    said = said_by(speaking) or said_by(last)
    remedy = _remedy(f"{speaking.values.get('reason', '')} {said}")
    job = h.Subject(kind="job", job_name=resource.rpartition("/")[2] or None)
    return h.of_troubles(
        None,
        bad,
        ongoing=not recovered,
        subject=job if resource else None,
        title=f"{resource or 'a deployment'}: {reason}: {h.fmt.shorten(said, 100)}",
        why=f"{reason}: {h.fmt.shorten(said, 120)}",
        cause="out-of-memory" if remedy == "memory" else "deployment-failed",
        rank=h.Rank.REPORTED_CAUSE,
        explain=h.explanation("deployment-failed"),
        measurements=(h.measurement("warnings", sum(t.count for t in bad), "records"),),
        actions=h.remedies("deployment-failed", h.UNKNOWN_JOB, remedy),
    )


def _remedy(text: str) -> str:
    if "OOMKILLED" in text.upper():
        return "memory"
    if _IMAGE.search(text):
        return "image"
    if _QUOTA.search(text):
        return "quota"
    return "high-availability" if "HA" in text else "events"


RULE: Final = h.Rule("ST105", judge, whole=True, causes=("deployment-failed", "out-of-memory"))
