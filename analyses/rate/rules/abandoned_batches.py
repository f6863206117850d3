"""Batches began and never ended.

What it reports
---------------
Batches without an end that later batches with an end follow: their number and times.

Why it matters
--------------
Their records were not written, or were written twice. After a restart from a checkpoint they are
processed again. Without a checkpoint they are lost.

How it decides
--------------
Batches run in order, `spark.streaming.concurrentJobs` of them concurrently. If more batches than that
ended after an unfinished one, it never ends.

What to do
----------
Check what happened at that time: a restart of the driver, or a listener or log that lost events. With
checkpoints (`StreamingContext.getOrCreate`), a restarted driver processes the batches again.

False alarms
------------
Two runs in one log file without an application ID: flowdiag takes them for one application.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


def judge(assessed: h.Assessed, limits: h.Limits) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one note per application with such batches."""
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
        f"{'have' if len(left) > 1 else 'has'} no end in the input, although later ones do",
        explain="Listener events were lost, which may be the only reason."
        if app.lost
        else "The driver restarted, or the input has a gap.",
        cause=None,
        rank=h.Rank.CONSEQUENCE,
        measurements=(h.measurement("abandoned-batches", len(left), "batches"),),
        actions=(
            h.Action(
                text="Check what happened at that time, and whether a later run processed the records",
                verify="every batch has an end",
            ),
        ),
    )


RULE = h.Rule("RT107", judge)
