"""Output operations of batches fail.

What it reports
---------------
Batches of which an output operation failed: how many, which operation, with what error, and whether
the last ones failed too.

Why it matters
--------------
The records of such a batch are not written, and unless the job reads them again they are lost. A
failed batch is short, and the rate estimator takes it for a fast one: it raises the rate.

How it decides
--------------
From the listener, REST or the log: output operations with a failure reason. An event log alone
shows failed Spark jobs; an output operation may fail without one. Failures that come from stopping
the application do not count. Critical when `failed-share` of the batches or more failed, or the
`last` ones, and one of the `recent` ones (the last third of the batches, so many at least) did;
without one among those it is over. An exception that stands by itself and was thrown in a batch of a
DStream counts as one that failed, critical; its cause is the deepest that says why. Where nothing names an
application, a batch or a query, exceptions of tasks count: critical where Spark gave the job up for
them, with medium confidence where no line tells what the next attempt brought.

What to do
----------
Read the deepest cause below. Make the function skip or set aside records it cannot handle; retry
what is transient inside it.

False alarms
------------
Functions that fail on purpose, for example to have a batch tried again elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.facts import Output
from flowdiag.analyses.rate.said import (
    actions_of,
    actions_of_failure,
    cause_of,
    class_of,
    explained_by,
    numbers_of,
    remedies_of_failure,
)
from flowdiag.analyses.rate.troubles import error_line, rank_of


class Failing(h.Limits):
    """What RT103 compares with."""

    failed_share: float = h.limit(
        h.defaults.FAILED_SHARE, "share", "one in twenty batches lost is data loss, not an incident"
    )
    last: float = h.limit(h.defaults.FAILED_LAST, "batches", "it does not work any more")
    recent: float = h.limit(10, "batches", "or the last third: what failed in them is not over")


def judge(assessed: h.Assessed, limits: Failing) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application with failed batches."""
    for _ in assessed.dstreams:
        failed = h.batches.failed_batches(assessed.app)
        if failed:
            yield _finding(assessed, failed, limits)
    pasted = [one for one in assessed.app.incidents if one.fields.get("origin") == "paste"]
    if pasted:
        yield _told(assessed, pasted)
    elif tasks := h.batches.failed_tasks(assessed.app):
        yield _of_tasks(assessed, tasks)


def _most_told(errors: Iterable[str]) -> str:
    """The error that most failures have; what Py4J says, of a trace that was cut, only if nobody says more."""
    told = [*errors]
    causes = [error for error in told if not error.startswith("py4j.")]
    return Counter(causes or told).most_common(1)[0][0]


def _finding(assessed: h.Assessed, failed: tuple[h.Batch, ...], limits: Failing) -> h.Finding:
    app, done = assessed.app, assessed.app.completed
    numbers = {b.time_ms for b in failed}
    outputs = [one for one in app.outputs if one.batch_ms in numbers]
    reasons = [one.failure for one in outputs] or [b.reason for b in failed]
    share = len(failed) / len(done)
    at_the_end = all(b.time_ms in numbers for b in done[-int(limits.last) :])
    recent = done[-max(int(limits.recent), len(done) // 3) :]
    state = h.State.ONGOING if any(b.time_ms in numbers for b in recent) else h.State.RECOVERED
    fatal = (
        state is h.State.ONGOING
        and len(failed) > 1
        and (share >= limits.failed_share or at_the_end)
    )
    error = h.fmt.shorten(_most_told(map(error_line, reasons)), 200)
    faster = (
        "A failed batch ends early, so that the rate estimator takes the job for faster than it is."
    )
    return h.batch_finding(
        assessed,
        failed,
        subject=_subject(assessed, outputs) or h.application_subject(app),
        severity=h.Severity.CRITICAL if fatal else h.grade(state=state, share=share),
        state=state,
        title=f"{len(failed)} of {h.fmt.plural(len(done), 'batch', 'batches')} failed: {error}",
        explain="The records of these batches were not written."
        + (f" {faster}" if assessed.estimators else ""),
        why=f"fails in {len(failed)} of {h.fmt.plural(len(done), 'batch', 'batches')}: {error}",
        cause="failing-batches",
        rank=rank_of(reasons),
        measurements=(
            h.measurement("failed-batches", len(failed), "batches", over=f"{len(done)} completed"),
            h.measurement("failed-share", round(share, 4), "share", limits.failed_share),
        ),
        evidence=h.cite((one.ref, one.batch_ms * 1000) for one in outputs) or h.evidence_of(failed),
        actions=h.remedies("failing-batches", app, *remedies_of_failure(error, "catch")),
    )


def _told(assessed: h.Assessed, records: list[h.Record]) -> h.Finding:
    """Batches of which only the exception is there."""
    return _by_exception(
        assessed,
        records,
        "a batch failed",
        h.fmt.shorten(error_line(records[-1].cause), 200),
        severity=h.Severity.CRITICAL,
    )


def _of_tasks(assessed: h.Assessed, records: list[h.Record]) -> h.Finding:
    """Tasks of a fragment that tells of no batch: whether one failed for them is known where Spark gave the job up."""
    given_up = any(one.template == "job-given-up" for one in assessed.app.incidents)
    tasks = len({one.fields.get("task_id") for one in records})
    what_followed = (
        "Spark gave the job up: its batch failed."
        if given_up
        else "Spark tries a task again, four times by default; no line tells whether that helped."
    )
    return _by_exception(
        assessed,
        records,
        f"{h.fmt.plural(tasks, 'task')} failed{', and the job was given up' if given_up else ''}",
        h.fmt.shorten(_most_told(error_line(one.cause) for one in records), 200),
        what_followed,
        severity=h.Severity.CRITICAL if given_up else h.Severity.WARNING,
        confidence=h.Confidence.HIGH if given_up else h.Confidence.MEDIUM,
    )


def _by_exception(
    assessed: h.Assessed,
    records: list[h.Record],
    failed: str,
    error: str,
    what_followed: str = "",
    **said: Any,
) -> h.Finding:
    """A failure of which nothing but exceptions tells: their class says the cause and what to do."""
    found = class_of(records[-1])
    cause, names = cause_of(found)
    times = [one.time_us for one in records if one.time_us]
    explanation = h.explanation(cause) or "What was to be processed then is not written."
    return h.application_finding(
        assessed,
        title=f"{h.fmt.capital(failed)}: {h.without_package(error)}",
        explain=" ".join(filter(None, (explained_by(found), explanation, what_followed))),
        why=f"{failed}: {error}",
        cause=cause,
        rank=rank_of(one.cause for one in records),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(records),
        measurements=tuple(numbers_of(found)),
        evidence=h.evidence_of(records),
        actions=actions_of(assessed, cause, names, found, records[-1])
        if cause != "failing-batches"
        else actions_of_failure(assessed, records[-1], error, "catch"),
        **said,
    )


def _subject(assessed: h.Assessed, outputs: h.Sequence[Output]) -> h.Subject | None:
    """The output operation that fails most often; None: nothing tells which."""
    if not outputs:
        return None
    most = Counter(one.output for one in outputs).most_common(1)[0][0]
    return h.Subject(
        kind="output",
        job_name=assessed.app.name,
        application=assessed.app.application,
        operator=next(one.name for one in outputs if one.output == most),
        output_operation=most,
    )


RULE = h.Rule(
    "RT103",
    judge,
    Failing,
    causes=(*dict.fromkeys(("failing-batches", *(word for word, _ in CAUSE_OF_CLASS.values()))),),
)
