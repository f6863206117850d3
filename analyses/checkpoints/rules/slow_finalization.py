"""Checkpoints wait for the JobManager's last step.

What it reports
---------------
Completed checkpoints whose finalisation, after the last acknowledgement, took long: writing the
metadata, and what the JobManager does then.

Why it matters
--------------
All subtasks were in time, and still the next checkpoint has to wait. It is the JobManager's storage, or
metadata that grew large (many small files, in-line state).

How it decides
--------------
From 1.14 on "Completed checkpoint" prints `finalizationTime` apart from the duration. It must reach
`finalization` and be `share` of the checkpoint's own duration or of the interval, in at least
`checkpoints` of them.

What to do
----------
Look at the latency of the checkpoint storage from the JobManager's host, and at the size of the
metadata file. Fewer files: fewer in-line states, file merging (1.20+).

False alarms
------------
None known; a single slow write is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import in_order
from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit


class SlowFinalizationLimits(Limits):
    """What CP307 compares with."""

    finalization: float = limit(3000.0, "ms", "writing one small file takes milliseconds")
    share: float = limit(0.25, "share", "a quarter of the checkpoint or of the interval")
    checkpoints: float = limit(3, "checkpoints", "single slow writes happen")


def judge(job: Job, limits: SlowFinalizationLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    known = [
        c
        for c in in_order(job.checkpoints)
        if c.status is Status.COMPLETED and c.finalization_ms is not None
    ]
    interval = j.interval_ms(job)
    slow = [c for c in known if _slow(c, interval, limits)]
    if len(slow) >= limits.checkpoints:
        yield _finding(job, slow, known, limits)


def _slow(checkpoint: Checkpoint, interval: float | None, limits: SlowFinalizationLimits) -> bool:
    took = checkpoint.finalization_ms or 0
    if took < limits.finalization:
        return False
    whole = (checkpoint.duration_ms or 0) + took
    return took >= limits.share * whole or (
        interval is not None and took >= limits.share * interval
    )


def _finding(
    job: JobFacts, slow: list[Checkpoint], known: list[Checkpoint], limits: SlowFinalizationLimits
) -> Finding:
    longest = max(c.finalization_ms or 0 for c in slow)
    state = State.ONGOING if slow[-1] in known[-3:] else State.RECOVERED
    cited = j.ends(slow)
    return Finding(
        job=job.key,
        severity=grade(state=state, share=len(slow) / len(known)),
        state=state,
        subject=j.job_subject(job),
        title=(
            f"{len(slow)} of {j.count_text(len(known), 'completed checkpoint')} waited up to "
            f"{j.duration_text(longest)} for the JobManager to finish them"
        ),
        explain=(
            "All subtasks had acknowledged by then. The time goes into writing the metadata, or into a "
            "JobManager that is busy."
        ),
        rank=Rank.SYMPTOM,
        cause="slow-metadata-writes",
        first_us=slow[0].triggered_us,
        last_us=slow[-1].ended_us,
        count=len(slow),
        measurements=(
            Measurement(
                name="longest-finalization",
                value=longest,
                unit="ms",
                threshold=limits.finalization,
                population=f"{len(known)} completed checkpoints",
            ),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Measure the latency of the checkpoint storage from the JobManager's host; look at "
                "the size of the _metadata file",
                verify="finalizationTime of a second or less",
            ),
            Action(
                text="Keep less state in the metadata itself",
                option=option("inline-threshold", job.version),
                risk="more small files",
                restart_needed=True,
            ),
        ),
    )


RULE: Final = Rule("CP307", judge, SlowFinalizationLimits)
