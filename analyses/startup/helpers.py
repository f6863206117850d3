"""All that a rule of `flowdiag startup` needs, under one import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowdiag.analyses.flink.helpers import explanation, measurement, remedies, votes_for
from flowdiag.analyses.flink.job import UNKNOWN_JOB, Incident
from flowdiag.analyses.knowledge.option_types import shown, write
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Finding,
    Present,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.rule import Limits, Rule, Signal, limit
from flowdiag.analyses.startup.facts import (
    JobStarting,
    JobStarts,
    Start,
    StartupFacts,
    Step,
    TaskTimes,
    Trouble,
    Worker,
)
from flowdiag.analyses.startup.failures import failure_text, incidents_of, joined
from flowdiag.analyses.startup.frames import oversized

Cited = list[tuple[Ref | None, int | None]]
"""Records and when they were written, as `cite` takes them."""

STEP_WORDS: Final = {
    "client": "the client's part, main() of the job in it,",
    "operator": "the deployment by the Kubernetes Operator",
    "cluster-allocation": "the allocation of the cluster",
    "rpc": "the start of the JobManager's RPC",
    "rest": "the start of the REST endpoint",
    "leadership": "the election of a leader",
    "submission": "the submission",
    "resource-manager": "the registration at the ResourceManager",
    "back-off": "the wait before a restart",
    "registration": "the registration of a TaskManager",
    "slots": "the wait for slots",
    "workers": "the start of workers",
    "restore": "reading state back",
    "deployment": "the deployment of the tasks",
    "initialisation": "the initialisation of the tasks",
    "first-checkpoint": "the first checkpoint",
}
"""Steps of a start in a sentence."""


def _finding(job: JobKey | None, subject: Subject, ongoing: bool, said: dict[str, Any]) -> Finding:
    """What stops a start is critical for as long as it lasts; the cause explains itself."""
    if "explain" not in said:
        said["explain"] = explanation(said["cause"])
    usual = Severity.CRITICAL if ongoing else Severity.WARNING
    return Finding(
        job=job,
        subject=subject,
        severity=said.pop("severity", usual),
        state=said.pop("state", State.ONGOING if ongoing else State.RECOVERED),
        **said,
    )


def job_subject(job: JobStarts | None, kind: str = "job", **more: Any) -> Subject:
    """The job, or something of it."""
    if job is None:
        return Subject(kind=kind, **more)
    return Subject(kind=kind, job_id=job.job.key.job_id or None, job_name=job.job.name, **more)


def of_start(
    job: JobStarts | None, *, ongoing: bool, subject: Subject | None = None, **said: Any
) -> Finding:
    """A finding about the starts of a job.

    Args:
        job: whose verdict counts it; None: of no known job.
        ongoing: whether it lasts at the end of the input: critical then, a warning else.
        subject: who it is about; None: the job itself.
        said: the other fields of `Finding`; without `explain` the cause's own explanation.
    """
    whose = job.job.key if job is not None else None
    return _finding(whose, subject or job_subject(job), ongoing, said)


def of_cluster(
    facts: StartupFacts | None, *, ongoing: bool, subject: Subject | None = None, **said: Any
) -> Finding:
    """A finding about something that no log ties to a job: the only job there is counts it.

    Args:
        facts: None: it is not known to be of these jobs.
        ongoing, said: as in `of_start`.
        subject: who it is about; None: a process.
    """
    only = facts.jobs[0].job.key if facts is not None and len(facts.jobs) == 1 else None
    return _finding(only, subject or Subject(kind="process"), ongoing, said)


def of_troubles(
    facts: StartupFacts | None, troubles: Sequence[Trouble], *, ongoing: bool, **said: Any
) -> Finding:
    """A finding about troubles of processes: times, count and records follow from them."""
    usual = {
        "first_us": min((t.first_us for t in troubles if t.first_us is not None), default=None),
        "last_us": max((t.last_us for t in troubles if t.last_us is not None), default=None),
        "count": sum(trouble.count for trouble in troubles),
        "evidence": cite((t.ref, t.first_us) for t in troubles),
        "ranked": True,
    }
    return of_cluster(facts, ongoing=ongoing, **(usual | said))


def of_worker(facts: StartupFacts, name: str | None, host: str | None, **said: Any) -> Finding:
    """A finding about a TaskManager; `said` as in `of_cluster`."""
    subject = Subject(kind="taskmanager", taskmanager=name, host=host)
    return of_cluster(facts, subject=subject, **said)


def ran_after(facts: StartupFacts, time_us: int | None, *, whole: bool = False) -> bool:
    """Whether a job got to RUNNING after that time; `whole`: in a start that did not fail later."""
    return any(
        start.running_us is not None
        and start.running_us > (time_us or 0)
        and not (whole and start.failed_us is not None)
        for job in facts.jobs
        for start in job.starts
    )
