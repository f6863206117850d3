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
Look at the exception of the runs (RT402), and at the rows of that batch: its offsets stand in the
progress and in the folder `offsets` of the checkpoint location.

False alarms
------------
A query that is deployed several times within one long batch.
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
from flowdiag.analyses.rate.facts import QueryFacts
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class RepeatedBatchLimits(Limits):
    """What RT409 compares with."""

    tries: float = limit(3, "runs", "one restart repeats one batch once")


def judge(assessed: Assessed, limits: RepeatedBatchLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per query with such a batch: the last one of them."""
    for query, _ in assessed.queries:
        again = {b: runs for b, runs in query.tries.items() if runs >= limits.tries}
        if again:
            batch = max(again)
            yield _finding(assessed, query, batch, again[batch], limits.tries)


def _finding(assessed: Assessed, query: QueryFacts, batch: int, runs: int, limit: float) -> Finding:
    passed = any((t.batch or 0) > batch for t in query.triggers)
    ended = [t for t in query.triggers if t.batch == batch]
    near = ended or [t for t in query.triggers if (t.batch or 0) <= batch][-1:]
    starts = [event for event in query.events if event.what in ("started", "terminated")]
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.RECOVERED if passed else State.ONGOING,
        subject=j.query_subject(assessed.app, query),
        title=(
            f"Batch {batch} of query {query.name or query.id} was begun in {runs} runs"
            + ("" if passed else ", and none passed it")
        ),
        explain=(
            "It came to its end at last." if passed else "Nothing behind it has been processed yet."
        ),
        why=f"batch {batch} was begun in {runs} runs",
        cause="failing-batches",
        rank=Rank.EXPLANATION,
        last_us=assessed.app.last_us,
        count=runs,
        measurements=(
            Measurement(
                name="tries",
                value=runs,
                unit="runs",
                threshold=limit,
                population=f"{len(query.runs)} runs",
            ),
        ),
        evidence=(*j.of_triggers(near)[:4], *j.of_records(starts)[:6]),
        actions=(
            Action(
                text="Read the rows of that batch: its offsets stand in the checkpoint location",
                verify="the batch id advances",
            ),
        ),
    )


RULE: Final = Rule("RT409", judge, RepeatedBatchLimits)
