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
By the exception in the job's or a task's failure. The failed checkpoints right before it tell of what:
expired ones are a matter for CP201, declined ones for CP301. It ranks as a consequence and accuses
nobody.

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
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    cite,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import Crisis, crises
from flowdiag.analyses.flink.episodes import concluded, failed, in_order
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    hit = [c for c in crises(job, job.cluster) if c.of_kind("checkpoint-failures")]
    if hit:
        yield _finding(job, hit)


def _finding(job: JobFacts, hit: list[Crisis]) -> Finding:
    last = hit[-1]
    before = [
        c
        for c in in_order(job.checkpoints)
        if failed(c, job)
        and c.ended_us is not None
        and c.ended_us <= (last.last_us or 0) + 1_000_000
    ]
    words = Counter(str(c.status) for c in before[-5:])
    listed = ", ".join(f"{count} {word}" for word, count in words.most_common())
    records = [f for crisis in reversed(hit) for f in crisis.of_kind("checkpoint-failures")]
    cited = cite((f.incident.ref, f.incident.time_us) for f in records)
    name = option("tolerable", job.version)
    times = f" {len(hit)} times" if len(hit) > 1 else ""
    return Finding(
        job=job.key,
        severity=grade(
            state=last.state, share=len(hit) / max(1, len(concluded(job))), fatal=last.fatal
        ),
        state=last.state,
        subject=j.job_subject(job),
        title=f"The job was failed{times} for exceeding the tolerable number of failed checkpoints"
        + (f" (before: {listed})" if listed else ""),
        rank=Rank.CONSEQUENCE,
        option=name,
        explain=(
            "This is a consequence: the checkpoints before it failed first. Each of them counts once, and "
            "a completed one resets the count."
        ),
        first_us=hit[0].first_us,
        last_us=last.last_us,
        count=len(hit),
        measurements=(Measurement(name="exceeded", value=len(hit), unit="times"),),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text="Mend what fails the checkpoints: CP201 for expired, CP301 for declined ones"
            ),
            Action(
                text="Tolerate some failed checkpoints",
                option=name,
                current=j.configured(job, "execution.checkpointing.tolerable-failed-checkpoints"),
                proposed="3",
                risk="a job without checkpoints goes unnoticed for longer",
                restart_needed=True,
                verify="the job survives single failed checkpoints",
            ),
        ),
    )


RULE: Final = Rule("CP304", judge)
