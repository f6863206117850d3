"""Builds `data.attempts`, `data.cluster` and `data.workers` of the report from the facts of `flowdiag startup`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flowdiag.analyses.contract import startup as wire
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.contract.report import iso
from flowdiag.analyses.startup import facts as x

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Row, Rows


def start_attempts(
    facts: x.StartupFacts, max_rows: int, *, excerpts: bool = True
) -> list[wire.StartAttempt]:
    """Return at most `max_rows` starts over all jobs. The first, the blocked and the last starts take precedence."""
    found = [(job, start) for job in facts.jobs for start in job.starts]
    if len(found) > max_rows:
        places = sorted(
            range(len(found)),
            key=lambda i: (found[i][1].number != 0, found[i][1].held is None, -i),
        )[:max_rows]
        found = [found[i] for i in sorted(places)]
    return [_attempt(job, start, excerpts) for job, start in found]


def _attempt(job: x.JobStarts, start: x.Start, excerpts: bool) -> wire.StartAttempt:
    running = start.running_us
    slowest = start.slowest
    return wire.StartAttempt(
        job_id=start.job.job_id,
        job_name=job.job.name,
        number=start.number,
        kind=start.kind,
        cause=clean(start.cause) if start.cause and excerpts else None,
        trigger=start.trigger,
        started_at=iso(start.started_us),
        running_at=iso(running),
        running_after_ms=None if running is None else max(0, (running - start.started_us) // 1000),
        held=start.held,
        slowest=slowest.name if slowest else None,
        tasks=len(start.tasks),
        expected_tasks=start.expected,
        required_slots=start.slots.required if start.slots else None,
        acquired_slots=start.slots.acquired if start.slots else None,
        restored=start.restored,
        steps=[_step(step) for step in start.steps],
    )


def cluster_steps(facts: x.StartupFacts) -> list[wire.StartStep]:
    """Return the steps before any job starts."""
    return [_step(step) for step in facts.cluster_steps]


def _step(step: x.Step) -> wire.StartStep:
    subject = wire.StepSubject(
        task=step.task,
        subtask_index=step.subtask_index,
        taskmanager=step.taskmanager,
        host=step.host,
    )
    spread = step.spread
    return wire.StartStep(
        step=step.name,
        started_at=iso(step.started_us),
        ended_at=iso(step.ended_us),
        duration_ms=step.duration_ms,
        subject=subject if step.task or step.taskmanager else None,
        tasks=spread.count if spread else None,
        p50_ms=spread.p50_ms if spread else None,
        p95_ms=spread.p95_ms if spread else None,
        max_ms=spread.max_ms if spread else None,
    )


def start_workers(
    facts: x.StartupFacts, max_rows: int, *, excerpts: bool = True
) -> list[wire.StartWorker]:
    """Return the TaskManagers. Those that never registered come first."""
    ranked = sorted(facts.workers, key=lambda w: (w.registered_us is not None, w.name))
    return [
        wire.StartWorker(
            taskmanager=worker.name,
            host=worker.host,
            requested_at=iso(worker.requested_us),
            started_at=iso(worker.started_us),
            registered_at=iso(worker.registered_us),
            ended_at=iso(worker.ended_us),
            diagnostics=clean(worker.diagnostics) if worker.diagnostics and excerpts else None,
        )
        for worker in ranked[:max_rows]
    ]


def job_scheduling(facts: x.StartupFacts, max_rows: int) -> list[wire.JobScheduling]:
    """Return the scheduling and the spread of at most `max_rows` jobs, each with as many TaskManagers."""
    return [_scheduling(job, max_rows) for job in facts.jobs[:max_rows] if job.starts]


def _scheduling(job: x.JobStarts, max_rows: int) -> wire.JobScheduling:
    start = next((s for s in reversed(job.starts) if s.running_us is not None), job.starts[-1])
    slots = next((s.slots for s in reversed(job.starts) if s.slots is not None), None)
    vertices = job.job.graph.vertices if job.job.graph else ()
    widths = [vertex.parallelism for vertex in vertices]
    widths += [task.parallelism for task in start.tasks if task.parallelism is not None]
    strategy = _class_name(job.scheduler)
    return wire.JobScheduling(
        job_id=job.job.key.job_id,
        job_name=job.job.name,
        scheduler="adaptive" if job.adaptive else "default" if strategy else None,
        scheduling_strategy=strategy,
        failover_strategy=_class_name(job.failover_strategy),
        restart_strategy=job.restart_strategy,
        tasks=len(start.tasks),
        parallelism=max(widths, default=None),
        required_slots=slots.required if slots else None,
        acquired_slots=slots.acquired if slots else None,
        spread=_shares(start, max_rows),
    )


def _class_name(text: str | None) -> str | None:
    """Return the class name of a logged object, without its package and hash code."""
    return (text or "").rpartition(".")[2].partition("@")[0] or None


def _shares(start: x.Start, max_rows: int) -> list[wire.TaskManagerShare]:
    """Return the TaskManagers with the most tasks. Up to Flink 1.7, deployments name only the host."""
    hosts = {(task.taskmanager or task.host or ""): task.host for task in start.tasks}
    counts = Counter(task.taskmanager or task.host or "" for task in start.tasks)
    counts.pop("", None)
    return [
        wire.TaskManagerShare(taskmanager=name, host=hosts[name], tasks=count)
        for name, count in counts.most_common(max_rows)
    ]


# -- complete tables -----------------------------------------------------------------------------------

_ALL: Final = 1 << 62


def start_tables(facts: x.StartupFacts, *, excerpts: bool) -> Rows:
    """Yield the complete lists as rows of `report.tables`.

    Args:
        facts: facts of the topic.
        excerpts: whether to include log text.
    """
    starts = start_attempts(facts, _ALL, excerpts=excerpts)
    yield "starts", map(msgspec.structs.asdict, starts)
    yield "start_steps", _steps(facts, starts)
    workers = start_workers(facts, _ALL, excerpts=excerpts)
    yield "workers", map(msgspec.structs.asdict, workers)


def _steps(facts: x.StartupFacts, starts: Iterable[wire.StartAttempt]) -> Iterator[Row]:
    no_job: dict[str, Any] = {"job_id": None, "job_name": None, "number": None}
    for step in cluster_steps(facts):
        yield _step_row(step) | no_job
    for start in starts:
        named = {"job_id": start.job_id, "job_name": start.job_name, "number": start.number}
        for step in start.steps:
            yield _step_row(step) | named


def _step_row(step: wire.StartStep) -> dict[str, Any]:
    who = {} if step.subject is None else msgspec.structs.asdict(step.subject)
    return msgspec.structs.asdict(step) | who
