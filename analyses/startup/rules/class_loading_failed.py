"""A class is missing, or of another version.

What it reports
---------------
Submissions and tasks that fail since a class or a method is not found, is of another version than it was
compiled against, or was made for a newer Java.

Why it matters
--------------
No restart mends it: the job fails until its jar, or the cluster's `lib/`, is another one.

How it decides
--------------
By the class names of Java's linkage errors, as deepest or outermost cause of a failed task or submission.

What to do
----------
Depends on the error: a missing class belongs into the job's jar (or into `lib/` where it is provided), a
missing method means two versions of a library.

False alarms
------------
A NoClassDefFoundError also follows an exception in a class's static initialiser: the first one in the log of
that TaskManager names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

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
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule
from flowdiag.analyses.startup.facts import StartupFacts

_MISSING: Final = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError|Cannot load user class)(?:: (?P<name>[\w.$/\[;-]{1,300}))?"
)
_CONFLICT: Final = re.compile(
    r"(?:NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError"
    r"|InvalidClassException|loader constraint violation|local class incompatible"
    r"|ClassCastException: cannot assign instance)(?:: (?P<name>[^\n]{1,300}))?"
)
_JAVA: Final = re.compile(r"UnsupportedClassVersionError(?:: (?P<name>[^\n]{1,300}))?")
_ADVICE: Final = {
    "missing": "Pack the class into the job's jar, or put its jar into lib/ of every process; a class "
    "that Flink provides must not be packed twice",
    "conflict": "Find the two versions of the library (mvn dependency:tree, and lib/), keep one or "
    "relocate it",
    "java": "Compile for the Java that runs the cluster, or run the cluster on a newer Java",
}


class _Hit(NamedTuple):
    kind: str
    what: str
    time_us: int | None
    ref: Ref | None
    job: JobFacts | None
    incident: Incident | None


def linkage(text: str) -> tuple[str, str] | None:
    """The kind of linkage error that a text names, and of what; None for any other text.

    >>> linkage("java.lang.NoClassDefFoundError: com/acme/Price")
    ('missing', 'com/acme/Price')
    >>> linkage("java.lang.IllegalStateException: price is negative")
    """
    for kind, pattern in (("java", _JAVA), ("missing", _MISSING), ("conflict", _CONFLICT)):
        found = pattern.search(text[:16_384])
        if found is not None:
            return kind, found["name"] or found[0]
    return None


def judge(facts: StartupFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding for each class."""
    groups: dict[tuple[str, str], list[_Hit]] = {}
    for hit in _hits(facts):
        groups.setdefault((hit.kind, hit.what), []).append(hit)
    for hits in groups.values():
        yield _finding(facts, hits)


def _hits(facts: StartupFacts) -> Iterator[_Hit]:
    for job in facts.jobs:
        for incident in job.job.incidents:
            if incident.kind not in ("task-failure", "job-failing", "job-failure"):
                continue
            text = "\n".join(filter(None, [incident.cause, incident.text.get("exception")]))
            found = linkage(text)
            if found is not None:
                yield _Hit(*found, incident.time_us, incident.ref, job.job, incident)
        if job.ended_cause and (found := linkage(job.ended_cause)) is not None:
            yield _Hit(*found, job.ended_us, job.ended_ref, job.job, None)
    for trouble in facts.troubles:
        text = "\n".join(filter(None, [trouble.cause, trouble.values.get("exception")]))
        if (found := linkage(text)) is not None:
            yield _Hit(*found, trouble.first_us, trouble.ref, None, None)


def _finding(facts: StartupFacts, hits: list[_Hit]) -> Finding:
    first = min(hits, key=lambda hit: hit.time_us or 0)
    times = [hit.time_us for hit in hits if hit.time_us is not None]
    job = next((hit.job for hit in hits if hit.job is not None), None)
    last = max(times, default=0)
    recovered = any(
        start.running_us is not None and start.running_us > last and start.failed_us is None
        for starts in facts.jobs
        for start in starts.starts
    )
    what = j.shorten(first.what, 90)
    words = {
        "missing": f"{what} is not found",
        "conflict": f"Two versions of a class: {what}",
        "java": f"Compiled for a newer Java: {what}",
    }[first.kind]
    return Finding(
        job=job.key if job is not None else None,
        severity=Severity.WARNING if recovered else Severity.CRITICAL,
        state=State.RECOVERED if recovered else State.ONGOING,
        subject=Subject(
            kind="job",
            job_id=(job.key.job_id or None) if job is not None else None,
            job_name=job.name if job is not None else None,
        ),
        title=words,
        why=words,
        cause="class-loading",
        rank=Rank.FATAL,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(hits),
        explain="Every task that needs it fails, on whichever TaskManager it runs.",
        measurements=(Measurement(name="failures", value=len(hits), unit="failures"),),
        evidence=cite((hit.ref, hit.time_us) for hit in hits),
        ranked=True,
        actions=(Action(text=_ADVICE[first.kind], restart_needed=True),),
    )


RULE: Final = Rule("ST104", judge, whole=True)
