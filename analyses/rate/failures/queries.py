"""Findings about queries that an exception ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Final

from flowdiag.analyses.knowledge.message_advice import named_target, origin_note
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures import exceptions
from flowdiag.analyses.rate.failures.troubles import error_line, failure_rank
from flowdiag.parsers.exceptions import Classified


def failed_query(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    records: h.Sequence[h.Record],
    *,
    worked: float,
) -> h.Finding:
    """Return the finding about a query whose runs ended with an exception.

    Args:
        assessed: the application.
        query: one of its queries.
        records: the ends of its runs; log and listener may both contain the same end.
        worked: number of triggers after the last exception that prove a recovery.
    """
    ended, runs = _ends_by_run(records), len(query.runs)
    # Event logs contain no time for the end of a query, but logs and listeners do.
    last = max(record.time_us or 0 for record in records)
    found = exceptions.classify_record(ended[-1])
    cause, missing = _cause_of(assessed, ended[-1], found)
    pasted = all(record.fields.get("origin") == "paste" for record in ended)
    after = _triggers_after(query, {record.fields.get("run_id") for record in ended}, last)
    recovered = after >= worked
    severity, state = h.Severity.CRITICAL, h.State.ONGOING
    if recovered:
        severity, state = h.Severity.WARNING, h.State.RECOVERED
    error = _error_of(ended[-1], cause, missing)
    times = f" {len(ended)} times" if len(ended) > 1 else ""
    outcome = h.explanation(cause) or _UNKNOWN_OUTCOME
    if recovered or not pasted:
        outcome = _outcome(query, len(ended), after, last, recovered=recovered)
    going_on = "" if recovered else _other_queries(assessed, query, last)
    title = _title(_failed_runs(query, len(ended), pasted=pasted), ended, continues=bool(going_on))
    return h.query_finding(
        assessed,
        query,
        severity=severity,
        state=state,
        title=f"{title}: {h.without_package(error)}",
        explain=" ".join(
            filter(
                None,
                (
                    exceptions.process_note(found),
                    outcome,
                    going_on,
                    origin_note(ended[-1].fields, shown=error),
                ),
            )
        ),
        why=f"ended{times}: {error}",
        cause=cause,
        rank=failure_rank(record.cause for record in ended),
        first_us=min((r.time_us for r in ended if r.time_us), default=None),
        last_us=last or None,
        count=len(ended),
        measurements=(
            h.measurement("failed-runs", len(ended), "runs", over=h.fmt.plural(runs, "run")),
            *exceptions.exception_measurements(found),
        ),
        evidence=h.evidence_of([*ended, *missing]),
        actions=_actions(assessed, ended[-1], error, missing),
    )


def _cause_of(
    assessed: h.AssessedApplication, last: h.Record, found: Classified | None
) -> tuple[str, list[h.Record]]:
    """Return the cause, and the record about a missing topic if a timeout for a partition of this topic hides it."""
    cause, _ = exceptions.cause_of_exception(found)
    missing = [
        record
        for record in assessed.app.incidents_of("kafka-topic-missing")
        if record.fields["topic"] in (last.cause or "")
    ][-1:]
    return ("unknown-topic", missing) if missing and cause == "kafka-timeout" else (cause, [])


def _actions(
    assessed: h.AssessedApplication, last: h.Record, error: str, missing: h.Sequence[h.Record]
) -> tuple[h.Action, ...]:
    if missing:
        return h.remedies("unknown-topic", assessed.app)
    return exceptions.failure_actions(assessed, last, error, "tolerate")


def _error_of(record: h.Record, cause: str, missing: h.Sequence[h.Record]) -> str:
    """Return the decisive line of an exception, with the topic if only an outer exception or another record names it."""
    error = h.fmt.shorten(error_line(record.cause), 400)
    if missing:
        return f"topic {missing[-1].fields['topic']} does not exist; {error}"
    topic = named_target(record.fields, error) if cause == "unknown-topic" else ""
    return f"{error.rstrip('.')} ({topic})" if topic else error


def shared_checkpoint(
    assessed: h.AssessedApplication, query: h.QueryFacts
) -> h.Iterator[h.Finding]:
    """Yield the finding about a query that a query with another name replaced at the same checkpoint location."""
    started = [record for record in query.events_of("started") if record.name]
    names = [*dict.fromkeys(record.name or "" for record in started)]
    replaced = [r for r in assessed.app.incidents_of("run-replaced") if r.fields["id"] == query.id]
    if len(names) < 2 or not replaced:
        yield from _takeover(assessed, query, started)
        return
    first, last = names[0], names[-1]
    yield h.query_finding(
        assessed,
        query,
        severity=h.Severity.CRITICAL,
        title=f"The start of query {last} stopped query {first}: both use the same checkpoint location",
        explain=f"Query {first} no longer runs. Query {last} continues at the offsets of {first}, so it skips the rows "
        "before them.",
        why=f"query {last} uses the checkpoint location of query {first}, which it stopped",
        cause="two-writers",
        rank=h.Rank.ROOT_CAUSE,
        first_us=replaced[0].time_us,
        count=len(replaced),
        evidence=h.evidence_of([*replaced, *started]),
        actions=h.remedies("two-writers", assessed.app),
    )


def _takeover(
    assessed: h.AssessedApplication, query: h.QueryFacts, started: h.Sequence[h.Record]
) -> h.Iterator[h.Finding]:
    """Yield the finding about a query that began, with another name, as soon as a run of the same query ended.

    An event log does not show that one start stopped the other run. But it shows both names of the query ID, which
    belongs to the checkpoint location.
    """
    for one, other in pairwise(started):
        if one.name != other.name and _follows_at_once(query, one, other):
            yield h.query_finding(
                assessed,
                query,
                severity=h.Severity.WARNING,
                confidence=h.Confidence.MEDIUM,
                title=f"Queries {one.name} and {other.name} use the same checkpoint location: {other.name} began as "
                f"soon as {one.name} ended",
                explain=f"The start of a second query on a checkpoint location stops the first query. Query {other.name} "
                f"continues at the offsets of {one.name}, so it skips the rows before them. If the application stops "
                f"{one.name} on purpose and only renames it, this is harmless.",
                why=f"query {other.name} uses the checkpoint location of query {one.name}, which ended when it began",
                cause="two-writers",
                rank=h.Rank.ROOT_CAUSE,
                first_us=other.time_us,
                count=1,
                evidence=h.evidence_of([other, one]),
                actions=h.remedies("two-writers", assessed.app),
            )
            return


def _follows_at_once(query: h.QueryFacts, one: h.Record, other: h.Record) -> bool:
    """Return whether a run began within an interval of the last trigger of a run that ended without an exception."""
    run = one.fields.get("run_id")
    ends = [t.time_us + (t.duration_ms or 0) * 1000 for t in query.triggers if t.run_id == run]
    failed = any(r.cause for r in query.events_of("terminated") if r.fields.get("run_id") == run)
    if failed or not ends or other.time_us is None:
        return False
    paused_us = other.time_us - max(ends)
    return paused_us <= (query.trigger_interval_ms or _AT_ONCE_MS) * 1000


_AT_ONCE_MS: Final = 5000  # without a known interval


def _other_queries(assessed: h.AssessedApplication, query: h.QueryFacts, last: int) -> str:
    """Return a sentence about the queries that continued after this query ended, or an empty string.

    Event logs contain no time for the end, so the last trigger of the query counts instead.
    """
    since = last or max((t.time_us for t in query.triggers), default=0)
    others = [
        other.label
        for other, _ in assessed.queries
        if other.id != query.id and sum(t.time_us > since for t in other.triggers) >= _CONTINUES
    ]
    if not since or not others:
        return ""
    return (
        f"The application is still running, with {h.fmt.listed(others)}, so its status shows no "
        "failure. Wait with spark.streams.awaitAnyTermination(), or monitor every query."
    )


_CONTINUES: Final = 2  # minimum number of triggers that began after the failure


def _ends_by_run(records: h.Sequence[h.Record]) -> list[h.Record]:
    """Return the record of each run that shows a known cause, or else the longest text.

    Its fields are completed from the other records of the run, such as the frame of user code.
    """
    by_run: dict[str, list[h.Record]] = defaultdict(list)
    for record in records:
        by_run[record.fields.get("run_id", "")].append(record)
    ended = []
    for same in by_run.values():
        best = max(same, key=_informative)
        # What the script prints may have another class: the exception around the cause.
        fields = {
            name: text
            for record in (*same, best)
            for name, text in record.fields.items()
            if name != "class" or record is best
        }
        ended.append(replace(best, fields=fields))
    return ended


def _informative(record: h.Record) -> tuple[bool, int]:
    """Return whether the exception of a record has a known cause, and the length of its text."""
    cause, _ = exceptions.cause_of_exception(exceptions.classify_record(record))
    return cause != "failing-batches", len(record.cause or "")


def _failed_runs(query: h.QueryFacts, failed: int, *, pasted: bool) -> str:
    """Return a phrase with the number of failed runs, or with just the query if it ran once."""
    runs = len(query.runs)
    if not pasted and not failed == runs == 1:
        return f"{failed} of {h.fmt.plural(runs, 'run')} of {query.label}"
    known = query.name or query.id
    return f"Query {known}" if known else "The application"


def _triggers_after(query: h.QueryFacts, failed: set[str | None], last: int) -> int:
    """Count the triggers after the last exception. If times are unknown, count the triggers of runs that did not
    fail.
    """
    if last:
        return sum(trigger.time_us > last for trigger in query.triggers)
    runs = [trigger.run_id for trigger in query.triggers]
    known = [number for number, run in enumerate(runs) if run in failed]
    return sum(run not in failed for run in runs[known[-1] :]) if known else 0


_PARTS: Final = {"cause": "The cause of a failure", "task": "A task failed"}
"""Titles for exceptions whose text does not show that they ended the application."""


def _title(who: str, ended: h.Sequence[h.Record], *, continues: bool) -> str:
    parts = {record.fields.get("part") for record in ended}
    if len(parts) == 1 and (part := _PARTS.get(parts.pop() or "")):
        return part
    rest = ", and the application continues without it" if continues else ""
    return f"{who} ended with an exception{rest}"


_UNKNOWN_OUTCOME: Final = "The logs do not show whether the query was restarted."


def _outcome(query: h.QueryFacts, times: int, after: int, last: int, *, recovered: bool) -> str:
    """Return a sentence on whether the query was restarted and works again."""
    if recovered:
        return "The query was restarted and has worked since."
    if after:
        return (
            f"The query was restarted. {h.fmt.plural(after, 'trigger')} since then may be too few "
            "to prove a recovery."
        )
    if last and any(r.what == "started" and (r.time_us or 0) > last for r in query.events):
        return "The query was restarted as a new run, but the input has no trigger of that run."
    more = "The query was restarted and failed again. " if times > 1 else ""
    return f"{more}The input has no later trigger of this query."
