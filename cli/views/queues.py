"""The job graph from source to sink: how each task spends its time, and what waits before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.queues.wire import (
    QueueForecast,
    QueueSubtask,
    QueueTaskManager,
    QueueVertex,
    QueueWhatIf,
)
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.render.page import Page
from flowdiag.cli.text.grid import Bar, Column, Listing, and_more, block, heading, line
from flowdiag.cli.text.words import Clock
from flowdiag.cli.views.overview import JobSummary, split_by_severity, verdicts_by_job

_BAR: Final = 20
_FILL: Final = 8
_STRIP: Final = 64
_SKEWED: Final = 50.0  # of Flink's score: above, the subtasks of a vertex are shown one by one
_NAME: Final = 44
# By `Page.terse`: tasks of a graph, those whose subtasks are shown, forecasts, TaskManagers.
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


Job = list[QueueVertex]


def blocks(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """The graph of each job, and its TaskManagers where one of them is to blame."""
    jobs: dict[str, Job] = {}
    for vertex in report.data.vertices or ():
        jobs.setdefault(vertex.job_id, []).append(vertex)
    managers: dict[str, list[QueueTaskManager]] = {}
    for manager in report.data.taskmanagers or ():
        managers.setdefault(manager.job_id, []).append(manager)
    judged = verdicts_by_job(report)
    shown, in_full = split_by_severity(
        "Jobs", list(jobs.values()), lambda job: _summary_of(job, judged), page
    )
    for job in in_full:
        shown.append(_graph(job, page))
        mine = managers.get(job[0].job_id, [])
        room = page.verbose or _MANAGERS[page.terse]
        if room and mine and (page.verbose or any(m.culprit for m in mine)):
            shown.append(_managers(mine, page))
    return shown


def _summary_of(job: Job, judged: Mapping[str, tuple[str, str | None]]) -> JobSummary:
    verdict, cause = judged.get(job[0].job_id, ("healthy", None))
    root = next((vertex.name for vertex in job if vertex.role == "root"), None)
    says = fmt.plural(len(job), "task") + (f", root {_short(root)}" if root else "")
    return JobSummary(job[0].job_name or job[0].job_id, verdict, cause, says)


def _graph(vertices: Sequence[QueueVertex], page: Page) -> RenderableType:
    first = vertices[0]
    name = printable(first.job_name or first.job_id or "job without a name")
    title = heading("Graph", f"{name} · {fmt.plural(len(vertices), 'task')}")
    if first.graph_from not in (None, "plan", "rest", "archive"):
        title.append(f" · order from {printable(first.graph_from or '')}", "dim")
    ranked = vertices if page.verbose else _of_interest(vertices, _TASKS[page.terse])
    table = Listing(
        ranked,
        Column("task", lambda v: line(_short(v.name), _root_style(v)), "wrap", most=_NAME),
        Column("", lambda v: Text(f"{'×' if page.unicode else 'x'}{v.parallelism}", "dim")),
        Column("busy/waits/idle", lambda vertex: _bar(_worst(vertex), page), "left"),
        Column("busy", lambda v: Text(_percent(v.busy), _root_style(v))),
        Column("waits", lambda v: Text(_percent(v.back_pressured), _heat_style(v.back_pressured))),
        Column("input", lambda vertex: _fill(vertex, page), "left"),
        Column("queue", _queue, "left"),
        Column("", lambda vertex: _role(vertex, page), "left"),
        heads="dim",
    )
    strips = [_strip(vertex, page) for vertex in ranked if _worth_a_strip(vertex)]
    strips = strips if page.verbose else strips[: _STRIPS[page.terse]]
    hidden = and_more(len(vertices) - len(ranked), "tasks")
    legend = "numbers are those of the worst subtask; queue: buffers waiting, and what fits"
    return block(title, table, *hidden, *strips, Text(legend, "dim"))


def _of_interest(vertices: Sequence[QueueVertex], most: int) -> list[QueueVertex]:
    """In their order: where back pressure begins, then those that wait for it, then the busiest."""
    roles = {"root": 0, "back-pressured": 1, "fed-by-root": 2}
    ranked = sorted(vertices, key=lambda v: (roles.get(v.role, 3), -(v.busy or 0.0)))[:most]
    kept = {id(vertex) for vertex in ranked}
    return [vertex for vertex in vertices if id(vertex) in kept]


def _role(vertex: QueueVertex, page: Page) -> Text:
    word, style = _ROLE.get(vertex.role, ("", ""))
    return Text(word if page.unicode else word.replace("◀", "<"), style)


def _root_style(vertex: QueueVertex) -> str:
    return _ROLE["root"][1] if vertex.role == "root" else ""


def _short(name: str) -> str:
    return fmt.shorten(printable(name), 2 * _NAME)


def _percent(share: float | None) -> str:
    return "-" if share is None else fmt.percent(min(share, 1.0))


def _heat_style(share: float | None) -> str:
    return "yellow" if share is not None and share >= 0.5 else ""


def _worst(vertex: QueueVertex) -> QueueSubtask | None:
    """The subtask that does least of nothing."""
    known = [s for s in vertex.subtasks if s.busy is not None or s.back_pressured is not None]
    return max(
        known, key=lambda s: (s.culprit, max(s.busy or 0.0, s.back_pressured or 0.0)), default=None
    )


def _bar(subtask: QueueSubtask | None, page: Page) -> Bar:
    return Bar(partial(_times, subtask, page), most=_BAR, least=6)


def _times(subtask: QueueSubtask | None, page: Page, cells: int) -> Text:
    """How a subtask spends its time, in so many cells."""
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


def _fullest(vertex: QueueVertex) -> QueueSubtask | None:
    """The subtask with the fullest input; None where no input says, or it has none."""
    known = [s for s in vertex.subtasks if s.queue_length is not None]
    if not known or (not vertex.inputs and not any(s.queue_length for s in known)):
        return None
    return max(known, key=lambda s: (s.culprit, s.queue_length or 0.0))


def _fill(vertex: QueueVertex, page: Page) -> Bar:
    """How full the fullest input of a vertex's subtasks is."""
    fullest = _fullest(vertex)
    if fullest is None or not fullest.capacity:
        return Bar(lambda cells: Text(), most=0, least=0)
    return Bar(partial(_filled, fullest, page), most=_FILL)


def _filled(subtask: QueueSubtask, page: Page, cells: int) -> Text:
    share = (subtask.queue_length or 0.0) / (subtask.capacity or 1)
    filled = min(cells, round(share * cells))
    full, rest = ("■", "·") if page.unicode else ("#", ".")
    style = "red" if subtask.saturated_share and subtask.saturated_share >= 0.5 else ""
    return Text.assemble((full * filled, style), (rest * (cells - filled), "dim"))


def _queue(vertex: QueueVertex) -> Text:
    """What waits there, what fits, and how often it is full where that is known."""
    fullest = _fullest(vertex)
    if fullest is None:
        return Text("-", "dim")
    length, capacity = fullest.queue_length or 0.0, fullest.capacity
    text = Text()
    text.append(f"{length:.1f}" + (f"/{capacity}" if capacity else ""))
    if fullest.saturated_share:
        text.append(f", full {fmt.percent(fullest.saturated_share)}", "dim")
    return text


def _worth_a_strip(vertex: QueueVertex) -> bool:
    if len(vertex.subtasks) < 2:
        return False
    some = 0 < sum(s.culprit for s in vertex.subtasks) < len(vertex.subtasks)
    return some or (vertex.skew is not None and vertex.skew >= _SKEWED)


def _strip(vertex: QueueVertex, page: Page) -> Text:
    """One cell per subtask, or the worst of several: how busy each is, and how many records it gets."""
    subtasks = sorted(vertex.subtasks, key=lambda s: s.subtask_index)
    text = Text(f"{fmt.abbreviate(printable(vertex.name), _NAME)}  ")
    busy = [s.busy for s in subtasks]
    records = [s.records_in for s in subtasks]
    most = max((value for value in records if value is not None), default=0.0)
    text.append("busy ", "dim")
    _cells(text, [(s, s.busy) for s in subtasks] if any(b is not None for b in busy) else [], page)
    text.append("  records ", "dim")
    shares = [
        (s, None if s.records_in is None else s.records_in / most if most else 0.0)
        for s in subtasks
    ]
    _cells(text, shares, page)
    guilty = [str(s.subtask_index + 1) for s in subtasks if s.culprit]
    if guilty:
        shown = ", ".join(guilty[:6]) + (", …" if len(guilty) > 6 else "")
        text.append(f"  subtask {shown} of {vertex.parallelism}", "red")
    return text


def _cells(text: Text, values: Sequence[tuple[QueueSubtask, float | None]], page: Page) -> None:
    if not values:
        text.append("?", "dim")
        return
    width = -(-len(values) // _STRIP)
    ramp = _HEAT if page.unicode else _PLAIN_HEAT
    for start in range(0, len(values), width):
        chunk = values[start : start + width]
        known = [value for _, value in chunk if value is not None]
        guilty = any(subtask.culprit for subtask, _ in chunk)
        if not known:
            text.append("?", "dim")
            continue
        level = min(max(int(min(max(known), 1.0) * len(ramp)), 0), len(ramp) - 1)
        text.append(ramp[level], "bold red" if guilty else "green")


def _managers(managers: Sequence[QueueTaskManager], page: Page) -> RenderableType:
    table = Listing(
        managers if page.verbose else _accused_first(managers)[: _MANAGERS[page.terse]],
        Column("TaskManager", lambda m: line(_named(m), "bold red" if m.culprit else ""), "wrap"),
        Column("subtasks", lambda manager: str(manager.subtasks)),
        Column("busiest", lambda manager: _percent(manager.busy)),
        Column("gc", lambda manager: _percent(manager.gc_share)),
        Column("heap", lambda manager: _percent(manager.heap_used)),
        Column("cpu", lambda manager: _percent(manager.cpu)),
        Column("segments free", _free),
        heads="dim",
    )
    return block("TaskManagers", table)


def _accused_first(managers: Sequence[QueueTaskManager]) -> list[QueueTaskManager]:
    return sorted(managers, key=lambda manager: not manager.culprit)


def _named(manager: QueueTaskManager) -> str:
    return fmt.place(manager.taskmanager, manager.host)


def _free(manager: QueueTaskManager) -> str | None:
    if manager.segments_free is None or not manager.segments:
        return None
    return f"{manager.segments_free:.0f} of {manager.segments:.0f}"


def outlook(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """What the credit model says of the usual remedies."""
    jobs = report.data.what_if or []
    shown = jobs if page.verbose else jobs[: 2 if page.terse < 2 else 1]
    return [*(_remedies(job, page) for job in shown), *and_more(len(jobs) - len(shown), "jobs")]


def _remedies(job: QueueWhatIf, page: Page) -> RenderableType:
    title = heading("What if", f"{printable(job.job_name or job.job_id)} · by the model of credits")
    if job.problem:
        return block(title, Text(printable(job.problem), "dim"))
    table = Listing(
        job.forecasts if page.verbose else job.forecasts[: _FORECASTS[page.terse]],
        Column("change", lambda item: item.change, "wrap"),
        Column(
            "records/s",
            lambda i: None if i.problem is not None else fmt.number(round(i.records_per_s)),
        ),
        Column("queued buffers", lambda i: None if i.problem is not None else f"{i.queue:.1f}"),
        Column("checkpoint", _checkpoint),
        heads="dim",
    )
    told = ", ".join(
        f"{item.name} {fmt.number(item.modelled)} for {fmt.number(item.observed)}"
        for item in job.fit
    )
    fit = [Text(f"fit: {told}", "dim")] if told and page.verbose else []
    notes = job.notes[: None if page.verbose else max(0, 2 - page.terse)]
    return block(title, table, *fit, *(line(note, "dim") for note in notes))


def _checkpoint(item: QueueForecast) -> str | Text | None:
    if item.problem is not None:
        return Text(printable(item.problem), "dim")
    if item.checkpoint_ms is not None:
        return fmt.duration(item.checkpoint_ms)
    return None if item.at_least_ms is None else f"over {fmt.duration(item.at_least_ms)}"
