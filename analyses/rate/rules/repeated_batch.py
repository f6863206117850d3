"""A batch is begun again and again.

What it reports
---------------
A query that begins the same batch in several of its runs.

Why it matters
--------------
A batch that does not end is begun again by the next run, with the same offsets: what fails by itself
fails each time, and nothing behind it is processed. Sinks that are not idempotent write it again.

How it decides
--------------
The same batch id in at least `tries` runs, from the jobs of the event log (`streaming.sql.batchId`)
and from progress. A restart repeats at most the batch that ran, once.

What to do
----------
Look at the exception of the runs (RT103), and at the rows of that batch: its offsets stand in the
progress and in the folder `offsets` of the checkpoint location.

False alarms
------------
A query that is deployed several times within one long batch.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


class Repeated(h.Limits):
    """What RT409 compares with."""

    tries: float = h.limit(3, "runs", "one restart repeats one batch once")


def judge(assessed: h.Assessed, limits: Repeated) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query with such a batch: the last one of them."""
    for query, _ in assessed.queries:
        again = [batch for batch, runs in query.tries.items() if runs >= limits.tries]
        if again:
            yield _finding(assessed, query, max(again), limits)


def _finding(assessed: h.Assessed, query: h.QueryFacts, batch: int, limits: Repeated) -> h.Finding:
    runs = query.tries[batch]
    passed = any((t.batch or 0) > batch for t in query.triggers)
    # The batch where it ended, else the last one before it; and every start and end of a run.
    ended = [t for t in query.triggers if t.batch == batch]
    near = ended or [t for t in query.triggers if (t.batch or 0) <= batch][-1:]
    runs_told = [event for event in query.events if event.what in ("started", "terminated")]
    told: list[h.Trigger | h.Record] = [*near, *runs_told]
    return h.query_finding(
        assessed,
        query,
        state=h.State.RECOVERED if passed else h.State.ONGOING,
        title=f"Batch {batch} of {query.label} was begun in {runs} runs"
        + ("" if passed else ", and none passed it"),
        explain="It came to its end at last."
        if passed
        else "Nothing behind it has been processed yet.",
        why=f"batch {batch} was begun in {runs} runs",
        cause="failing-batches",
        rank=h.Rank.EXPLANATION,
        count=runs,
        measurements=(
            h.measurement(
                "tries", runs, "runs", limits.tries, over=h.fmt.plural(len(query.runs), "run")
            ),
        ),
        evidence=h.evidence_of(sorted(told, key=lambda one: one.time_us or 0)),
        actions=h.remedies("failing-batches", assessed.app, "look"),
    )


RULE = h.Rule("RT409", judge, Repeated, causes=("failing-batches",))
