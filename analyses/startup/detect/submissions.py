"""Finds failed submissions, and the reasons logged by clients and the JobManager."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.knowledge.message_advice import with_advice
from flowdiag.analyses.startup import helpers as h
from flowdiag.parsers.exceptions import classify

NO_REASON: Final = "no reason is logged"
_RAN: Final = re.compile(
    r"Job execution failed|Job failed[. (]|JobCancellationException|Job was cancelled|"
    r"NoRestartBackoffTimeStrategy|Recovery is suppressed"
)


OF_YARN: Final = (
    "yarn-request-too-large",
    "yarn-largest-container",
    "yarn-too-little-free",
    "yarn-queue-missing",
)


_OF_MAIN_METHODS: Final = (
    "application-failed",
    "application-not-executed",
    "rest-request-failed",
    "rest-handler-failed",
)


def is_submission(facts: h.StartupFacts, trouble: h.Trouble) -> bool:
    if _RAN.search(" ".join(filter(None, [trouble.cause, trouble.values.get("exception")]))):
        return False
    accepted = facts.accepted_us.get(trouble.source) if trouble.source is not None else None
    if accepted is not None and (trouble.first_us or 0) >= accepted:
        return False
    if trouble.kind in _OF_MAIN_METHODS:
        # Once a job was scheduled, its own failures are more specific.
        return not any(start.tasks for job in facts.jobs for start in job.starts)
    return True


def yarn_text(trouble: h.Trouble) -> str:
    values = trouble.values
    if trouble.kind == "yarn-queue-missing":
        return f"queue '{values.get('queue')}' does not exist"
    requested = values.get("asked") or f"{values.get('asked_mb')} MB"
    offered = values.get("offered") or f"{values.get('offered_mb')} MB"
    return f"{requested} requested, {offered} offered"


def cause_of(reason: str, also: tuple[str, ...] = ()) -> str:
    """Return the cause of a failed submission. A lack of memory links the finding to the finding about the process.

    Args:
        reason: the exception text.
        also: more causes that the exception may show, depending on what failed: a cluster, a job or its submission.
    """
    found = classify([reason], "flink")
    cause = cause_of_class(None if found is None else found.name, "submission-failed")[0]
    return cause if cause in ("out-of-memory", *also) else "submission-failed"


OF_CLUSTERS: Final = ("storage-failure", "service-unreachable", "class-loading")
"""Causes that prevent a cluster from starting."""
OF_JOBS: Final = ("service-unreachable",)
"""Causes that keep the JobManager from starting a job. The client of a submission may only fail to reach the JobManager."""


def actions_against(reason: str, also: tuple[str, ...] = ()) -> tuple[h.Action, ...]:
    known = h.remedies("submission-failed", h.UNKNOWN_JOB, *_remedies(reason))
    found, cause = classify([reason], "flink"), cause_of(reason, also)
    if found is not None and cause in also:
        known = h.remedies(cause, h.UNKNOWN_JOB, *cause_of_class(found.name, "")[1])
    return known if reason == NO_REASON else with_advice(known, reason)


def _remedies(reason: str) -> tuple[str, ...]:
    if reason == NO_REASON:
        return ("ask",)
    if re.search(r"avepoint|checkpoint", reason) and re.search(r"FileNotFound|Cannot find", reason):
        return "path", "reason"
    if re.search(r"Cannot map .*state|no operator|allowNonRestoredState", reason):
        return "uids", "reason"
    return ("reason",)
