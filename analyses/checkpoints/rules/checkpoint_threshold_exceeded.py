"""The job failed because too many checkpoints failed.

What it reports
---------------
The job failed with "Exceeded checkpoint tolerable failure threshold". The finding shows how often this happened,
and how the preceding checkpoints failed.

Why it matters
--------------
The exception is the first thing that users see, but it does not contain the reason. Before Flink 1.17, it does not
even contain the reason why the last checkpoint failed. By default a single failed checkpoint exceeds the
threshold.

How it decides
--------------
The rule looks for the exception in failures of the job and of tasks. It lists how the last `listed` checkpoints
failed, including those that ended up to `window` after the exception. CP201 covers expired checkpoints, and
CP301 covers declined checkpoints. The finding blames no task, and ranks below the findings about the causes.

What to do
----------
Fix the cause of the failed checkpoints. Tolerate a few failures so that a hiccup does not restart the job,
because a restart costs more than a failed checkpoint.

False alarms
------------
None: the job did fail.
"""

from collections import Counter
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import classify_incident


class Limits(h.Limits):
    listed: float = h.limit(5, "checkpoints", "number of failed checkpoints that the finding lists")
    window: float = h.limit(
        1000.0,
        "ms",
        "maximum time from the checkpoint's to the job's failure; either may come first",
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per job."""
    exceeded = [c for c in job.crises if c.of_kind("checkpoint-failures")]
    if not exceeded:
        return
    until = (exceeded[-1].last_us or 0) + limits.window * 1000
    before = [
        c
        for c in job.in_order
        if h.counts_as_failed(c, job) and c.ended_us is not None and c.ended_us <= until
    ]
    words = Counter(str(c.status) for c in before[-int(limits.listed) :])
    listed = ", ".join(f"{count} {word}" for word, count in words.most_common())
    listed = _failures_text(exceeded[-1], listed)
    times = f" {len(exceeded)} times" if len(exceeded) > 1 else ""
    yield h.crisis_finding(
        job,
        exceeded,
        title=f"The job failed{times} because it exceeded the number of tolerable failed checkpoints"
        + listed,
        explain=h.text("CP304.consequence"),
        rank=h.Rank.CONSEQUENCE,
        option=h.option("tolerable", job.version),
        measurements=(h.measurement("failures", len(exceeded), "times"),),
        evidence=h.records_of(
            f.incident
            for crisis in reversed(exceeded)
            for f in crisis.of_kind("checkpoint-failures")
        ),
        actions=h.shared_remedies(job, "failed-checkpoints", "tolerate"),
    )


def _failures_text(crisis: h.Crisis, listed: str) -> str:
    """Return the failed checkpoints in parentheses. If none is known, return the latest reason from the exception."""
    if listed:
        return f" (before: {listed})"
    found = classify_incident(crisis.of_kind("checkpoint-failures")[-1].incident)
    reason = found.values.get("reason") if found is not None else None
    return f" (the latest: {reason.rstrip('.')})" if reason else ""


RULE: Final = h.Rule(
    "CP304", judge, Limits, needs="ended-checkpoints", severity=h.Severity.CRITICAL
)
