"""Batches or queries fail.

What it reports
---------------
Batches with a failed output operation: their number, the operation, the error, and whether the last ones
failed too. Runs of a query that ended with an exception: their number, the error, and whether the query
was restarted.

Why it matters
--------------
The records of a failed batch are not written. Unless the job reads them again, they are lost. A failed
batch is short, so the rate estimator overestimates the job and raises the rate. A failed query processes
nothing until it is restarted, and then repeats the same batch, which fails again if the data is the
cause.

How it decides
--------------
Batches: output operations with a failure reason, from the listener, REST or the log. An event log alone
only shows failed Spark jobs. Failures caused by a stop of the application do not count. The finding is
critical if `failed-share` of the batches or the `last` ones failed, and one of the `recent` ones (the last
third at least) did. Without a failure among those, the finding is recovered. A pasted exception of a
DStream batch counts as one failed batch, critical, with the deepest meaningful cause.

Queries: terminated events with an exception, from the event log, the listener or the driver's log, each
run once, and pasted exceptions without a batch. Stopped queries and cancelled jobs do not count. A query
with `worked` triggers after the last exception has recovered.

Fragments without application, batch and query: task exceptions count. The finding is critical if Spark
gave up the job, else a warning of medium confidence, because a retry may have succeeded.

What to do
----------
Read the error in the finding. Make the code skip or set aside records that it cannot process, and retry
temporary failures inside it.

False alarms
------------
Functions or tests that fail on purpose.
"""

from __future__ import annotations

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures import batches, queries


class Failing(h.Limits):
    """Limits of RT103."""

    failed_share: float = h.limit(
        h.defaults.FAILED_SHARE, "share", "one lost batch in twenty is data loss, not an incident"
    )
    last: float = h.limit(h.defaults.FAILED_LAST, "batches", "the job no longer works")
    recent: float = h.limit(10, "batches", "at the end: a failure among them is not over")
    worked: float = h.limit(
        h.defaults.WORKED, "triggers", "after the last exception: the query works again"
    )


def judge(assessed: h.Assessed, limits: Failing) -> h.Iterator[h.Finding | h.Inconclusive]:
    """Yield one finding per application with failed batches, and one per failed query."""
    app = assessed.app
    failed = h.batches.failed_batches(app) if assessed.dstreams else ()
    if failed:
        yield batches.failed_batches(
            assessed,
            failed,
            failed_share=limits.failed_share,
            last=limits.last,
            recent=limits.recent,
        )
    pasted = [record for record in app.incidents if record.fields.get("origin") == "paste"]
    if pasted:
        yield batches.pasted_exceptions(assessed, pasted)
    elif tasks := h.batches.failed_tasks(app):
        yield batches.failed_tasks(assessed, tasks)
    for query, _ in assessed.queries:
        if ended := h.parts.exception_records(query):
            yield queries.failed_query(assessed, query, ended, worked=limits.worked)


RULE = h.Rule(
    "RT103",
    judge,
    Failing,
    causes=(*dict.fromkeys(("failing-batches", *(word for word, _ in CAUSE_OF_CLASS.values()))),),
)
