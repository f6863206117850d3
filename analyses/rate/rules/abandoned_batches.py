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

from flowdiag.analyses.rate import helpers as h


def judge(assessed: h.Assessed, limits: h.Limits) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One note per application with such batches."""
    app = assessed.app
    left = h.batches.abandoned_batches(app)
    if not left:
        return
    yield h.batch_finding(
        assessed,
        left,
        severity=h.Severity.INFO,
        state=h.State.RECOVERED,
        title=f"{h.fmt.plural(len(left), 'batch', 'batches')} of {len(app.batches)} "
        f"{'have' if len(left) > 1 else 'has'} no end in the input, and later ones do",
        explain="Listener events were lost, which may be all there is to it."
        if app.lost
        else "The driver was restarted, or the input has a gap.",
        cause=None,
        rank=h.Rank.CONSEQUENCE,
        measurements=(h.measurement("abandoned-batches", len(left), "batches"),),
        actions=(
            h.Action(
                text="See what happened then, and whether their records were processed later",
                verify="every batch has an end",
            ),
        ),
    )


RULE = h.Rule("RT107", judge)
