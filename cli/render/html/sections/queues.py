"""The section about back pressure: the graph of each job, its queues, and the busy share of its subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.contract.queues import QueueFlow, QueueVertex
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts import graph, heat, lag
from flowdiag.cli.render.html.context import (
    IN_FULL,
    Context,
    Part,
    Section,
    figures,
    split_by_severity,
)
from flowdiag.cli.render.html.figures import Table, table
from flowdiag.cli.text.grid import Column
from flowdiag.cli.views.overview import JobSummary, verdicts_by_job
from flowdiag.cli.views.queues import FORECAST_COLUMNS, TASKMANAGER_COLUMNS, fullest_subtask

_TASKS: Final = 40
_TASKMANAGERS: Final = 12
_FORECASTS: Final = 12
_ROLES: Final = {"root": "root", "back-pressured": "waits", "fed-by-root": "downstream of the root"}


def section(context: Context) -> Section | None:
    """Return the jobs with measured queues, or None."""
    jobs: dict[str, list[QueueVertex]] = {}
    for vertex in context.report.data.vertices or ():
        jobs.setdefault(vertex.job_id, []).append(vertex)
    # Output of `kafka-consumer-groups` has a lag, and no tasks.
    alone = [f for f in context.report.data.flow or () if f.lag and f.job_id not in jobs]
    if not jobs and not alone:
        return None
    verdicts = verdicts_by_job(context.report)

    def summary_of(job: list[QueueVertex]) -> JobSummary:
        verdict, cause = verdicts.get(job[0].job_id, ("healthy", None))
        return JobSummary(job[0].job_name or job[0].job_id, verdict, cause, "")

    overview, shown = split_by_severity(list(jobs.values()), summary_of, context.page)
    return Section(
        title="Back pressure and queues",
        count=fmt.plural(len(jobs) + len(alone), "job"),
        shown={
            "overview": overview,
            "parts": [
                *(_part(job, context) for job in shown),
                *(_lag_part(flow, context) for flow in alone[:IN_FULL]),
            ],
        },
    )


def _lag_part(flow: QueueFlow, context: Context) -> Part:
    return Part(
        title=flow.job_name or flow.job_id or "job without a name",
        lines=[fmt.capital(flow.text)],
        figures=figures(lag.consumer_lag(flow.lag, context.clock, context.renderer)),
        tables=[],
    )


def _part(vertices: Sequence[QueueVertex], context: Context) -> Part:
    first = vertices[0]
    data = context.report.data
    roots = [vertex.name for vertex in vertices if vertex.role == "root"]
    lines = [f"Back pressure begins at {fmt.listed(roots)}" if roots else _no_root(vertices)]
    if first.graph_from not in (None, "plan", "rest", "archive"):
        lines.append(f"The order of the tasks comes from {first.graph_from}")
    flow = next((each for each in data.flow or () if each.job_id == first.job_id), None)
    return Part(
        title=first.job_name or first.job_id or "job without a name",
        lines=lines,
        figures=figures(
            graph.graph(vertices, context.renderer),
            heat.busy(vertices, context.renderer),
            lag.consumer_lag(flow.lag if flow else None, context.clock, context.renderer),
        ),
        tables=_tables(vertices, context),
    )


def _tables(vertices: Sequence[QueueVertex], context: Context) -> list[tuple[str, Table]]:
    data, job_id = context.report.data, vertices[0].job_id
    tables = [("Tasks, by their worst subtasks", table(_TASK_COLUMNS, vertices, _TASKS))]
    managers = [each for each in data.taskmanagers or () if each.job_id == job_id]
    if managers:
        tables.append(("TaskManagers", table(TASKMANAGER_COLUMNS, managers, _TASKMANAGERS)))
    tables += [
        ("What if, by the credit model", table(FORECAST_COLUMNS, each.forecasts, _FORECASTS))
        for each in data.what_if or ()
        if each.job_id == job_id and each.forecasts
    ]
    return tables


def _no_root(vertices: Sequence[QueueVertex]) -> str:
    if all(vertex.back_pressured is None and vertex.busy is None for vertex in vertices):
        return "The inputs contain no busy or back-pressured times"
    if any(vertex.role == "back-pressured" for vertex in vertices):
        return "Tasks are back-pressured, but the source of the back pressure is unknown"
    return "No task causes back pressure"


def _percent(value: float | None) -> str | None:
    return None if value is None else fmt.percent(value)


def _queue(vertex: QueueVertex) -> str | None:
    fullest = fullest_subtask(vertex)
    if fullest is None:
        return None
    capacity = f" of {fullest.capacity}" if fullest.capacity else ""
    return f"{fullest.queue_length or 0.0:.1f}{capacity}"


def _full_share(vertex: QueueVertex) -> str | None:
    shares = (s.saturated_share for s in vertex.subtasks if s.saturated_share is not None)
    return _percent(max(shares, default=None))


_TASK_COLUMNS: Final = (
    Column("task", lambda vertex: vertex.name, "left"),
    Column("parallelism", lambda vertex: str(vertex.parallelism)),
    Column("busy", lambda vertex: _percent(vertex.busy)),
    Column("waits", lambda vertex: _percent(vertex.back_pressured)),
    Column("queue", _queue),
    Column("full", _full_share),
    Column("role", lambda vertex: _ROLES.get(vertex.role, ""), "left"),
)
