"""Findings about failed batches, and about exceptions without a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Unpack

from flowdiag.analyses.knowledge.message_advice import origin_note, with_advice
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.recurring import recurrence
from flowdiag.analyses.rate.failures import exceptions
from flowdiag.analyses.rate.failures.troubles import error_line, failure_rank
from flowdiag.parsers.spark import NO_REASON


def _most_frequent(errors: Iterable[str]) -> str:
    """Return the most frequent error. Py4J errors of truncated traces count only if there are no others."""
    lines = [*errors]
    causes = [line for line in lines if not line.startswith("py4j.")]
    return Counter(causes or lines).most_common(1)[0][0]


def reprinted_exceptions(app: h.ApplicationFacts, failed: h.Sequence[h.Batch]) -> list[h.Record]:
    """Return exceptions of failed batches that the script printed again when it ended, without the batch."""
    known = {error_line(reason) for reason in _reasons(app, failed)}
    return [
        record
        for record in app.incidents
        if record.fields.get("origin") == "paste" and error_line(record.cause) in known
    ]


def _reasons(app: h.ApplicationFacts, failed: h.Sequence[h.Batch]) -> h.Sequence[str | None]:
    times = {b.time_ms for b in failed}
    found = [o.failure for o in app.outputs if o.batch_ms in times] or [b.reason for b in failed]
    is_known = any(reason not in (None, "", NO_REASON) for reason in found)
    return found if is_known or not found else _task_failures(app) or [None for _ in found]


def _task_failures(app: h.ApplicationFacts) -> h.Sequence[str | None]:
    """Return the last exception of a task or batch, to explain batches whose record has none."""
    records = [r for r in app.incidents if r.template in ("task-lost", "task-exception")]
    records += [r for r in app.failures if r.fields.get("ended") == "batch"]
    found = [r.cause for r in sorted(records, key=lambda r: r.time_us or 0)]
    return [cause for cause in found if cause][-1:]


def failed_batches(
    assessed: h.AssessedApplication,
    failed: tuple[h.Batch, ...],
    *,
    printed: h.Sequence[h.Record],
    failed_share: float,
    last: float,
    recent: float,
) -> h.Finding:
    """Return the finding about batches with a failed output operation.

    Args:
        assessed: the application.
        failed: its failed batches.
        printed: their exceptions that the script printed when it ended.
        failed_share: share of all batches at which the finding is critical.
        last: number of failed batches at the end that make the finding critical.
        recent: number of batches at the end that must be free of failures for a recovery.
    """
    app, done = assessed.app, assessed.app.completed
    times = {b.time_ms for b in failed}
    outputs = [output for output in app.outputs if output.batch_ms in times]
    reasons = _reasons(app, failed)
    share = len(failed) / len(done)
    at_end = times.issuperset(b.time_ms for b in done[-int(last) :])
    state, fatal = h.State.RECOVERED, False
    if times.intersection(b.time_ms for b in done[-max(int(recent), len(done) // 3) :]):
        state, fatal = h.State.ONGOING, len(failed) > 1 and (share >= failed_share or at_end)
    error = h.fmt.shorten(_most_frequent(map(error_line, reasons)), 400)
    of = f"{len(failed)} of {h.fmt.plural(len(done), 'batch', 'batches')}"
    explain = "The records of these batches were not written."
    actions = with_advice(
        h.remedies("failing-batches", app, *exceptions.failure_remedies(error, "catch")), error
    )
    if not any(reasons):
        actions = (h.Action(text="Read the driver's log below this record for the exception"),)
    if printed:
        state, fatal = h.State.ONGOING, True
        explain += " The exception ended the script."
        actions = exceptions.failure_actions(assessed, printed[-1], error, "catch")
    if assessed.estimators:
        explain += (
            " A failed batch ends early, so the rate estimator overestimates the speed of the job."
        )
    return h.batch_finding(
        assessed,
        failed,
        subject=_output_subject(assessed.app, outputs),
        severity=h.grade(state=state, share=share, fatal=fatal),
        state=state,
        title=f"{of} failed: {error}",
        explain=explain,
        why=f"fails in {of}: {error}",
        cause="failing-batches",
        rank=failure_rank(reasons),
        measurements=(
            h.measurement("failed-batches", len(failed), "batches", over=f"{len(done)} completed"),
            h.measurement("failed-share", round(share, 4), "share", failed_share),
        ),
        evidence=h.cite((output.ref, output.batch_ms * 1000) for output in outputs)
        or h.evidence_of(failed),
        actions=actions,
    )


def _output_subject(app: h.ApplicationFacts, outputs: h.Sequence[h.Output]) -> h.Subject:
    """Return the output operation that failed most often, or the application if none is known."""
    if not outputs:
        return h.application_subject(app)
    most = Counter(output.output for output in outputs).most_common(1)[0][0]
    return h.Subject(
        kind="output",
        job_name=app.name,
        application=app.application,
        operator=next(output.name for output in outputs if output.output == most),
        output_operation=most,
    )


def pasted_exceptions(assessed: h.AssessedApplication, records: list[h.Record]) -> h.Finding:
    """Return the finding about a batch if the input contains only its exception."""
    error = h.fmt.shorten(error_line(records[-1].cause), 400)
    return _exception_finding(
        assessed, records, "a batch failed", error, severity=h.Severity.CRITICAL
    )


def failed_tasks(assessed: h.AssessedApplication, records: list[h.Record]) -> h.Finding:
    """Return the finding about task exceptions in a fragment without batches.

    It is only certain that their batch failed if Spark aborted the job.
    """
    given_up = bool(assessed.app.incidents_of("job-given-up")) or any(
        failure.fields.get("ended") == "batch" for failure in assessed.app.failures
    )
    tasks = len({record.fields.get("task_id") for record in records})
    error = h.fmt.shorten(_most_frequent(error_line(record.cause) for record in records), 400)
    return _exception_finding(
        assessed,
        records,
        f"{h.fmt.plural(tasks, 'task')} failed{', and Spark aborted the job' if given_up else ''}",
        error,
        "Spark aborted the job, so its batch failed."
        if given_up
        else "Spark runs a task up to four times by default. The logs do not show whether a "
        "retry succeeded.",
        severity=h.Severity.CRITICAL if given_up else h.Severity.WARNING,
        confidence=h.Confidence.HIGH if given_up else h.Confidence.MEDIUM,
    )


def handled_failures(assessed: h.AssessedApplication, records: list[h.Record]) -> h.Finding:
    """Return the finding about failed jobs whose exception the application caught."""
    jobs = len({record.fields.get("stage", number) for number, record in enumerate(records)})
    error = h.fmt.shorten(_most_frequent(error_line(record.cause) for record in records), 400)
    named = {query.label for query, _ in assessed.queries}
    of = f" of {named.pop()}" if len(named) == 1 else ""
    return _exception_finding(
        assessed,
        records,
        f"{h.fmt.plural(jobs, 'job')}{of} failed, and the code caught the exception",
        error,
        "Spark counts the batch as done, because the function of the batch ended without an exception. Check whether "
        "the code writes these records again.",
        severity=h.Severity.WARNING,
    )


def retried_tasks(assessed: h.AssessedApplication, records: list[h.Record]) -> h.Finding:
    """Return the finding about task exceptions after which a retry succeeded."""
    tasks = len({record.fields.get("task_id") for record in records})
    error = h.fmt.shorten(_most_frequent(error_line(record.cause) for record in records), 400)
    outcome = ", and a retry succeeded"
    fields: h.SubjectFields = {"severity": h.Severity.INFO, "state": h.State.RECOVERED}
    if recurs := recurrence(assessed.app, records):
        fields = {"severity": h.Severity.WARNING, "state": h.State.ONGOING}
        outcome = ", and tasks keep failing until the end of the input"
        if recurs.among:
            outcome = f" in {recurs.affected} of the last {recurs.among} {recurs.unit}"
    return _exception_finding(
        assessed,
        records,
        f"{h.fmt.plural(tasks, 'task')} failed{outcome}",
        error,
        "No batch was lost, but a task that fails four times fails its batch.",
        **fields,
    )


def _executor_of(records: list[h.Record]) -> str | None:
    """Return the executor and host of all these failures, or None if they differ or are unknown."""
    places = {(record.fields.get("executor"), record.host) for record in records}
    executor, host = places.pop()
    return f"executor {executor} on {host}" if executor and host and not places else None


def _exception_finding(
    assessed: h.AssessedApplication,
    records: list[h.Record],
    failed: str,
    error: str,
    outcome: str = "",
    **fields: Unpack[h.SubjectFields],
) -> h.Finding:
    """Return a finding based on exceptions alone, whose class determines the cause and the remedies."""
    found = exceptions.classify_record(records[-1])
    cause, _ = exceptions.cause_of_exception(found)
    times = [record.time_us for record in records if record.time_us]
    explain = h.explanation(cause) or "The records of this batch were not written."
    filled: h.SubjectFields = {
        "title": f"{h.fmt.capital(failed)}: {h.without_package(error)}",
        "explain": " ".join(
            filter(
                None,
                (
                    exceptions.process_note(found),
                    explain,
                    outcome,
                    origin_note(records[-1].fields, _executor_of(records), error),
                ),
            )
        ),
        "why": f"{failed}: {error}",
        "cause": cause,
        "rank": failure_rank(record.cause for record in records),
        "first_us": min(times, default=None),
        "last_us": max(times, default=None),
        "count": len(records),
        "measurements": tuple(exceptions.exception_measurements(found)),
        "evidence": h.evidence_of(records),
        "actions": exceptions.failure_actions(assessed, records[-1], error, "catch"),
    }
    return h.application_finding(assessed, **(filled | fields))
