"""Batches began and never ended.

What it reports
---------------
The number and times of batches that never finish in the logs, although later batches do.

Why it matters
--------------
The records of these batches were either not written or written twice. After a restart from a checkpoint,
Spark processes them again. Without a checkpoint, they are lost.

How it decides
--------------
Spark runs batches in order, up to `spark.streaming.concurrentJobs` of them at a time. If more batches than that have
ended after an unfinished batch, the unfinished batch will never end. An unfinished batch before a gap in the logs will not end either.

What to do
----------
Check what happened at that time: the driver may have restarted, or a listener or log may have lost
events. If the application uses checkpoints (`StreamingContext.getOrCreate`), a restarted driver processes
the batches again.

False alarms
------------
If one log file contains two runs and no application ID, flowdiag treats the runs as one application.
"""

from flowdiag.analyses.rate import helpers as h


def judge(assessed: h.AssessedApplication, limits: h.Limits) -> h.Results:
    """Yield one note per application with batches that never ended."""
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
        f"never {'end' if len(left) > 1 else 'ends'} in the logs, although later batches do",
        explain="Listener events were lost, which may be the only reason."
        if app.lost
        else "The driver restarted, or the logs have a gap.",
        cause=None,
        rank=h.Rank.CONSEQUENCE,
        measurements=(h.measurement("abandoned-batches", len(left), "batches"),),
        actions=(
            h.Action(
                text="Check what happened at that time. Then check whether a later run processed the records",
                verify="every batch ends in the logs",
            ),
        ),
    )


RULE = h.Rule("RT107", judge, needs="batches", severity=h.Severity.INFO)
