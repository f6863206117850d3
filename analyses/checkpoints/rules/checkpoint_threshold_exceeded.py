"""The job was failed for its failed checkpoints.

What it reports
---------------
That the job was failed for "Exceeded checkpoint tolerable failure threshold", how often, and what the
checkpoints before it failed of.

Why it matters
--------------
The exception says nothing about the reason (before 1.17 not even the last one), yet it is what users
see first. By default a single failed checkpoint is one too many.

How it decides
--------------
By the exception in the job's or a task's failure. The last `before` failed checkpoints, up to `together`
after it, tell of what: expired ones are a matter for CP201, declined ones for CP301. It ranks as a
consequence and accuses nobody.

What to do
----------
Mend what fails the checkpoints. Tolerate a few failed ones, so that a hiccup does not restart the job:
the restart costs more than the checkpoint.

False alarms
------------
None: the job was failed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.flink import helpers as h


class Exceeded(h.Limits):
    """What CP304 looks at."""

    before: float = h.limit(
        5, "checkpoints", "what they failed of, one after the other, is a trend"
    )
    together: float = h.limit(
        1000.0,
        "ms",
        "the job's failure and the end of the last checkpoint are written in any order",
    )


def judge(job: h.Job, limits: Exceeded) -> h.Iterator[h.Finding]:
    """One finding per job."""
    hit = [c for c in job.crises if c.of_kind("checkpoint-failures")]
    if not hit:
        return
    until = (hit[-1].last_us or 0) + limits.together * 1000
    before = [
        c
        for c in job.in_order
        if h.counts_as_failed(c, job) and c.ended_us is not None and c.ended_us <= until
    ]
    words = Counter(str(c.status) for c in before[-int(limits.before) :])
    listed = ", ".join(f"{count} {word}" for word, count in words.most_common())
    times = f" {len(hit)} times" if len(hit) > 1 else ""
    yield h.crisis_finding(
        job,
        hit,
        title=f"The job was failed{times} for exceeding the threshold of tolerable failed checkpoints"
        + (f" (before: {listed})" if listed else ""),
        explain="This is a consequence: the checkpoints before it failed first. Each of them counts "
        "once, and a completed one resets the count.",
        rank=h.Rank.CONSEQUENCE,
        option=h.option("tolerable", job.version),
        measurements=(h.measurement("exceeded", len(hit), "times"),),
        evidence=h.records_of(
            f.incident for crisis in reversed(hit) for f in crisis.of_kind("checkpoint-failures")
        ),
        actions=(
            h.Action(
                text="Mend what fails the checkpoints: CP201 for expired, CP301 for declined ones"
            ),
            *h.shared_remedies(job, "tolerate"),
        ),
    )


RULE: Final = h.Rule("CP304", judge, Exceeded)
