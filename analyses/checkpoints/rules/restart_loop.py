"""The job restarts again and again.

What it reports
---------------
Series of restarts without a completed checkpoint between: how many, how often, and what began them.

Why it matters
--------------
Between two restarts the job does the same work again, and downstream sees the same data again. The log
is full of exceptions, most of which are not the reason.

How it decides
--------------
At least `restarts` failures in one crisis (see CP301). Critical while it goes on at the end of the input.
The first cause stands in the title; the finding itself accuses nobody, CP301 to CP303 do.

What to do
----------
Mend the first cause. Until then, a longer delay between restarts keeps the cluster usable.

False alarms
------------
Restarts that were asked for (rescaling, a savepoint and a new submission) are no failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.rules.task_failure import short
from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    cite,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.crises import LOOP, Crisis, crises
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit


class RestartLoopLimits(Limits):
    """What CP311 compares with."""

    restarts: float = limit(
        LOOP, "restarts", "twice happens when the first restart meets the same broken thing"
    )


def judge(job: Job, limits: RestartLoopLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job, of its last loop."""
    loops = [c for c in crises(job, job.cluster) if c.bursts >= limits.restarts]
    if loops:
        yield _finding(job, loops, limits)


def _finding(job: JobFacts, loops: list[Crisis], limits: RestartLoopLimits) -> Finding:
    last = loops[-1]
    root = last.root.incident
    text = j.shorten(short(root.cause), 120)
    name = (
        j.subtask_text(root.task, root.subtask_index, root.parallelism)
        if root.task is not None
        else "the job"
    )
    span = ((last.last_us or 0) - (last.first_us or 0)) / 1000
    restarts = sum(crisis.bursts for crisis in loops)
    cited = cite(ref for crisis in reversed(loops) for ref in crisis.refs)
    return Finding(
        job=job.key,
        severity=grade(
            state=last.state, share=1.0, fatal=last.state is State.ONGOING or last.final
        ),
        state=last.state,
        subject=j.job_subject(job),
        title=(
            f"{last.bursts} failures within {j.duration_text(span)} without a completed checkpoint"
            + (f"; the first: {name}, {text}" if text else "")
        ),
        rank=Rank.REPETITION,
        first_us=loops[0].first_us,
        last_us=last.last_us,
        count=restarts,
        explain=(
            "The failure that began it explains the others, unless they name another task: a restart "
            "often fails for want of slots, connections or locks that the first failure left behind."
        ),
        measurements=(
            Measurement(
                name="failures",
                value=last.bursts,
                unit="restarts",
                threshold=limits.restarts,
                population="since the last completed checkpoint",
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(text="Mend the first cause (CP301, CP302, CP303)"),
            Action(
                text="Wait longer between restarts while that lasts",
                option=option("restart-strategy", job.version),
                current=j.configured(job, "restart-strategy", "restart-strategy.type"),
                proposed="exponential-delay"
                if j.knows_exponential(job.version)
                else "failure-rate",
                restart_needed=True,
                verify="fewer failures per hour",
            ),
        ),
    )


RULE: Final = Rule("CP311", judge, RestartLoopLimits)
