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
Terminated events with an exception, from event log, listener or driver's log, each run once, and
exceptions that stand by themselves and name no batch; the cause is the deepest that says why. A
query that was stopped, or whose job was cancelled with the application, has not failed. One that
went on for `worked` triggers after the last exception has recovered.

What to do
----------
Read the error below. A row that cannot be read: parse it tolerantly and set it aside. Failures of
the source or the sink: see whether they are transient.

False alarms
------------
Tests that end queries by an exception on purpose.
"""

from __future__ import annotations

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.said import (
    actions_of,
    actions_of_failure,
    cause_of,
    class_of,
    explained_by,
    numbers_of,
)
from flowdiag.analyses.rate.troubles import error_line, rank_of


class Failing(h.Limits):
    """What RT402 compares with."""

    worked: float = h.limit(
        h.defaults.WORKED, "triggers", "after the last exception: it works again"
    )


def judge(assessed: h.Assessed, limits: Failing) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per query that failed."""
    for query, _ in assessed.queries:
        ended: dict[str, h.Record] = {}
        told = [*h.parts.exception_records(query)]
        for record in told:
            # The longest text names the cause; the log and the listener both tell of it.
            run = record.fields.get("run_id", "")
            known = ended.get(run)
            if known is None or len(known.cause or "") < len(record.cause or ""):
                ended[run] = record
        if ended:
            # Event logs do not say when a query ended, logs and listeners do.
            last = max(record.time_us or 0 for record in told)
            yield _finding(assessed, query, list(ended.values()), last, limits)


def _finding(
    assessed: h.Assessed, query: h.QueryFacts, ended: list[h.Record], last: int, limits: Failing
) -> h.Finding:
    found = class_of(ended[-1])
    cause, names = cause_of(found)
    pasted = all(record.fields.get("origin") == "paste" for record in ended)
    after = _after(query, {record.fields.get("run_id") for record in ended}, last)
    recovered = after >= limits.worked
    error = h.fmt.shorten(error_line(ended[-1].cause), 200)
    shown = h.without_package(error)
    runs = len(query.runs)
    return h.query_finding(
        assessed,
        query,
        severity=h.Severity.WARNING if recovered else h.Severity.CRITICAL,
        state=h.State.RECOVERED if recovered else h.State.ONGOING,
        title=f"{_who(query)} ended with an exception: {shown}"
        if pasted or len(ended) == runs == 1
        else f"{len(ended)} of {h.fmt.plural(runs, 'run')} of {query.label} "
        f"ended with an exception: {shown}",
        explain=" ".join(
            filter(
                None,
                (
                    explained_by(found),
                    _explain(
                        cause,
                        len(ended),
                        after,
                        recovered=recovered,
                        pasted=pasted,
                        again=_begun(query, last),
                    ),
                ),
            )
        ),
        why=f"ended {len(ended)} times: {error}" if len(ended) > 1 else f"ended: {error}",
        cause=cause,
        rank=rank_of(record.cause for record in ended),
        first_us=min((r.time_us for r in ended if r.time_us), default=None),
        last_us=last or None,
        count=len(ended),
        measurements=(
            h.measurement("failed-runs", len(ended), "runs", over=h.fmt.plural(runs, "run")),
            *numbers_of(found),
        ),
        evidence=h.evidence_of(ended),
        actions=actions_of(assessed, cause, names, found, ended[-1])
        if cause != "failing-batches"
        else actions_of_failure(assessed, ended[-1], error, "tolerate"),
    )


def _who(query: h.QueryFacts) -> str:
    known = query.name or query.id
    return f"Query {known}" if known else "The application"


def _after(query: h.QueryFacts, failed: set[str | None], last: int) -> int:
    """Triggers that worked after the last exception: by their time, else those of a run that did not fail."""
    if last:
        return sum(trigger.time_us > last for trigger in query.triggers)
    runs = [trigger.run_id for trigger in query.triggers]
    known = [number for number, run in enumerate(runs) if run in failed]
    return sum(run not in failed for run in runs[known[-1] :]) if known else 0


def _begun(query: h.QueryFacts, last: int) -> bool:
    """Whether the query was started again after its last exception, as a new run."""
    return bool(last) and any(
        record.fields.get("what") == "started" and (record.time_us or 0) > last
        for record in query.events
    )


def _explain(
    cause: str, times: int, after: int, *, recovered: bool, pasted: bool, again: bool
) -> str:
    if recovered:
        return "It was started again and works since."
    if pasted:
        return h.explanation(cause) or "No input says whether it was started again."
    if after:
        return f"It was started again; {h.fmt.plural(after, 'trigger')} since then may be too few."
    if again:
        return "It was started again as a new run; the input has no trigger of that."
    more = "It was started again and failed again. " if times > 1 else ""
    return f"{more}No trigger of this application follows."


RULE = h.Rule(
    "RT402",
    judge,
    Failing,
    causes=(*dict.fromkeys(("failing-batches", *(word for word, _ in CAUSE_OF_CLASS.values()))),),
)
