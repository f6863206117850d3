"""The section about startup: how each job reached RUNNING, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.contract.startup import StartAttempt
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts.startup import waterfall
from flowdiag.cli.render.html.context import Context, Part, Section, figures, split_by_severity
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words
from flowdiag.cli.views.overview import JobSummary, verdicts_by_job
from flowdiag.cli.views.startup import attempts_by_job, worker_columns

_STARTS: Final = 3
_CAUSE: Final = 160
_WORKERS: Final = 12
_TITLE: Final = "From submission to RUNNING"


def section(context: Context) -> Section | None:
    """Return the start of the cluster and of each job, or None for a report without a start."""
    data = context.report.data
    jobs = attempts_by_job(context.report)
    if not jobs and not data.cluster:
        return None
    verdicts = verdicts_by_job(context.report)

    def summary_of(attempts: list[StartAttempt]) -> JobSummary:
        verdict, cause = verdicts.get(attempts[0].job_id, ("healthy", None))
        return JobSummary(attempts[0].job_name or attempts[0].job_id, verdict, cause, "")

    overview, shown = split_by_severity(list(jobs.values()), summary_of, context.page)
    parts = [_job(attempts, context) for attempts in shown]
    # The cluster is shown alone, or if one of its steps never ended.
    cluster = _cluster(context, alone=not jobs)
    workers = [worker for worker in data.workers or () if worker.registered_at is None]
    table_of_workers = table(worker_columns(context.clock), workers, _WORKERS)
    tables = [("TaskManagers that never registered", table_of_workers)] if workers else []
    return Section(
        title="Startup",
        count=fmt.plural(len(data.attempts or ()), "start") if jobs else "",
        shown={"overview": overview, "parts": [*cluster, *parts], "tables": tables},
    )


def _cluster(context: Context, *, alone: bool) -> list[Part]:
    steps = context.report.data.cluster or []
    if not steps or not (alone or any(step.ended_at is None for step in steps)):
        return []
    figure = waterfall(steps, None, "The cluster, before any job", context.renderer)
    return [Part(title="Cluster", figures=figures(figure))]


def _job(attempts: Sequence[StartAttempt], context: Context) -> Part:
    first = attempts[0]
    restarts = sum(attempt.kind == "restart" for attempt in attempts)
    counted = fmt.plural(len(attempts), "start")
    counted += f", {fmt.plural(restarts, 'restart')}" if restarts else ""
    shown = list(attempts) if len(attempts) <= _STARTS else [first, *attempts[1 - _STARTS :]]
    lines = [counted, *(_attempt_line(attempt) for attempt in shown)]
    hidden = len(attempts) - len(shown)
    lines += [f"{hidden} starts between them are left out"] if hidden else []
    drawn = [
        waterfall(
            attempt.steps,
            attempt.slowest,
            f"{_TITLE}, start {attempt.number + 1}" if len(attempts) > 1 else _TITLE,
            context.renderer,
        )
        for attempt in _drawn_attempts(attempts)
    ]
    return Part(title=first.job_name or first.job_id, lines=lines, figures=figures(*drawn))


def _drawn_attempts(attempts: Sequence[StartAttempt]) -> list[StartAttempt]:
    """Return the first start, and the last of the starts that got furthest."""
    if len(attempts) <= 2:
        return list(attempts)
    latest = max(attempts[1 - _STARTS :], key=lambda attempt: (len(attempt.steps), attempt.number))
    return [attempts[0], latest]


def _attempt_line(attempt: StartAttempt) -> str:
    text = f"{attempt.number + 1}. {attempt.kind}: "
    if attempt.running_after_ms is not None:
        text += f"RUNNING after {fmt.duration(attempt.running_after_ms)}"
    else:
        text += f"stuck in {attempt.held or 'an unknown step'}"
    if attempt.required_slots and attempt.acquired_slots is not None:
        text += f", {attempt.acquired_slots} of {attempt.required_slots} slots"
    text += f", after {attempt.trigger}" if attempt.trigger else ""
    if attempt.cause:
        cause = words.compact(attempt.cause.split("\n", 1)[0])
        text += f": {fmt.shorten(cause, _CAUSE)}"
    return text
