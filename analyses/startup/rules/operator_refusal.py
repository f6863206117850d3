"""The Kubernetes Operator reports problems with a deployment.

What it reports
---------------
The rule reports warnings and errors about a resource in the operator's log. Examples are a rejected
specification, pods that crash or cannot pull their image, a lost JobManager, and a job that failed for good.

Why it matters
--------------
If Kubernetes never creates the pods, the operator's log is the only log.

How it decides
--------------
The rule reads the operator's audit lines (`>>> Event`, `>>> Status`). A resource has recovered if it reaches
STABLE, or its job reaches RUNNING, after the last warning or error.

What to do
----------
Fix the problem that the message describes. Run `kubectl describe` on the resource and its pods to see the
underlying events.

False alarms
------------
The operator retries some failures on its own. If a retry succeeds, the rule reports the resource as
recovered.
"""

import re
from collections import defaultdict
from typing import Final

from flowdiag.analyses.startup import autoscaling
from flowdiag.analyses.startup import helpers as h

_BAD: Final = ("operator-event-warning", "operator-status-error")
_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.){1,1000})"')
_QUOTA: Final = re.compile(r"quota|forbidden|Insufficient", re.IGNORECASE)
_IMAGE: Final = re.compile(r"ImagePull|ErrImage|pull", re.IGNORECASE)


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each resource with a problem."""
    groups: dict[str, list[h.Trouble]] = defaultdict(list)
    for trouble in facts.troubles:
        # The autoscaler's events are not refusals (see ST403 and ST404).
        if trouble.kind.startswith("operator-") and autoscaling.reason_of(trouble) is None:
            groups[trouble.resource or ""].append(trouble)
    for resource, troubles in sorted(groups.items()):
        bad = [t for t in troubles if t.kind in _BAD or t.values.get("state") == "FAILED"]
        if bad:
            yield _finding(resource, troubles, bad)


def _reports_running_job(trouble: h.Trouble) -> bool:
    message = trouble.values.get("said", "").rstrip()
    return trouble.values.get("state") == "STABLE" or message.endswith("to RUNNING")


def message_of(trouble: h.Trouble) -> str:
    """Return the message of an audit line. If the line reports an error status, a JSON document contains the message.

    >>> message_of(h.Trouble(kind="operator-status-error", count=1, first_us=None, last_us=None,
    ...     values={"said": '{"type":"x","message":"exceeded quota"}'}))
    'exceeded quota'
    """
    text = trouble.values.get("said", "").strip()
    found = _MESSAGE.search(text)
    return found[1].replace('\\"', '"') if found is not None else text


def _finding(resource: str, troubles: list[h.Trouble], bad: list[h.Trouble]) -> h.Finding:
    last = max(bad, key=lambda trouble: trouble.last_us or 0)
    recovered = max((t.last_us or 0 for t in troubles if _reports_running_job(t)), default=0)
    # The reason in a warning is more specific than the status that follows it.
    described = next((t for t in reversed(bad) if t.kind == "operator-event-warning"), last)
    reason = described.values.get("reason") or last.values.get("state") or "?"
    message = message_of(described) or message_of(last)
    remedy = _remedy(f"{described.values.get('reason', '')} {message}")
    subject, name = None, "a deployment"
    if resource:
        subject = h.Subject(kind="job", job_name=resource.rpartition("/")[2] or None)
        name = resource
    return h.trouble_finding(
        None,
        bad,
        ongoing=recovered <= (last.last_us or 0),
        subject=subject,
        title=f"{name}: {reason}: {h.fmt.shorten(message, 100)}",
        why=f"{reason}: {h.fmt.shorten(message, 120)}",
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


RULE: Final = h.Rule(
    "ST105",
    judge,
    whole=True,
    causes=("deployment-failed", "out-of-memory"),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
