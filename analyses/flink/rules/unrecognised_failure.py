"""A failure that flowdiag does not recognize.

What it reports
---------------
An exception, an error or an exit status that no other rule explains. The finding shows the deepest exception with
its message, the software that threw it, and the topmost frame of the job's own code. It also shows how often the
exception occurs, and whether it ended a task, the job or a process. If the exception has a known cause, the
finding names that cause.

Why it matters
--------------
No list of known failures is complete. Even an unknown exception shows where to look first.

How it decides
--------------
A text without any sign of a running job is a fragment. The rule reports every failure in a fragment. A failure is
critical if the text shows that it ended the job, and a warning otherwise.

In the logs of a job, errors are often handled. The rule then reports a failure only if it was logged at ERROR or
above, and the job or a task failed within `window` after it. It ignores the consequences of other failures, such
as canceled tasks, closed connections and stopped processes.

If no rule finds anything, an exception at ERROR also counts if the input shows no completed checkpoint and no
change of the job's state after it.

A failure that was logged once or twice, below ERROR, is only a note if ordinary log lines follow it. So is an exception
in the log of a TaskManager if its tasks kept running for ten seconds or longer. An exception that is logged again and
again shows running tasks if no task fails.

A fatal error that ends a JobManager or a TaskManager counts in any log. In a fragment, exit codes and failed
snapshots count as well.

What to do
----------
Start with the topmost frame of the job's own code, then check the component that threw the exception.

False alarms
------------
In a fragment of a log, a handled error looks like a failure. The finding then has low confidence.
"""

from functools import singledispatch
from typing import Any, Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.advice import unrecognized as u
from flowdiag.analyses.flink.job import UNKNOWN_JOB
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.knowledge.unknown_failures import (
    GROUPS,
    UNRECOGNIZED,
    FailureGroup,
    failure_groups,
)


class Unrecognized(h.Limits):
    """Thresholds of CP314."""

    window: float = h.limit(
        60, "s", "maximum time from the logged failure to the job's; heartbeats time out by then"
    )


@singledispatch
def judge(facts: Any, limits: Unrecognized) -> h.Iterator[h.Finding]:
    """Report each kind of failure of each job."""
    raise TypeError(f"no topic judges {type(facts).__name__}")


@judge.register
def judge_failures(facts: h.ClusterFacts, limits: Unrecognized) -> h.Iterator[h.Finding]:
    """Report each kind of failure of each job."""
    jobs = h.jobs_of(facts)
    handled = u.handled_spans(facts)
    for job in jobs:
        found = u.failures_of(job, limits.window)
        for group in u.groups_of(found, job.incidents, handled)[:GROUPS]:
            yield _finding(job, group)
    if not any(u.shows_work(job) for job in jobs):
        crises = [crisis for job in jobs for crisis in job.crises]
        unassigned = u.failures_of_fragment(UNKNOWN_JOB, crises, facts.incidents)
        for group in u.groups_of(unassigned, facts.incidents, handled)[:GROUPS]:
            yield _finding(UNKNOWN_JOB, group)


def judge_rest(facts: Any, limits: Unrecognized) -> h.Iterator[h.Finding]:
    """Report each kind of failure in a fragment, even if another rule would report it, given more input.

    Even a consequence of another failure is better than no finding. If the job ran, only the errors count after which
    the input shows no sign that the job continued.
    """
    common = getattr(facts, "common", facts)
    jobs = h.jobs_of(common)
    handled = u.handled_spans(common)
    failures = u.failures_of_rest(jobs, common.incidents)
    occurrences = (u.occurrence_of(one, handled) for one in failures)
    for group in failure_groups(occurrences)[:GROUPS]:
        yield _finding(jobs[0] if len(jobs) == 1 else UNKNOWN_JOB, group)


def _finding(job: h.JobFacts, group: FailureGroup) -> h.Finding:
    known = group.cause != UNRECOGNIZED
    place = group.first.place or "the process"
    about = h.with_version_of(job, group.first.failure)
    advice = h.remedies(group.cause, about, *group.remedies, place=place) if known else ()
    fields = group.finding_fields(advice)
    last = group.times[1]
    runs_after = isinstance(job, h.Job) and last is not None and job.completed_after(last)
    if group.ended == "jobmanager" and runs_after:
        fields["severity"], fields["state"] = h.Severity.WARNING, h.State.RECOVERED
    return h.job_finding(job, **fields)


RULE: Final = h.Rule(
    "CP314",
    judge,
    Unrecognized,
    whole=True,
    causes=(UNRECOGNIZED, *dict.fromkeys(word for word, _ in CAUSE_OF_CLASS.values())),
    needs="dated-records",
    last_resort=judge_rest,
    severity=h.Severity.CRITICAL,
)
