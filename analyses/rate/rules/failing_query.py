"""A streaming query ends with an exception.

What it reports
---------------
Runs of a query that ended with an exception: how many, with what error, and whether it was started
again after the last.

Why it matters
--------------
Nothing is processed until somebody or something starts it again; then it tries the same batch
again, which fails again if the data are to blame.

How it decides
--------------
Terminated events with an exception, from event log, listener or driver's log, each run once. A
query that was stopped, or whose job was cancelled with the application, has not failed.

What to do
----------
Read the error below. A row that cannot be read: parse it tolerantly and set it aside. Failures of
the source or the sink: see whether they are transient.

False alarms
------------
Tests that end queries by an exception on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Severity,
    State,
)
from flowdiag.analyses.flink.judging import shorten
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.facts import QueryFacts, Record
from flowdiag.analyses.rate.rules.failing_batches import error_of, rank_of
from flowdiag.analyses.rate.state import Assessed, harmless_failure
from flowdiag.analyses.rule import Limits, Rule


def judge(assessed: Assessed, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per query that failed."""
    for query, _ in assessed.queries:
        ended: dict[str, Record] = {}
        for record in query.events:
            run = record.fields.get("run_id", "")
            told = record.what == "terminated" and record.cause
            if told and not harmless_failure(record.cause):
                # The longest text names the cause; the log and the listener both tell of it.
                before = ended.get(run)
                if before is None or len(before.cause or "") < len(record.cause or ""):
                    ended[run] = record
        if ended:
            yield _finding(assessed, query, list(ended.values()))


def _finding(assessed: Assessed, query: QueryFacts, ended: list[Record]) -> Finding:
    app = assessed.app
    last = max(record.time_us or 0 for record in ended)
    after = sum(t.time_us > last for t in query.triggers) if last else 0
    recovered = after >= 3
    error = shorten(error_of(ended[-1].cause), 200)
    runs = len(query.runs)
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING if recovered else Severity.CRITICAL,
        state=State.RECOVERED if recovered else State.ONGOING,
        subject=j.query_subject(app, query),
        title=(
            f"{len(ended)} of {runs} run{'s' if runs > 1 else ''} of query {query.name or query.id} "
            f"ended with an exception: {error}"
        ),
        explain=(
            "It was started again and works since."
            if recovered
            else "It processes nothing since the last one."
        ),
        why=f"ended {len(ended)} times: {error}" if len(ended) > 1 else f"ended: {error}",
        cause="failing-batches",
        rank=rank_of(record.cause for record in ended),
        first_us=min((r.time_us for r in ended if r.time_us), default=None),
        last_us=last or None,
        count=len(ended),
        measurements=(
            Measurement(
                name="failed-runs", value=len(ended), unit="runs", population=f"{runs} runs"
            ),
        ),
        evidence=j.of_records(ended),
        actions=(
            Action(
                text="Read what cannot be read tolerantly, and set it aside",
                verify="the query passes the batch that failed",
            ),
        ),
    )


RULE: Final = Rule("RT402", judge)
