"""A submission failed before anything was scheduled.

What it reports
---------------
Submissions that failed in the client (main() of the job throws, the cluster cannot be reached, YARN does
not give what is asked for), in the Dispatcher, or while the JobMaster was made (a savepoint that is not
there, state that does not fit), and entry points that end before they lead anything.

Why it matters
--------------
There is no job to look at in the web interface: all that is left is a stack trace in one log.

How it decides
--------------
By the client's and the JobManager's own words for it; the deepest cause of the stack trace is the reason. A
client that waits for its job and reports that job's failure is no failed submission.

What to do
----------
Mend what the deepest cause says, then submit again.

False alarms
------------
Somebody tried with wrong arguments and did better in the next attempt: then it is reported as recovered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule
from flowdiag.analyses.startup.facts import JobStarts, StartupFacts, Trouble

# Nearest to the reason first: what the JobManager says before what a client was told.
_KINDS: Final = (
    "entrypoint-failed",
    "job-submission-failed",
    "application-failed",
    "client-failed",
    "rest-request-failed",
    "rest-handler-failed",
)
_RAN: Final = re.compile(
    r"Job execution failed|Job failed[. (]|JobCancellationException|Job was cancelled|"
    r"NoRestartBackoffTimeStrategy|Recovery is suppressed"
)
_OF_YARN: Final = (
    "yarn-request-too-large",
    "yarn-largest-container",
    "yarn-too-little-free",
    "yarn-queue-missing",
)


def judge(facts: StartupFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding for each job that was refused, else one for the submissions without a job."""
    refused = [job for job in facts.jobs if _refused(job)]
    for job in refused:
        yield _of_job(facts, job)
    if refused:
        return
    troubles = [
        trouble
        for kind in _KINDS
        for trouble in facts.of_kind(kind)
        if _is_submission(facts, trouble)
    ]
    if troubles:
        yield _of_troubles(facts, troubles)


def _refused(job: JobStarts) -> bool:
    """Failed for good, and no task ever got a state."""
    return job.ended == "FAILED" and not any(start.tasks for start in job.starts)


def _is_submission(facts: StartupFacts, trouble: Trouble) -> bool:
    told = " ".join(filter(None, [trouble.cause, trouble.values.get("exception")]))
    if _RAN.search(told):
        return False
    accepted = facts.accepted_us.get(trouble.source) if trouble.source is not None else None
    if accepted is not None and (trouble.first_us or 0) >= accepted:
        return False
    if trouble.kind in ("application-failed", "rest-request-failed", "rest-handler-failed"):
        # Where a job was scheduled meanwhile, its own failures say more.
        return not any(start.tasks for job in facts.jobs for start in job.starts)
    return True


def _later_start(facts: StartupFacts, time_us: int | None) -> bool:
    return any(
        start.running_us is not None and start.running_us > (time_us or 0)
        for job in facts.jobs
        for start in job.starts
    )


def _of_job(facts: StartupFacts, job: JobStarts) -> Finding:
    # Up to 1.12 the JobMaster's end says no reason; whoever sent the job was told.
    told = [t for kind in _KINDS for t in facts.of_kind(kind) if t.cause]
    said = job.ended_cause or next((t.cause for t in told if t.cause), "no reason is logged")
    name = job.job.name or job.job.key.job_id
    return _finding(
        said,
        title=f"{j.shorten(name, 40)} was refused: {j.shorten(said, 100)}",
        subject=Subject(kind="job", job_id=job.job.key.job_id or None, job_name=job.job.name),
        key_of=job,
        refs=[(job.ended_ref, job.ended_us), *((t.ref, t.first_us) for t in told[:3])],
        recovered=_later_start(facts, job.ended_us),
        first_us=job.ended_us,
        count=1,
    )


def _of_troubles(facts: StartupFacts, troubles: list[Trouble]) -> Finding:
    first = troubles[0]
    said = first.cause or first.values.get("exception") or "no reason is logged"
    what = {
        "entrypoint-failed": "The cluster does not start",
        "client-failed": "The client could not submit",
    }.get(first.kind, "The submission failed")
    yarn = facts.of_kind(*_OF_YARN)
    hint = f"; YARN: {_yarn_text(yarn[0])}" if yarn else ""
    return _finding(
        said,
        title=f"{what}: {j.shorten(said, 110)}{hint}",
        subject=Subject(kind="process"),
        key_of=None,
        refs=[(t.ref, t.first_us) for t in (*troubles, *yarn)],
        recovered=_later_start(facts, max(t.last_us or 0 for t in troubles)),
        first_us=min((t.first_us for t in troubles if t.first_us is not None), default=None),
        count=max(t.count for t in troubles),
    )


def _yarn_text(trouble: Trouble) -> str:
    values = trouble.values
    if trouble.kind == "yarn-queue-missing":
        return f"queue '{values.get('queue')}' does not exist"
    asked = values.get("asked") or f"{values.get('asked_mb')} MB"
    offered = values.get("offered") or f"{values.get('offered_mb')} MB"
    return f"{asked} asked for, {offered} offered"


def _finding(
    said: str,
    *,
    title: str,
    subject: Subject,
    key_of: JobStarts | None,
    refs: list[tuple[Ref | None, int | None]],
    recovered: bool,
    first_us: int | None,
    count: int,
) -> Finding:
    return Finding(
        job=key_of.job.key if key_of is not None else None,
        severity=Severity.WARNING if recovered else Severity.CRITICAL,
        state=State.RECOVERED if recovered else State.ONGOING,
        subject=subject,
        title=title,
        why=j.shorten(said, 160),
        cause="submission-failed",
        rank=Rank.ROOT_CAUSE,
        first_us=first_us,
        count=count,
        explain="No task was scheduled: the deepest cause of the stack trace is the reason.",
        measurements=(Measurement(name="submissions", value=count, unit="submissions"),),
        evidence=cite(refs),
        ranked=True,
        actions=tuple(_actions(said)),
    )


def _actions(said: str) -> Iterator[Action]:
    if re.search(r"avepoint|checkpoint", said) and re.search(r"FileNotFound|Cannot find", said):
        yield Action(
            text="Name a savepoint or checkpoint that exists, with its _metadata, readable by the "
            "JobManager",
            option="execution.savepoint.path",
        )
    elif re.search(r"Cannot map .*state|no operator|allowNonRestoredState", said):
        yield Action(
            text="Give operators the uid that they had, or allow state to be left behind",
            option="execution.savepoint.ignore-unclaimed-state",
            proposed="true",
            risk="the state of operators that are gone is lost",
        )
    yield Action(text="Mend what the deepest cause says, then submit again")


RULE: Final = Rule("ST103", judge, whole=True)
