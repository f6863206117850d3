"""The starts of a job as timelines: a row for each step, a bar for when it happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses import say
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Data
from flowdiag.analyses.startup.wire import JobScheduling, StartAttempt, StartStep, StartWorker
from flowdiag.cli.grid import Column, block, heading, line, listing, under
from flowdiag.cli.render.page import Page
from flowdiag.cli.words import Clock

_BAR: Final = 32
_SHOWN: Final = 3  # starts in full: the first, and the last ones
_WORKERS_SHOWN: Final = 12
_OVER_TASKMANAGERS: Final = ("registration", "workers", "restore")


def blocks(data: Data, page: Page, clock: Clock) -> list[RenderableType]:
    """What came before any job, the starts of each job, the workers that were asked for."""
    shown: list[RenderableType] = []
    if data.cluster:
        shown.append(Group(heading("Cluster", "before any job"), under(_steps(data.cluster, page))))
    for _, group in groupby(data.attempts or (), key=lambda attempt: attempt.job_id):
        members = list(group)
        scheduling = data.scheduling or ()
        told = next((s for s in scheduling if s.job_id == members[0].job_id), None)
        shown.append(_job(members, told, page))
    workers = data.workers or []
    late = [worker for worker in workers if worker.registered_at is None]
    if late or (workers and page.verbose):
        shown.append(_workers(workers if page.verbose else late, page))
    return shown


def _job(
    attempts: Sequence[StartAttempt], scheduling: JobScheduling | None, page: Page
) -> RenderableType:
    first = attempts[0]
    restarts = sum(attempt.kind == "restart" for attempt in attempts)
    name = printable(first.job_name or first.job_id)
    title = heading("Starts", f"{name} · {say.plural(len(attempts), 'start')}")
    title.append(f", {say.plural(restarts, 'restart')}" if restarts else "")
    shown = list(attempts)
    if not page.verbose and len(attempts) > _SHOWN:
        shown = [attempts[0], *attempts[-(_SHOWN - 1) :]]
    lines: list[RenderableType] = []
    facts = _scheduling(scheduling) if scheduling is not None else ""
    if facts:
        lines.append(line(facts, "dim"))
    for index, attempt in enumerate(shown):
        if index == 1 and len(shown) < len(attempts):
            skipped = len(attempts) - len(shown)
            lines.append(Text(f"… {skipped} more like these (-v lists all)", "dim"))
        lines.append(_attempt(attempt, page))
    return block(title, *lines)


def _scheduling(told: JobScheduling) -> str:
    facts = []
    if told.scheduler or told.scheduling_strategy:
        facts.append(" ".join(filter(None, [told.scheduler, "scheduler"])))
    if told.failover_strategy:
        facts.append(f"failover {told.failover_strategy}")
    if told.restart_strategy:
        facts.append(f"restarts {told.restart_strategy}")
    if told.parallelism:
        facts.append(f"{say.plural(told.tasks, 'task')}, widest {told.parallelism}")
    if told.spread:
        most = ", ".join(f"{share.taskmanager} {share.tasks}" for share in told.spread[:4])
        more = f", … {len(told.spread)} TaskManagers" if len(told.spread) > 4 else ""
        facts.append(f"spread: {most}{more}")
    return printable(" · ".join(facts))


def _attempt(attempt: StartAttempt, page: Page) -> RenderableType:
    title = Text.assemble((f"{attempt.number + 1}. {attempt.kind}", "bold"))
    if attempt.running_after_ms is not None:
        title.append(f" · RUNNING after {say.duration(attempt.running_after_ms)}", "green")
    else:
        title.append(f" · held in {attempt.held or '?'}", "bold red")
    if attempt.trigger:
        title.append(f" · after {printable(attempt.trigger)}")
    lines: list[RenderableType] = [title]
    if attempt.cause:
        said = printable(attempt.cause.split("\n", 1)[0])[:160]
        lines.append(under(line(said, "dim")))
    if attempt.required_slots and attempt.acquired_slots is not None:
        text = f"slots: {attempt.required_slots} required, {attempt.acquired_slots} acquired"
        style = "yellow" if attempt.acquired_slots < attempt.required_slots else "dim"
        lines.append(under(Text(text, style)))
    if attempt.steps:
        lines.append(under(_steps(attempt.steps, page, slowest=attempt.slowest)))
    return Group(*lines)


def _steps(steps: Sequence[StartStep], page: Page, slowest: str | None = None) -> RenderableType:
    begin, end = _span(steps)

    def look(step: StartStep) -> str:
        return "bold red" if step.ended_at is None else "bold" if step.step == slowest else ""

    def bar(step: StartStep) -> Text:
        drawn = _bar(step, begin, end, unicode=page.unicode)
        return Text(drawn, "red" if step.ended_at is None else "blue")

    return listing(
        steps,
        Column("", lambda step: step.step, "left"),
        Column("", _lasted),
        Column("", bar, "left"),
        Column("", lambda step: Text(_facts(step), "dim"), "wrap"),
        heads=None,
        style=look,
    )


def _lasted(step: StartStep) -> str:
    lasted = say.duration(step.duration_ms) if step.duration_ms is not None else "?"
    return f"{lasted}{'+' if step.ended_at is None else ''}"


def _facts(step: StartStep) -> str:
    facts = []
    if step.tasks:
        what = "TaskManager" if step.step in _OVER_TASKMANAGERS else "task"
        facts.append(
            f"{say.plural(step.tasks, what)}: median {say.duration(step.p50_ms)}, "
            f"p95 {say.duration(step.p95_ms)}"
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


def _bar(step: StartStep, begin: float, end: float, *, unicode: bool) -> str:
    started = _ms(step.started_at)
    if started is None:
        return ""
    scale = _BAR / max(end - begin, 1.0)
    left = min(round((started - begin) * scale), _BAR - 1)
    width = max(1, round((step.duration_ms or 0) * scale))
    return " " * left + ("█" if unicode else "#") * min(width, _BAR - left)


def _workers(workers: Sequence[StartWorker], page: Page) -> RenderableType:
    table = listing(
        workers if page.verbose else workers[:_WORKERS_SHOWN],
        Column("TaskManager", lambda worker: worker.taskmanager, "wrap"),
        Column("requested", lambda worker: _clock(worker.requested_at), "wrap"),
        Column(
            "registered",
            lambda w: Text(_clock(w.registered_at), "" if w.registered_at else "red"),
            "wrap",
        ),
        Column(
            "ended",
            lambda w: " ".join(filter(None, [_clock(w.ended_at), w.diagnostics or ""])),
            "wrap",
        ),
    )
    return block("Workers", table)


def _clock(text: str | None) -> str:
    return text[11:19] if text else "-"
