"""Batches were begun and never ended.

What it reports
---------------
Batches without an end behind which others ended: how many, and when.

Why it matters
--------------
Their records were not written, or were written twice: after a restart from a checkpoint they are
processed again, without one they are lost.

How it decides
--------------
Batches are processed in their order, as many at once as `spark.streaming.concurrentJobs` says. One
without an end, and more batches with one behind it than that, will not end any more.

What to do
----------
See what happened at that time: a driver that was restarted, a listener or a log that lost events.
Checkpoints (`StreamingContext.getOrCreate`) have a restarted driver process them again.

False alarms
------------
Logs of two runs in one file that tell no application id; the input is then taken for one application.
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
    Severity,
    State,
)
from flowdiag.analyses.flink.judging import count_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.state import Assessed, abandoned
from flowdiag.analyses.rule import Limits, Rule


def judge(assessed: Assessed, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One note per application with such batches."""
    for _ in assessed.dstreams:
        left = abandoned(assessed.app)
        if not left:
            continue
        told = count_text(len(left), "batch", "batches")
        yield Finding(
            job=assessed.key,
            severity=Severity.INFO,
            state=State.RECOVERED,
            subject=j.application_subject(assessed.app),
            title=f"{told} of {len(assessed.app.batches)} never ended, and later ones did",
            explain=(
                "Listener events were lost, which may be all there is to it."
                if assessed.app.lost
                else "The driver was restarted, or the input has a gap."
            ),
            cause=None,
            rank=Rank.CONSEQUENCE,
            first_us=left[0].time_ms * 1000,
            last_us=left[-1].time_ms * 1000,
            count=len(left),
            measurements=(Measurement(name="abandoned-batches", value=len(left), unit="batches"),),
            evidence=j.of_batches(left),
            actions=(
                Action(
                    text="See what happened then, and whether their records were processed later",
                    verify="every batch has an end",
                ),
            ),
        )


RULE: Final = Rule("RT107", judge)
