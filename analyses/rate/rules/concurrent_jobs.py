"""Concurrent batches overtake each other and confuse the rate estimator.

What it reports
---------------
Back pressure together with `spark.streaming.concurrentJobs` above 1, if later batches overtake earlier ones.

Why it matters
--------------
The estimator ignores a batch that does not end later than the last batch that it has processed. Concurrent batches
also slow each other down, so the estimated processing rate is too low.

How it decides
--------------
flowdiag replays the estimators. At least `share` of the batches with records end after a later batch, or
in the same millisecond as another one.

What to do
----------
Set `spark.streaming.concurrentJobs` to 1 and provide enough cores. Spark does not officially support this
option.

False alarms
------------
Some jobs use the option on purpose, to run the output operations of one batch concurrently.
"""

from typing import Final

from flowdiag.analyses.rate import helpers as h

OPTION: Final = "spark.streaming.concurrentJobs"


class Limits(h.Limits):
    share: float = h.limit(
        0.1, "share", "minimum share of batches that a later batch overtakes; a few are harmless"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose estimators get batches out of order."""
    slots = h.batches.concurrent_jobs(assessed.app.settings)
    for estimator in assessed.estimators if slots > 1 else ():
        missed, counted = count_overtaken(estimator)
        if not missed or missed < limits.share * counted:
            continue
        over = f"{h.fmt.plural(counted, 'batch', 'batches')} with records"
        share = round(missed / counted, 3)
        yield h.option_finding(
            assessed,
            OPTION,
            title=f"A later batch overtook {missed} of {counted} batches, which misleads the "
            f"rate estimator: {OPTION} = {slots}",
            why=f"{OPTION} = {slots} makes batches overtake each other",
            cause="concurrent-jobs",
            rank=h.Rank.MECHANISM,
            count=missed,
            measurements=(
                h.measurement("overtaken-batches", share, "share", limits.share, over=over),
            ),
            evidence=h.evidence_of(h.late_window(assessed.app.completed)),
            actions=h.remedies("concurrent-jobs", assessed.app),
        )
        return


def count_overtaken(estimator: h.Replay) -> tuple[int, int]:
    """Count the batches with records that a later batch overtook, and all batches with records.

    The replay is in order of completion, so an overtaken batch has an earlier batch time than its predecessor.
    """
    newest, missed, counted = 0, 0, 0
    for time, step in zip(estimator.batch_ms, estimator.steps, strict=True):
        if step.observation.elements <= 0:
            continue
        counted += 1
        missed += time < newest or step.outcome == "skipped"
        newest = max(newest, time)
    return missed, counted


RULE = h.Rule("RT208", judge, Limits, causes=("concurrent-jobs",), needs="batches")
