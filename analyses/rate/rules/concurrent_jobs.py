"""Batches overtake each other, and the estimator misses them.

What it reports
---------------
`spark.streaming.concurrentJobs` above one together with back pressure, where batches that end behind
a later one are lost on the estimator.

Why it matters
--------------
The estimator takes no batch that ends before, or with, one it has seen. And each batch that runs
beside another takes longer: the processing rate that it computes is too low.

How it decides
--------------
The estimators are replayed: at least `share` of the batches with records came out of order, or
ended in the same millisecond.

What to do
----------
One job at a time, and as many cores as it needs: concurrent jobs are not a supported setting.

False alarms
------------
Output operations of one batch run beside each other, too, with this setting: some jobs are made for
that.
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
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

OPTION: Final = "spark.streaming.concurrentJobs"


class ConcurrentJobsLimits(Limits):
    """What RT208 compares with."""

    share: float = limit(0.1, "share", "of the batches; a few that tie change no rate")


def judge(assessed: Assessed, limits: ConcurrentJobsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application whose estimators miss batches."""
    for _ in assessed.dstreams:
        if rate_state.concurrent(assessed.app) < 2:
            continue
        for estimator in assessed.estimators:
            missed, counted = overtaken(assessed, estimator)
            if missed and missed >= limits.share * counted:
                yield _finding(assessed, missed, counted, limits.share)
                break


def overtaken(assessed: Assessed, estimator: Replay) -> tuple[int, int]:
    """How many batches with records ended behind a later one, and how many there are.

    The replay is in the order of completion; a batch whose time is older than one before it was
    overtaken, whatever the estimator then made of it.
    """
    newest, missed, counted = 0, 0, 0
    for time, step in zip(estimator.batch_ms, estimator.steps, strict=True):
        if step.observation.elements <= 0:
            continue
        counted += 1
        missed += time < newest or step.outcome == "skipped"
        newest = max(newest, time)
    return missed, counted


def _finding(assessed: Assessed, missed: int, counted: int, share: float) -> Finding:
    app = assessed.app
    slots = rate_state.concurrent(app)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=j.option_subject(app, OPTION),
        title=(
            f"{missed} of {counted} batches were overtaken by a later one, which the rate estimator "
            f"does not expect; {OPTION} = {slots}"
        ),
        explain=(
            "A batch beside which others run takes longer, and one that ends late is ignored: the rate "
            "follows neither the load nor the capacity."
        ),
        why=f"{OPTION} = {slots} lets batches overtake each other",
        cause="concurrent-jobs",
        rank=Rank.MECHANISM,
        option=OPTION,
        last_us=app.last_us,
        count=missed,
        measurements=(
            Measurement(
                name="overtaken-batches",
                value=round(missed / counted, 3),
                unit="share",
                threshold=share,
                population=f"{counted} batches with records",
            ),
        ),
        evidence=j.of_batches(rate_state.late_window(app.completed)),
        actions=(
            Action(
                text="Process one batch after the other",
                option=OPTION,
                current=j.setting(app, OPTION),
                proposed="1",
                risk="what ran beside each other runs one after the other",
                restart_needed=True,
                verify="batches end in the order of their times",
            ),
        ),
    )


RULE: Final = Rule("RT208", judge, ConcurrentJobsLimits)
