"""The graph of each job with back pressure and queues, and where its subtasks are busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.queues.wire import QueueTaskManager, QueueVertex, QueueWhatIf
from flowdiag.cli.render.html.charts import graph, heat
from flowdiag.cli.render.html.context import Context, Part, Section, figures, split_by_severity
from flowdiag.cli.render.html.figures import Table, table
from flowdiag.cli.views.overview import JobSummary, verdicts_by_job

_TASKS: Final = 40
_MACHINES: Final = 12
_FORECASTS: Final = 12
_ROLES: Final = {"root": "root", "back-pressured": "waits", "fed-by-root": "behind the root"}


def section(context: Context) -> Section | None:
    """The jobs whose queues were measured; None where there is none."""
    jobs: dict[str, list[QueueVertex]] = {}
    for vertex in context.report.data.vertices or ():
        jobs.setdefault(vertex.job_id, []).append(vertex)
    if not jobs:
        return None
    judged = verdicts_by_job(context.report)

    def job_summary(job: list[QueueVertex]) -> JobSummary:
        verdict, cause = judged.get(job[0].job_id, ("healthy", None))
        return JobSummary(job[0].job_name or job[0].job_id, verdict, cause, "")

    overview, shown = split_by_severity(list(jobs.values()), job_summary, context.page)
    return Section(
        title="Back pressure and queues",
        count=fmt.plural(len(jobs), "job"),
        shown={"overview": overview, "parts": [_part(job, context) for job in shown]},
    )


def _part(vertices: Sequence[QueueVertex], context: Context) -> Part:
    first = vertices[0]
    data = context.report.data
    roots = [vertex.name for vertex in vertices if vertex.role == "root"]
    lines = [
        f"Back pressure begins at {fmt.listed(roots)}" if roots else "No root of back pressure"
    ]
    if first.graph_from not in (None, "plan", "rest", "archive"):
        lines.append(f"The order of the tasks is known from {first.graph_from}")
    tables = [("Tasks, by their worst subtasks", _tasks(vertices))]
    machines = [one for one in data.taskmanagers or () if one.job_id == first.job_id]
    tables += [("TaskManagers", _machines(machines))] if machines else []
    tables += [
        ("What if, by the model of credits", _forecasts(one))
        for one in data.what_if or ()
        if one.job_id == first.job_id and one.forecasts
    ]
    return Part(
        title=first.job_name or first.job_id or "job without a name",
        lines=lines,
        figures=figures(
            graph.graph(vertices, context.renderer), heat.busy(vertices, context.renderer)
        ),
        tables=tables,
    )


def _calm(vertices: Sequence[QueueVertex]) -> str:
    """What there is to say where no task is the root."""
    if all(vertex.back_pressured is None and vertex.busy is None for vertex in vertices):
        return "Nobody measured how long tasks are busy or wait"
    if any(vertex.role == "back-pressured" for vertex in vertices):
        return "Tasks wait for those behind them, and none can be named as the root"
    return "No task is the root of back pressure"


def _share(value: float | None) -> str:
    return "-" if value is None else fmt.percent(value)


def _tasks(vertices: Sequence[QueueVertex]) -> Table:
    return table(
        ("task", ">parallelism", ">busy", ">waits", ">queue", ">full", "part in it"),
        (
            (
                vertex.name,
                str(vertex.parallelism),
                _share(vertex.busy),
                _share(vertex.back_pressured),
                _queue(vertex),
                _share(_saturated(vertex)),
                _ROLES.get(vertex.role, ""),
            )
            for vertex in vertices
        ),
        _TASKS,
    )


def _queue(vertex: QueueVertex) -> str:
    """Buffers that wait before the subtask with most of them, of those that fit."""
    known = [one for one in vertex.subtasks if one.queue_length is not None]
    if not known or (not vertex.inputs and not any(one.queue_length for one in known)):
        return "-"
    fullest = max(known, key=lambda one: (one.culprit, one.queue_length or 0.0))
    fits = f" of {fullest.capacity}" if fullest.capacity else ""
    return f"{fullest.queue_length or 0.0:.1f}{fits}"


def _saturated(vertex: QueueVertex) -> float | None:
    return max(
        (one.saturated_share for one in vertex.subtasks if one.saturated_share is not None),
        default=None,
    )


def _machines(machines: Sequence[QueueTaskManager]) -> Table:
    return table(
        ("TaskManager", ">subtasks", ">busy", ">garbage collection", ">heap", ">CPU", ""),
        (
            (
                fmt.place(one.taskmanager, one.host),
                str(one.subtasks),
                _share(one.busy),
                _share(one.gc_share),
                _share(one.heap_used),
                _share(one.cpu),
                "culprit" if one.culprit else "",
            )
            for one in machines
        ),
        _MACHINES,
    )


def _forecasts(what_if: QueueWhatIf) -> Table:
    return table(
        ("change", "task", ">records/s", ">queue", ">checkpoint"),
        (
            (
                one.change,
                one.task,
                "-" if one.records_per_s is None else fmt.number(round(one.records_per_s, 1)),
                "-" if one.queue is None else f"{one.queue:.1f}",
                one.problem
                or (
                    f"at least {fmt.duration(one.at_least_ms)}"
                    if one.checkpoint_ms is None and one.at_least_ms is not None
                    else "-"
                    if one.checkpoint_ms is None
                    else fmt.duration(one.checkpoint_ms)
                ),
            )
            for one in what_if.forecasts
        ),
        _FORECASTS,
    )
