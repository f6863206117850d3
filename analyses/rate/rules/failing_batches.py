"""Batches or queries fail.

What it reports
---------------
Batches with a failed output operation: their number, the operation, the error, and whether the most recent batches
failed too. Query runs that ended with an exception: their number, the error, and whether the query was restarted.

Why it matters
--------------
The records of a failed batch are not written. Unless the job reads them again, they are lost. A failed batch is
short, so the rate estimator overestimates the processing rate and raises the limit. A failed query processes
nothing until it is restarted. It then repeats the same batch, which fails again if the data is the cause.

How it decides
--------------
Batches: output operations with a failure reason, from the listener, REST or the log. An event log alone only shows
failed Spark jobs. Failures caused by a stop of the application do not count. The finding is critical if
`failed-share` of all batches or each of the `last-batches` batches failed, and the failures are recent. A failure is
recent if it affects one of the last `recent` batches, or one of the last third of the batches if these are more.
If none of these batches failed, the finding is recovered. A pasted exception of a DStream batch counts as one
failed batch. The finding is then critical and quotes the deepest meaningful cause.

Queries: termination events with an exception, from the event log, the listener or the driver's log, and
pasted exceptions without a batch. Each run counts once. Stopped queries and canceled jobs do not count. A query
has recovered if it completes `recovery-triggers` triggers after the last exception. If a job of a trigger failed, but the
trigger completed, the code of the batch caught the exception. The finding is then a warning, because the records may
be lost. Two query names with one ID share a checkpoint location if the start of one stops the other.

Log fragments without an application, batch or query: the rule counts exceptions of tasks. The finding is critical
if Spark aborted the job. Otherwise it is a warning with medium confidence, because a retry may have succeeded. In
an application whose batches and queries do not fail, a task that failed and then succeeded is only info.

What to do
----------
Read the error in the finding. Change the code to skip or set aside records that it cannot process, and to
retry temporary failures.

False alarms
------------
Some tests fail on purpose.
"""

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures import batches, queries


class Limits(h.Limits):
    failed_share: float = h.limit(
        h.defaults.FAILED_SHARE,
        "share",
        "minimum share of failed batches that is critical; losing one batch in twenty is serious",
    )
    last_batches: float = h.limit(
        h.defaults.FAILED_LAST, "batches", "number of latest batches that must fail to be critical"
    )
    recent: float = h.limit(
        10, "batches", "number of latest batches in which a failure counts as ongoing"
    )
    recovery_triggers: float = h.limit(
        h.defaults.WORKED, "triggers", "number of triggers that must complete for a recovery"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application with failed batches, and one per failed query."""
    app = assessed.app
    failed = h.batches.failed_batches(app) if assessed.dstreams else ()
    printed = batches.reprinted_exceptions(app, failed)
    if failed:
        yield batches.failed_batches(
            assessed,
            failed,
            printed=printed,
            failed_share=limits.failed_share,
            last=limits.last_batches,
            recent=limits.recent,
        )
    ended = {query.id: h.parts.exception_records(query) for query, _ in assessed.queries}
    if not printed:
        yield from _exceptions(assessed, failed_query=any(ended.values()))
    for query, _ in assessed.queries:
        yield from queries.shared_checkpoint(assessed, query)
        if ended[query.id]:
            yield queries.failed_query(
                assessed, query, ended[query.id], worked=limits.recovery_triggers
            )
    if not failed and not any(ended.values()):
        yield from _survived_failures(assessed)


def _survived_failures(assessed: h.AssessedApplication) -> h.Iterator[h.Finding]:
    """Yield the findings about failures that ended no batch and no query."""
    if handled := h.batches.handled_failures(assessed.app):
        yield batches.handled_failures(assessed, handled)
    if retried := h.batches.retried_tasks(assessed.app):
        yield batches.retried_tasks(assessed, retried)


def _exceptions(assessed: h.AssessedApplication, *, failed_query: bool) -> h.Iterator[h.Finding]:
    """Yield the finding about exceptions without a known batch, which are pasted or come from tasks."""
    app = assessed.app
    pasted = [record for record in app.incidents if record.fields.get("origin") == "paste"]
    # Other records and the script's output repeat the exception that ended a query.
    if pasted and not (failed_query and app.application):
        yield batches.pasted_exceptions(assessed, pasted)
    elif tasks := h.batches.failed_tasks(app):
        yield batches.failed_tasks(assessed, tasks)


RULE = h.Rule(
    "RT103",
    judge,
    Limits,
    causes=(*dict.fromkeys(("failing-batches", *(word for word, _ in CAUSE_OF_CLASS.values()))),),
    needs="work",
    severity=h.Severity.CRITICAL,
)
