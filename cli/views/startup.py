"""The view of `flowdiag startup`: the starts of each job as timelines with a bar for each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.contract.startup import JobScheduling, StartAttempt, StartStep, StartWorker
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Bar, Column, Indented, Listing, and_more, block, heading, line
from flowdiag.cli.text.page import TERSEST, Page
from flowdiag.cli.text.words import Clock
from flowdiag.cli.views.overview import JobSummary, split_by_severity, verdicts_by_job

_BAR: Final = 32
# By `Page.terse`: starts of a job, characters of a cause, TaskManagers that have not registered.
_STARTS: Final = (3, 2, 2, 1, 1)
_CAUSE: Final = (160, 120, 120, 100, 80)
_WORKERS: Final = (12, 8, 6, 4, 3)
_OVER_TASKMANAGERS: Final = ("registration", "workers", "restore")


def blocks(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """Return the start of the cluster, the starts of each job, and the requested TaskManagers."""
    data = report.data
    shown = _cluster(data.cluster or [], page)
    jobs = attempts_by_job(report)
    schedulings = {scheduling.job_id: scheduling for scheduling in reversed(data.scheduling or ())}
    verdicts = verdicts_by_job(report)
    overview, in_full = split_by_severity(
        "Jobs", list(jobs.values()), lambda attempts: _summary_of(attempts, verdicts), page
    )
    shown += overview
    shown += [_job(attempts, schedulings.get(attempts[0].job_id), page) for attempts in in_full]
    workers = data.workers or []
    late = [worker for worker in workers if worker.registered_at is None]
    if late or (workers and page.verbose):
        shown.append(_workers(workers if page.verbose else late, page, clock))
    return shown


def _cluster(steps: Sequence[StartStep], page: Page) -> list[RenderableType]:
    held = any(step.ended_at is None for step in steps)
    if not steps or (page.terse >= 2 and not held):
        return []
    return [Group(heading("Cluster", "before any job"), Indented(_steps(steps, page)))]


def attempts_by_job(report: Report) -> dict[str, list[StartAttempt]]:
    found: dict[str, list[StartAttempt]] = {}
    for attempt in report.data.attempts or ():
        found.setdefault(attempt.job_id, []).append(attempt)
    return found


def _summary_of(
    attempts: Sequence[StartAttempt], verdicts: Mapping[str, tuple[str, str | None]]
) -> JobSummary:
    last = attempts[-1]
    verdict, cause = verdicts.get(last.job_id, ("healthy", None))
    facts = f"{fmt.plural(len(attempts), 'start')}, {_outcome(last)}"
    return JobSummary(last.job_name or last.job_id, verdict, cause, facts)


def _outcome(attempt: StartAttempt) -> str:
    if attempt.running_after_ms is not None:
        return f"RUNNING after {fmt.duration(attempt.running_after_ms)}"
    return f"stuck in {attempt.held or '?'}"


def _job(
    attempts: Sequence[StartAttempt], scheduling: JobScheduling | None, page: Page
) -> RenderableType:
    restarts = sum(attempt.kind == "restart" for attempt in attempts)
    name = printable(attempts[0].job_name or attempts[0].job_id)
    title = heading("Starts", f"{name} · {fmt.plural(len(attempts), 'start')}")
    title.append(f", {fmt.plural(restarts, 'restart')}" if restarts else "")
    lines: list[RenderableType] = []
    facts = _scheduling(scheduling) if scheduling is not None and page.terse < 2 else ""
    if facts:
        lines.append(line(facts, "dim"))
    shown = _shown_attempts(attempts, page)
    for attempt, after in zip(shown, [*shown[1:], None], strict=True):
        lines.append(_attempt(attempt, page))
        skipped = 0 if after is None else after.number - attempt.number - 1
        lines += and_more(skipped, fmt.plural(skipped, "start").partition(" ")[2])
    hidden = len(attempts) - (shown[-1].number - shown[0].number + 1)
    lines += and_more(hidden, fmt.plural(hidden, "start").partition(" ")[2])
    return block(title, *lines)


def _shown_attempts(attempts: Sequence[StartAttempt], page: Page) -> list[StartAttempt]:
    """Return the first and the last starts. If only one fits, return the last start that did not finish."""
    most = _STARTS[page.terse]
    if page.verbose or len(attempts) <= most:
        return list(attempts)
    if most == 1:
        held = [attempt for attempt in attempts if attempt.running_after_ms is None]
        return [held[-1] if held else attempts[-1]]
    return [attempts[0], *attempts[1 - most :]]


def _scheduling(job: JobScheduling) -> str:
    facts = []
    if job.scheduler or job.scheduling_strategy:
        facts.append(" ".join(filter(None, [job.scheduler, "scheduler"])))
    if job.failover_strategy:
        facts.append(f"failover {job.failover_strategy}")
    if job.restart_strategy:
        facts.append(f"restarts {job.restart_strategy}")
    if job.parallelism:
        facts.append(f"{fmt.plural(job.tasks, 'task')}, widest {job.parallelism}")
    if job.spread:
        most = ", ".join(f"{share.taskmanager} {share.tasks}" for share in job.spread[:4])
        more = f", … {len(job.spread)} TaskManagers" if len(job.spread) > 4 else ""
        facts.append(f"spread: {most}{more}")
    return printable(" · ".join(facts))


def _attempt(attempt: StartAttempt, page: Page) -> RenderableType:
    title = Text.assemble((f"{attempt.number + 1}. {attempt.kind}", "bold"))
    running = attempt.running_after_ms is not None
    title.append(f" · {_outcome(attempt)}", "green" if running else "bold red")
    if attempt.trigger:
        title.append(f" · after {printable(attempt.trigger)}")
    lines: list[RenderableType] = [title]
    if attempt.cause:
        cause = attempt.cause.split("\n", 1)[0]
        cause = cause if page.verbose else words.compact(cause)
        cause = fmt.shorten(printable(cause), _CAUSE[page.terse])
        lines.append(Indented(line(cause, "dim")))
    if attempt.required_slots and attempt.acquired_slots is not None:
        text = f"slots: {attempt.required_slots} required, {attempt.acquired_slots} acquired"
        style = "yellow" if attempt.acquired_slots < attempt.required_slots else "dim"
        lines.append(Indented(Text(text, style)))
    if attempt.steps and page.terse < TERSEST:
        lines.append(Indented(_steps(attempt.steps, page, slowest=attempt.slowest)))
    return Group(*lines)


def _steps(steps: Sequence[StartStep], page: Page, slowest: str | None = None) -> RenderableType:
    begin, end = _span(steps)

    def style(step: StartStep) -> str:
        return "bold red" if step.ended_at is None else "bold" if step.step == slowest else ""

    def bar(step: StartStep) -> Bar:
        return Bar(partial(_bar, step, begin, end, "█" if page.unicode else "#"), _BAR, least=8)

    facts = [Column("", lambda step: Text(_facts(step), "dim"), "wrap")] if page.terse < 2 else []
    return Listing(
        steps,
        Column("", lambda step: step.step, "left"),
        Column("", _duration_text),
        Column("", bar, "left"),
        *facts,
        heads=None,
        style=style,
    )


def _duration_text(step: StartStep) -> str:
    lasted = fmt.duration(step.duration_ms) if step.duration_ms is not None else "?"
    return f"{lasted}{'+' if step.ended_at is None else ''}"


def _facts(step: StartStep) -> str:
    facts = []
    if step.tasks:
        what = "TaskManager" if step.step in _OVER_TASKMANAGERS else "task"
        facts.append(
            f"{fmt.plural(step.tasks, what)}: median {fmt.duration(step.p50_ms)}, "
            f"p95 {fmt.duration(step.p95_ms)}"
        )
    if step.subject is not None:
        who = step.subject.task
        if who is not None and step.subject.subtask_index is not None:
            who = f"{who} ({step.subject.subtask_index + 1})"
        place = step.subject.taskmanager
        facts.append("last: " + " on ".join(filter(None, [who, place])))
    return printable(" · ".join(facts))


def _ms(text: str | None) -> float | None:
    if text is None:
        return None
    return datetime.fromisoformat(text).timestamp() * 1000


def _span(steps: Iterable[StartStep]) -> tuple[float, float]:
    begins, ends = [], []
    for step in steps:
        begin = _ms(step.started_at)
        if begin is not None:
            begins.append(begin)
            ends.append(begin + (step.duration_ms or 0))
    return min(begins, default=0.0), max(ends, default=1.0)


def _bar(step: StartStep, begin: float, end: float, full: str, cells: int) -> Text:
    """Draw a step's time span within the span of the whole start."""
    started = _ms(step.started_at)
    if started is None:
        return Text()
    scale = cells / max(end - begin, 1.0)
    left = min(round((started - begin) * scale), cells - 1)
    width = max(1, round((step.duration_ms or 0) * scale))
    style = "red" if step.ended_at is None else "blue"
    return Text(" " * left + full * min(width, cells - left), style)


def _workers(workers: Sequence[StartWorker], page: Page, clock: Clock) -> RenderableType:
    shown = workers if page.verbose else workers[: _WORKERS[page.terse]]
    table = Listing(shown, *worker_columns(clock))
    return block("Workers", table, *and_more(len(workers) - len(shown)))


def worker_columns(clock: Clock) -> tuple[Column, ...]:
    """Return the columns of requested TaskManagers."""

    def registered(worker: StartWorker) -> Text:
        style = "" if worker.registered_at else "red"
        return Text(clock.show(worker.registered_at, date=False), style)

    def ended(worker: StartWorker) -> str:
        return f"{clock.show(worker.ended_at, date=False)} {worker.diagnostics or ''}".rstrip()

    return (
        Column("TaskManager", lambda worker: worker.taskmanager, "wrap"),
        Column("requested", lambda worker: clock.show(worker.requested_at, date=False), "wrap"),
        Column("registered", registered, "wrap"),
        Column("ended", ended, "wrap"),
    )
