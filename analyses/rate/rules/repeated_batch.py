"""Several runs of a query start the same batch.

What it reports
---------------
A query that starts the same batch in several of its runs.

Why it matters
--------------
After a restart, a query processes the unfinished batch again, with the same offsets. If the batch itself
causes the failure, every run fails and no later batch is processed. A sink that is not idempotent writes
the rows again each time.

How it decides
--------------
The same batch ID appears in at least `runs` runs. The IDs come from the jobs in the event log
(`streaming.sql.batchId`) and from progress events. A single restart repeats at most the batch that was
running, and only once.

What to do
----------
Read the exception of the runs (RT103) and check the rows of that batch. Its offsets are in the progress
events and in the `offsets` folder of the checkpoint location.

False alarms
------------
A query may be deployed several times during one long batch.
"""

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    runs: float = h.limit(3, "runs", "minimum number of runs; one restart repeats a batch once")


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query, about its last repeated batch."""
    for query, _ in assessed.queries:
        again = [batch for batch, runs in query.tries.items() if runs >= limits.runs]
        if not again:
            continue
        batch = max(again)
        runs = query.tries[batch]
        passed = any((t.batch or 0) > batch for t in query.triggers)
        title = f"{runs} runs began batch {batch} of {query.label}"
        over = h.fmt.plural(len(query.runs), "run")
        yield h.query_finding(
            assessed,
            query,
            state=h.State.RECOVERED if passed else h.State.ONGOING,
            title=title if passed else f"{title}, and none finished it",
            explain="A later run finished the batch."
            if passed
            else "No later batch has been processed yet.",
            why=f"{runs} runs began batch {batch}",
            cause="failing-batches",
            rank=h.Rank.EXPLANATION,
            count=runs,
            measurements=(h.measurement("runs", runs, "runs", limits.runs, over=over),),
            evidence=h.evidence_of(_records_about(query, batch)),
            actions=h.remedies("failing-batches", assessed.app, "look"),
        )


def _records_about(query: h.QueryFacts, batch: int) -> list[h.Trigger | h.Record]:
    """Return all starts and ends of runs, and the trigger of the batch or the last trigger before it."""
    ended = [t for t in query.triggers if t.batch == batch]
    near = ended or [t for t in query.triggers if (t.batch or 0) <= batch][-1:]
    events = [event for event in query.events if event.what in ("started", "terminated")]
    return sorted([*near, *events], key=lambda item: item.time_us or 0)


RULE = h.Rule("RT409", judge, Limits, causes=("failing-batches",), needs="triggers")
