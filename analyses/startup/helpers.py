"""Everything that the rules of `flowdiag startup` need, available through one import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Unpack

from flowdiag.analyses.flink.helpers import (
    explanation,
    measurement,
    remedies,
    votes_for,
    with_version_of,
)
from flowdiag.analyses.flink.job import UNKNOWN_JOB, Incident
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    CurrentValue,
    Finding,
    FindingFields,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.option_types import shown, write
from flowdiag.analyses.model.rule import Limits, Rule, limit
from flowdiag.analyses.model.signals import Signal
from flowdiag.analyses.startup.facts import (
    Initialization,
    JobStarting,
    JobStarts,
    Rescale,
    Start,
    StartupFacts,
    Step,
    TaskTimes,
    Trouble,
    Worker,
)
from flowdiag.analyses.startup.failures import failure_text, incidents_of, join_texts
from flowdiag.analyses.startup.frames import oversized_messages

Cited = list[tuple[Ref | None, int | None]]
"""Records with their times, as input for `cite`."""

STEP_WORDS: Final = {
    "client": "the client, including the job's main(),",
    "operator": "the deployment by the Kubernetes Operator",
    "cluster-allocation": "the cluster allocation",
    "rpc": "the start of the JobManager's RPC",
    "rest": "the start of the REST endpoint",
    "leadership": "the leader election",
    "submission": "the submission",
    "resource-manager": "the registration with the ResourceManager",
    "back-off": "the wait before a restart",
    "registration": "the registration of a TaskManager",
    "slots": "the wait for slots",
    "workers": "the start of workers",
    "restore": "the restore of state",
    "deployment": "the deployment of the tasks",
    "initialization": "the initialization of the tasks",
    "first-checkpoint": "the first checkpoint",
}
"""The steps of a start, as they appear in sentences."""


def job_subject(job: JobStarts | None, kind: str = "job", **place: Any) -> Subject:
    """Return a subject for the job. `place` sets other fields of `Subject`."""
    if job is None:
        return Subject(kind=kind, **place)
    return Subject(kind=kind, job_id=job.job.key.job_id or None, job_name=job.job.name, **place)


def start_finding(
    job: JobStarts | None,
    *,
    ongoing: bool,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about the starts of a job.

    Args:
        job: the job whose verdict includes the finding; None if it is unknown.
        ongoing: whether the problem persists at the end of the input, which makes it critical instead of a warning.
        subject: the culprit; None for the job itself.
        overrides: other fields of `Finding`. `explain` defaults to the explanation of the cause.
    """
    key = job.job.key if job is not None else None
    return _finding(key, subject or job_subject(job), ongoing, overrides)


def cluster_finding(
    facts: StartupFacts | None,
    *,
    ongoing: bool,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding that no log assigns to a job. If there is only one job, it counts for that job's verdict.

    Args:
        facts: None if the finding may belong to other jobs.
        ongoing, overrides: as in `start_finding`.
        subject: the culprit; None for a process.
    """
    only = facts.jobs[0].job.key if facts is not None and len(facts.jobs) == 1 else None
    return _finding(only, subject or Subject(kind="process"), ongoing, overrides)


def trouble_finding(
    facts: StartupFacts | None,
    troubles: Sequence[Trouble],
    *,
    ongoing: bool,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about troubles of processes, with their times, count and records."""
    found: FindingFields = {
        "first_us": min((t.first_us for t in troubles if t.first_us is not None), default=None),
        "last_us": max((t.last_us for t in troubles if t.last_us is not None), default=None),
        "count": sum(trouble.count for trouble in troubles),
        "evidence": cite((t.ref, t.first_us) for t in troubles),
        "ranked": True,
    }
    found.update(overrides)
    return cluster_finding(facts, ongoing=ongoing, subject=subject, **found)


def worker_finding(
    facts: StartupFacts,
    name: str | None,
    host: str | None,
    *,
    ongoing: bool,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about a TaskManager; the other arguments are the same as for `cluster_finding`."""
    subject = Subject(kind="taskmanager", taskmanager=name, host=host)
    return cluster_finding(facts, ongoing=ongoing, subject=subject, **overrides)


def _finding(
    job: JobKey | None, subject: Subject, ongoing: bool, overrides: FindingFields
) -> Finding:
    """Return a finding with the explanation of its cause, critical while the problem lasts."""
    found: FindingFields = {
        "severity": Severity.CRITICAL if ongoing else Severity.WARNING,
        "state": State.ONGOING if ongoing else State.RECOVERED,
    }
    if "explain" not in overrides:
        found["explain"] = explanation(overrides["cause"] or "")
    found.update(overrides)
    return Finding(job=job, subject=subject, **found)


def ran_after(facts: StartupFacts, time_us: int | None, *, whole: bool = False) -> bool:
    """Return whether a job reached RUNNING after a time. With `whole`, only starts that did not fail later count."""
    return any(
        start.running_us is not None
        and start.running_us > (time_us or 0)
        and not (whole and start.failed_us is not None)
        for job in facts.jobs
        for start in job.starts
    )
