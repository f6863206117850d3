"""A class is missing, or has the wrong version.

What it reports
---------------
Submissions and tasks that fail because a class or method is missing, or because a class has the wrong
version. This includes classes that were compiled for a newer Java version.

Why it matters
--------------
No restart helps: the job fails until its JAR, or the cluster's `lib/`, changes.

How it decides
--------------
The rule looks for Java's linkage errors as the deepest or outermost cause of a failed task or
submission.

What to do
----------
The fix depends on the error. Package a missing class in the job's JAR, or put it in `lib/` if its scope is
`provided`. If a method is missing, two versions of a library are on the class path: remove or
relocate one.

False alarms
------------
A NoClassDefFoundError also follows an exception in the static initializer of a class. The first error in
the log of the TaskManager shows that exception.
"""

from typing import Final

from flowdiag.analyses.flink.failures.linkage import linkage
from flowdiag.analyses.startup import helpers as h

_TITLES: Final = {
    "main": "Main class {} was not found",
    "missing": "{} is not found",
    "conflict": "Two versions of a class: {}",
    "java": "Compiled for a newer Java version: {}",
}
_Text = tuple[str, int | None, h.Ref | None, h.JobStarts | None]  # text, time, record, job


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each class that is missing or has the wrong version."""
    groups: dict[tuple[str, str], list[_Text]] = {}
    for text in _failure_texts(facts):
        if (error := linkage(text[0])) is not None:
            groups.setdefault(error, []).append(text)
    for (kind, name), group in groups.items():
        times = [time_us for _, time_us, _, _ in group if time_us is not None]
        job = next((job for _, _, _, job in group if job is not None), None)
        title = _TITLES[kind].format(h.fmt.shorten(name, 90))
        yield h.start_finding(
            job,
            ongoing=not h.ran_after(facts, max(times, default=None), whole=True),
            title=title,
            why=title,
            cause="class-loading",
            rank=h.Rank.FATAL,
            first_us=min(times, default=None),
            last_us=max(times, default=None),
            count=len(group),
            measurements=(h.measurement("failures", len(group), "failures"),),
            evidence=h.cite((ref, time_us) for _, time_us, ref, _ in group),
            ranked=True,
            actions=h.remedies("class-loading", job.job if job else h.UNKNOWN_JOB, kind),
        )


def _failure_texts(facts: h.StartupFacts) -> h.Iterator[_Text]:
    """Yield every text that may name a class: failures and ends of jobs, and problems of processes."""
    for job in facts.jobs:
        for incident in job.job.incidents:
            yield h.failure_text(incident) or "", incident.time_us, incident.ref, job
        yield job.ended_cause or "", job.ended_us, job.ended_ref, job
    for trouble in facts.troubles:
        text = h.join_texts(trouble.cause, trouble.values.get("exception"))
        yield text, trouble.first_us, trouble.ref, None


RULE: Final = h.Rule(
    "ST104",
    judge,
    whole=True,
    causes=("class-loading",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
