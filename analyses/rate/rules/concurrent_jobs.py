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

from typing import Final

from flowdiag.analyses.rate import helpers as h

OPTION: Final = "spark.streaming.concurrentJobs"


class Overtaken(h.Limits):
    """What RT208 compares with."""

    share: float = h.limit(0.1, "share", "of the batches; a few that tie change no rate")


def judge(assessed: h.Assessed, limits: Overtaken) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose estimators miss batches."""
    if h.batches.concurrent_jobs(assessed.app.settings) < 2:
        return
    for estimator in assessed.estimators:
        missed, counted = overtaken(estimator)
        if missed and missed >= limits.share * counted:
            yield _finding(assessed, missed, counted, limits)
            break


def overtaken(estimator: h.Replay) -> tuple[int, int]:
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


def _finding(assessed: h.Assessed, missed: int, counted: int, limits: Overtaken) -> h.Finding:
    slots = h.batches.concurrent_jobs(assessed.app.settings)
    return h.option_finding(
        assessed,
        OPTION,
        title=f"{missed} of {counted} batches were overtaken by a later one, which the rate estimator "
        f"does not expect; {OPTION} = {slots}",
        why=f"{OPTION} = {slots} lets batches overtake each other",
        cause="concurrent-jobs",
        rank=h.Rank.MECHANISM,
        count=missed,
        measurements=(
            h.measurement(
                "overtaken-batches",
                round(missed / counted, 3),
                "share",
                limits.share,
                over=f"{h.fmt.plural(counted, 'batch', 'batches')} with records",
            ),
        ),
        evidence=h.evidence_of(h.late_window(assessed.app.completed)),
        actions=h.remedies("concurrent-jobs", assessed.app),
    )


RULE = h.Rule("RT208", judge, Overtaken, causes=("concurrent-jobs",))
