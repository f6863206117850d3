"""A submission failed before anything was scheduled.

What it reports
---------------
- Submissions that failed in the client. For example, the job's main() throws an exception, the client
  cannot reach the cluster, or YARN rejects the request.
- Submissions that failed in the Dispatcher or during the creation of the JobMaster. For example, a savepoint
  is missing, or its state does not match the job.
- JobManager processes (cluster entry points) that end before they become leader.

Why it matters
--------------
The Web UI shows no job. The only record is a stack trace in one log.

How it decides
--------------
The rule reads the logs of the client and the JobManager. It reports the deepest cause of the stack trace as the
reason. If the client waits for its job and reports a failure of the running job, the submission itself succeeded.
If the logs do not show the start of a job, the rule also counts a pasted exception that prevents a job from
running.

What to do
----------
Fix the deepest cause, then submit again.

False alarms
------------
A user may submit a job with wrong arguments and then correct them. The rule reports the failed submission
as recovered.
"""

from typing import Final

from flowdiag.analyses.flink.advice.exception_texts import exception_measurements, option_actions
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS, cause_of_class
from flowdiag.analyses.knowledge.message_advice import with_advice
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect import submissions as s
from flowdiag.analyses.startup.failures import KEEPS, keeps_from_running

# Most specific first: the JobManager's records come before the client's.
_KINDS: Final = (
    "entrypoint-failed",
    "job-submission-failed",
    "application-failed",
    "application-not-executed",
    "client-failed",
    "rest-request-failed",
    "rest-handler-failed",
)
_KEEPING: Final = tuple(sorted({CAUSE_OF_CLASS[name][0] for name in KEEPS}))
_ALSO: Final = {
    "entrypoint-failed": s.OF_CLUSTERS,
    # The client may only fail to reach the JobManager.
    "client-failed": _KEEPING,
}
_OF_SUBMISSIONS: Final = (*s.OF_CLUSTERS, *_KEEPING)
_WORDS: Final = {
    "entrypoint-failed": "The cluster failed to start",
    "client-failed": "The client could not submit",
}


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each rejected job and, if no job is known, the failed submissions."""
    troubles = [trouble for kind in _KINDS for trouble in facts.of_kind(kind)]
    # The job failed for good before any task was scheduled.
    failed = (job for job in facts.jobs if job.ended == "FAILED")
    refused = [job for job in failed if not any(start.tasks for start in job.starts)]
    if refused:
        yield from (_job_finding(facts, job, troubles) for job in refused)
        return
    for job in facts.jobs:
        if not job.starts:
            yield from _exception_findings(job)
    if submissions := [trouble for trouble in troubles if s.is_submission(facts, trouble)]:
        yield _trouble_finding(facts, submissions)


def _job_finding(facts: h.StartupFacts, job: h.JobStarts, troubles: list[h.Trouble]) -> h.Finding:
    # Up to Flink 1.12, only the client's log contains the reason; the record of the JobMaster's end does not.
    troubles = [trouble for trouble in troubles if trouble.cause]
    reason = job.ended_cause or next((t.cause for t in troubles if t.cause), s.NO_REASON)
    name = job.job.name or job.job.key.job_id
    return h.start_finding(
        job,
        ongoing=not h.ran_after(facts, job.ended_us),
        title=f"{h.fmt.shorten(name, 40)} was rejected: {h.fmt.shorten(reason, 160)}",
        why=h.fmt.shorten(reason, 160),
        cause=s.cause_of(reason, s.OF_JOBS),
        rank=h.Rank.ROOT_CAUSE,
        first_us=job.ended_us,
        measurements=(h.measurement("submissions", 1, "submissions"),),
        evidence=h.cite([(job.ended_ref, job.ended_us), *((t.ref, t.first_us) for t in troubles)]),
        ranked=True,
        actions=s.actions_against(reason, s.OF_JOBS),
    )


def _exception_findings(job: h.JobStarts) -> h.Iterator[h.Finding]:
    """Yield one finding per cause for pasted exceptions of a job whose start is unknown."""
    by_class: dict[str, list[h.Incident]] = {}
    for incident in job.job.incidents:
        if (name := keeps_from_running(incident)) is not None:
            by_class.setdefault(name, []).append(incident)
    for name, incidents in by_class.items():
        cause, names = cause_of_class(name, "submission-failed")
        whole = incidents[-1].cause or "no reason is given"
        text = h.fmt.shorten(whole, 300)
        known = h.remedies(cause, h.with_version_of(job.job, text), *names)
        yield h.start_finding(
            job,
            ongoing=True,
            title=f"{h.fmt.capital(CAUSES[cause].meaning)}: {without_package(text)}",
            why=text,
            cause=cause,
            rank=h.Rank.ROOT_CAUSE,
            first_us=incidents[0].time_us,
            last_us=incidents[-1].time_us,
            count=len(incidents),
            explain=CAUSES[cause].explanation,
            measurements=tuple(exception_measurements(classify_incident(incidents[-1]))),
            evidence=h.cite((one.ref, one.time_us) for one in incidents),
            actions=with_advice(
                (*known, *option_actions(classify_incident(incidents[-1]), known)), whole, text
            ),
        )


def _trouble_finding(facts: h.StartupFacts, troubles: list[h.Trouble]) -> h.Finding:
    first = troubles[0]
    reason = first.cause or first.values.get("exception") or s.NO_REASON
    what = _WORDS.get(first.kind, "The submission failed")
    also = _ALSO.get(first.kind, _OF_SUBMISSIONS)
    yarn = facts.of_kind(*s.OF_YARN)
    hint = f"; YARN: {s.yarn_text(yarn[0])}" if yarn else ""
    count = max(trouble.count for trouble in troubles)
    return h.trouble_finding(
        None,
        troubles,
        ongoing=not h.ran_after(facts, max(t.last_us or 0 for t in troubles)),
        title=f"{what}: {without_package(h.fmt.shorten(reason, 400))}{hint}",
        why=h.fmt.shorten(reason, 160),
        cause=s.cause_of(reason, also),
        rank=h.Rank.ROOT_CAUSE,
        last_us=None,
        count=count,  # client, Dispatcher and JobMaster log the same submissions
        measurements=(h.measurement("submissions", count, "submissions"),),
        evidence=h.cite((t.ref, t.first_us) for t in (*troubles, *yarn)),
        actions=s.actions_against(reason, also),
    )


RULE: Final = h.Rule(
    "ST103",
    judge,
    whole=True,
    causes=tuple(
        dict.fromkeys(
            (
                "submission-failed",
                "out-of-memory",
                *s.OF_CLUSTERS,
                *(CAUSE_OF_CLASS[name][0] for name in sorted(KEEPS)),
            )
        )
    ),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
