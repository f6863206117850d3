"""The view of `flowdiag queues`: the time and the input queue of each task, from source to sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.contract.queues import (
    QueueFlow,
    QueueForecast,
    QueueSubtask,
    QueueTaskManager,
    QueueVertex,
    QueueWhatIf,
)
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model import fmt
from flowdiag.cli.text.grid import Bar, Column, Listing, and_more, block, heading, line
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.words import Clock
from flowdiag.cli.views.overview import JobSummary, split_by_severity, verdicts_by_job

_BAR: Final = 20
_FILL: Final = 8
_STRIP: Final = 64
_SKEWED: Final = 50.0  # Flink's skew score above which the view shows single subtasks
_NAME: Final = 44
# By `Page.terse`: tasks of a graph, tasks with subtasks, forecasts, TaskManagers.
_TASKS: Final = (24, 16, 12, 8, 6)
_STRIPS: Final = (6, 4, 3, 2, 1)
_FORECASTS: Final = (8, 6, 5, 4, 3)
_MANAGERS: Final = (12, 6, 4, 2, 0)
_HEAT: Final = "▁▂▃▄▅▆▇█"
_PLAIN_HEAT: Final = "01234567"
_ROLE: Final = {
    "root": ("◀ root", "bold red"),
    "back-pressured": ("waits", "yellow"),
    "fed-by-root": ("starved", "dim"),
    "ok": ("", ""),
    "unknown": ("?", "dim"),
}


def _percent(share: float | None) -> str:
    return "-" if share is None else fmt.percent(min(share, 1.0))


def _free_segments(manager: QueueTaskManager) -> str | None:
    if manager.segments_free is None or not manager.segments:
        return None
    return f"{manager.segments_free:.0f} of {manager.segments:.0f}"


TASKMANAGER_COLUMNS: Final = (
    Column(
        "TaskManager",
        lambda m: line(fmt.place(m.taskmanager, m.host), "bold red" if m.culprit else ""),
        "wrap",
    ),
    Column("subtasks", lambda manager: str(manager.subtasks)),
    Column("busiest", lambda manager: _percent(manager.busy)),
    Column("GC", lambda manager: _percent(manager.gc_share)),
    Column("heap", lambda manager: _percent(manager.heap_used)),
    Column("CPU", lambda manager: _percent(manager.cpu)),
    Column("segments free", _free_segments),
    Column("", lambda m: Text("culprit" if m.culprit else "", "bold red"), "left"),
)


def _checkpoint(item: QueueForecast) -> str | Text | None:
    if item.problem is not None:
        return Text(printable(item.problem), "dim")
    if item.checkpoint_ms is not None:
        return fmt.duration(item.checkpoint_ms)
    return None if item.at_least_ms is None else f"over {fmt.duration(item.at_least_ms)}"


FORECAST_COLUMNS: Final = (
    Column("change", lambda item: item.change, "wrap"),
    Column("task", lambda item: line(fmt.abbreviate(item.task or "", _NAME)), "wrap"),
    Column(
        "records/s",
        lambda item: None if item.records_per_s is None else fmt.number(round(item.records_per_s)),
    ),
    Column("queued buffers", lambda item: None if item.queue is None else f"{item.queue:.1f}"),
    Column("checkpoint", _checkpoint),
)

Job = list[QueueVertex]


def blocks(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """Return the graph of each job, and its TaskManagers if one of them is a culprit."""
    jobs: dict[str, Job] = {}
    for vertex in report.data.vertices or ():
        jobs.setdefault(vertex.job_id, []).append(vertex)
    managers: dict[str, list[QueueTaskManager]] = {}
    for manager in report.data.taskmanagers or ():
        managers.setdefault(manager.job_id, []).append(manager)
    verdicts = verdicts_by_job(report)
    shown, in_full = split_by_severity(
        "Jobs", list(jobs.values()), lambda job: _summary_of(job, verdicts), page
    )
    flows = {flow.job_id: flow for flow in report.data.flow or ()}
    for job in in_full:
        shown.append(_graph(job, page, flows.get(job[0].job_id)))
        mine = managers.get(job[0].job_id, [])
        room = page.verbose or _MANAGERS[page.terse]
        if room and mine and (page.verbose or any(m.culprit for m in mine)):
            shown.append(_managers(mine, page))
    return shown


def _summary_of(job: Job, verdicts: Mapping[str, tuple[str, str | None]]) -> JobSummary:
    verdict, cause = verdicts.get(job[0].job_id, ("healthy", None))
    root = next((vertex.name for vertex in job if vertex.role == "root"), None)
    facts = fmt.plural(len(job), "task") + (f", root {_short_name(root)}" if root else "")
    return JobSummary(job[0].job_name or job[0].job_id, verdict, cause, facts)


def _graph(vertices: Sequence[QueueVertex], page: Page, flow: QueueFlow | None) -> RenderableType:
    first = vertices[0]
    name = printable(first.job_name or first.job_id or "job without a name")
    title = heading("Graph", f"{name} · {fmt.plural(len(vertices), 'task')}")
    if first.graph_from not in (None, "plan", "rest", "archive"):
        title.append(f" · order from {printable(first.graph_from or '')}", "dim")
    ranked = vertices if page.verbose else _worst_tasks(vertices, _TASKS[page.terse])
    table = Listing(
        ranked,
        Column("task", lambda v: line(_short_name(v.name), _root_style(v)), "wrap", most=_NAME),
        Column("", lambda v: Text(f"{'×' if page.unicode else 'x'}{v.parallelism}", "dim")),
        Column("busy/waits/idle", lambda vertex: _time_bar(_worst_subtask(vertex), page), "left"),
        Column("busy", lambda v: Text(_percent(v.busy), _root_style(v))),
        Column("waits", lambda v: Text(_percent(v.back_pressured), _heat_style(v.back_pressured))),
        Column("input", lambda vertex: _queue_bar(vertex, page), "left"),
        Column("queue", _queue, "left"),
        Column("", lambda vertex: _role(vertex, page), "left"),
        heads="dim",
    )
    strips = [_strip(vertex, page) for vertex in ranked if _has_uneven_subtasks(vertex)]
    strips = strips if page.verbose else strips[: _STRIPS[page.terse]]
    hidden = and_more(len(vertices) - len(ranked), "tasks")
    legend = "values are those of the worst subtask; queue: queued buffers and capacity"
    return block(title, table, *hidden, *strips, Text(legend, "dim"), *flow_lines(flow))


def flow_lines(flow: QueueFlow | None) -> list[Text]:
    """Return one line on how the tasks spend their time, and one on the lag of the source."""
    if flow is None:
        return []
    style = "" if flow.side is None else "bold"
    where = "" if flow.side is None else f"{flow.side}: "
    shares = ", ".join(f"{side} {_percent(share)}" for side, share in flow.busy.items())
    found = [
        line(
            f"time goes to {where}{printable(flow.text)}"
            if flow.side
            else fmt.capital(printable(flow.text)),
            style,
        )
    ]
    if shares:
        found[0].append(f" · busy: {shares}", "dim")
    if flow.lag is not None:
        lag = flow.lag
        change = {
            "growing": f"grows by {fmt.rate(lag.per_s)}",
            "shrinking": f"shrinks by {fmt.rate(-lag.per_s)}",
        }.get(lag.direction, "is constant")
        behind = "" if lag.behind_ms is None else f", {fmt.duration(lag.behind_ms)} behind"
        lag_text = f"lag of {printable(lag.of)} {change}: {fmt.number(lag.last)} records{behind}"
        found.append(line(lag_text, "yellow" if lag.direction == "growing" else "dim"))
    return found


def _worst_tasks(vertices: Sequence[QueueVertex], most: int) -> list[QueueVertex]:
    """Return the roots of back pressure, the tasks that wait for them, and the busiest tasks, in graph order."""
    roles = {"root": 0, "back-pressured": 1, "fed-by-root": 2}
    ranked = sorted(vertices, key=lambda v: (roles.get(v.role, 3), -(v.busy or 0.0)))[:most]
    kept = {id(vertex) for vertex in ranked}
    return [vertex for vertex in vertices if id(vertex) in kept]


def _role(vertex: QueueVertex, page: Page) -> Text:
    word, style = _ROLE.get(vertex.role, ("", ""))
    return Text(word if page.unicode else word.replace("◀", "<"), style)


def _root_style(vertex: QueueVertex) -> str:
    return _ROLE["root"][1] if vertex.role == "root" else ""


def _short_name(name: str) -> str:
    return fmt.shorten(printable(name), 2 * _NAME)


def _heat_style(share: float | None) -> str:
    return "yellow" if share is not None and share >= 0.5 else ""


def _worst_subtask(vertex: QueueVertex) -> QueueSubtask | None:
    """Return the subtask with the highest busy or back-pressured share."""
    known = [s for s in vertex.subtasks if s.busy is not None or s.back_pressured is not None]
    return max(
        known, key=lambda s: (s.culprit, max(s.busy or 0.0, s.back_pressured or 0.0)), default=None
    )


def _time_bar(subtask: QueueSubtask | None, page: Page) -> Bar:
    return Bar(partial(_draw_times, subtask, page), most=_BAR, least=6)


def _draw_times(subtask: QueueSubtask | None, page: Page, cells: int) -> Text:
    """Draw the busy, back-pressured and idle share of a subtask."""
    if subtask is None:
        return Text("?", "dim")
    busy = min(subtask.busy or 0.0, 1.0)
    waits = min(subtask.back_pressured or 0.0, 1.0 - busy)
    first = round(busy * cells)
    second = min(round(waits * cells), cells - first)
    full, half, rest = ("█", "▒", "·") if page.unicode else ("#", "=", ".")
    text = Text()
    text.append(full * first, "red" if busy >= 0.6 else "green")
    text.append(half * second, "yellow")
    text.append(rest * (cells - first - second), "dim")
    return text


def fullest_subtask(vertex: QueueVertex) -> QueueSubtask | None:
    """Return the subtask with the longest input queue, or None for a source and for unmeasured queues."""
    known = [s for s in vertex.subtasks if s.queue_length is not None]
    if not known or (not vertex.inputs and not any(s.queue_length for s in known)):
        return None
    return max(known, key=lambda s: (s.culprit, s.queue_length or 0.0))


def _queue_bar(vertex: QueueVertex, page: Page) -> Bar:
    """Return a bar for the fullest input queue of a task."""
    fullest = fullest_subtask(vertex)
    if fullest is None or not fullest.capacity:
        return Bar(lambda cells: Text(), most=0, least=0)
    return Bar(partial(_draw_queue, fullest, page), most=_FILL)


def _draw_queue(subtask: QueueSubtask, page: Page, cells: int) -> Text:
    share = (subtask.queue_length or 0.0) / (subtask.capacity or 1)
    filled = min(cells, round(share * cells))
    full, rest = ("■", "·") if page.unicode else ("#", ".")
    style = "red" if subtask.saturated_share and subtask.saturated_share >= 0.5 else ""
    return Text.assemble((full * filled, style), (rest * (cells - filled), "dim"))


def _queue(vertex: QueueVertex) -> Text:
    """Return the queue length, its capacity, and the share of time in which it is full."""
    fullest = fullest_subtask(vertex)
    if fullest is None:
        return Text("-", "dim")
    length, capacity = fullest.queue_length or 0.0, fullest.capacity
    text = Text()
    text.append(f"{length:.1f}" + (f"/{capacity}" if capacity else ""))
    if fullest.saturated_share:
        text.append(f", full {fmt.percent(fullest.saturated_share)}", "dim")
    return text


def _has_uneven_subtasks(vertex: QueueVertex) -> bool:
    if len(vertex.subtasks) < 2:
        return False
    some = 0 < sum(s.culprit for s in vertex.subtasks) < len(vertex.subtasks)
    return some or (vertex.skew is not None and vertex.skew >= _SKEWED)


def _strip(vertex: QueueVertex, page: Page) -> Text:
    """Return a cell per subtask, or per group of subtasks, showing its busy share and its share of records."""
    subtasks = sorted(vertex.subtasks, key=lambda s: s.subtask_index)
    text = Text(f"{fmt.abbreviate(printable(vertex.name), _NAME)}  ")
    busy = [s.busy for s in subtasks]
    records = [s.records_in for s in subtasks]
    most = max((value for value in records if value is not None), default=0.0)
    text.append("busy ", "dim")
    _append_cells(
        text, [(s, s.busy) for s in subtasks] if any(b is not None for b in busy) else [], page
    )
    text.append("  records ", "dim")
    shares = [
        (s, None if s.records_in is None else s.records_in / most if most else 0.0)
        for s in subtasks
    ]
    _append_cells(text, shares, page)
    culprits = [str(s.subtask_index + 1) for s in subtasks if s.culprit]
    if culprits:
        shown = ", ".join(culprits[:6]) + (", …" if len(culprits) > 6 else "")
        text.append(f"  subtask {shown} of {vertex.parallelism}", "red")
    return text


def _append_cells(
    text: Text, values: Sequence[tuple[QueueSubtask, float | None]], page: Page
) -> None:
    if not values:
        text.append("?", "dim")
        return
    width = -(-len(values) // _STRIP)
    ramp = _HEAT if page.unicode else _PLAIN_HEAT
    for start in range(0, len(values), width):
        chunk = values[start : start + width]
        known = [value for _, value in chunk if value is not None]
        culprits = any(subtask.culprit for subtask, _ in chunk)
        if not known:
            text.append("?", "dim")
            continue
        level = min(max(int(min(max(known), 1.0) * len(ramp)), 0), len(ramp) - 1)
        text.append(ramp[level], "bold red" if culprits else "green")


def _managers(managers: Sequence[QueueTaskManager], page: Page) -> RenderableType:
    culprits_first = sorted(managers, key=lambda manager: not manager.culprit)
    shown = managers if page.verbose else culprits_first[: _MANAGERS[page.terse]]
    return block("TaskManagers", Listing(shown, *TASKMANAGER_COLUMNS, heads="dim"))


def forecast_blocks(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """Return the effect of common remedies, as the credit model predicts it."""
    jobs = report.data.what_if or []
    shown = jobs if page.verbose else jobs[: 2 if page.terse < 2 else 1]
    return [*(_remedies(job, page) for job in shown), *and_more(len(jobs) - len(shown), "jobs")]


def _remedies(job: QueueWhatIf, page: Page) -> RenderableType:
    title = heading("What if", f"{printable(job.job_name or job.job_id)} · by the credit model")
    if job.problem:
        return block(title, Text(printable(job.problem), "dim"))
    shown = job.forecasts if page.verbose else job.forecasts[: _FORECASTS[page.terse]]
    table = Listing(shown, *FORECAST_COLUMNS, heads="dim")
    compared = ", ".join(
        f"{item.name} {fmt.number(item.modelled)} for {fmt.number(item.observed)}"
        for item in job.fit
    )
    fit = [Text(f"fit: {compared}", "dim")] if compared and page.verbose else []
    notes = job.notes[: None if page.verbose else max(0, 2 - page.terse)]
    return block(title, table, *fit, *(line(note, "dim") for note in notes))
