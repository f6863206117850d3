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

from typing import Final, NamedTuple

from flowdiag.analyses.flink.linkage import linkage
from flowdiag.analyses.startup import helpers as h

_WORDS: Final = {
    "missing": "{} is not found",
    "conflict": "Two versions of a class: {}",
    "java": "Compiled for a newer Java: {}",
}


class _Hit(NamedTuple):
    kind: str
    what: str
    time_us: int | None
    ref: h.Ref | None
    job: h.JobStarts | None


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for each class."""
    groups: dict[tuple[str, str], list[_Hit]] = {}
    for hit in _hits(facts):
        groups.setdefault((hit.kind, hit.what), []).append(hit)
    for (kind, what), hits in groups.items():
        yield _finding(facts, kind, _WORDS[kind].format(h.fmt.shorten(what, 90)), hits)


def _hits(facts: h.StartupFacts) -> h.Iterator[_Hit]:
    for job in facts.jobs:
        for incident in job.job.incidents:
            if (found := linkage(h.failure_text(incident) or "")) is not None:
                yield _Hit(*found, incident.time_us, incident.ref, job)
        if (found := linkage(job.ended_cause or "")) is not None:
            yield _Hit(*found, job.ended_us, job.ended_ref, job)
    for trouble in facts.troubles:
        text = h.joined(trouble.cause, trouble.values.get("exception"))
        if (found := linkage(text)) is not None:
            yield _Hit(*found, trouble.first_us, trouble.ref, None)


def _finding(facts: h.StartupFacts, kind: str, words: str, hits: list[_Hit]) -> h.Finding:
    times = [hit.time_us for hit in hits if hit.time_us is not None]
    job = next((hit.job for hit in hits if hit.job is not None), None)
    last = max(times, default=None)
    return h.of_start(
        job,
        ongoing=not h.ran_after(facts, last, whole=True),
        title=words,
        why=words,
        cause="class-loading",
        rank=h.Rank.FATAL,
        first_us=min(times, default=None),
        last_us=last,
        count=len(hits),
        measurements=(h.measurement("failures", len(hits), "failures"),),
        evidence=h.cite((hit.ref, hit.time_us) for hit in hits),
        ranked=True,
        actions=h.remedies("class-loading", job.job if job else h.UNKNOWN_JOB, kind),
    )


RULE: Final = h.Rule("ST104", judge, whole=True, causes=("class-loading",))
