"""The job graph from source to sink: how each task spends its time, and what waits before it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses import say
from flowdiag.analyses.queues.wire import (
    QueueForecast,
    QueueSubtask,
    QueueTaskManager,
    QueueVertex,
    QueueWhatIf,
)
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Data
from flowdiag.cli.grid import Column, block, heading, line, listing
from flowdiag.cli.render.page import Page
from flowdiag.cli.words import Clock

_BAR: Final = 20
_FILL: Final = 8
_STRIP: Final = 64
_SKEWED: Final = 50.0  # of Flink's score: above, the subtasks of a vertex are shown one by one
_NAME: Final = 44
_MANAGERS_SHOWN: Final = 12
_HEAT: Final = "▁▂▃▄▅▆▇█"
_PLAIN_HEAT: Final = "01234567"
_ROLE: Final = {
    "root": ("◀ root", "bold red"),
    "back-pressured": ("waits", "yellow"),
    "fed-by-root": ("starved", "dim"),
    "ok": ("", ""),
    "unknown": ("?", "dim"),
}


def blocks(data: Data, page: Page, clock: Clock) -> list[RenderableType]:
    """The graph of each job, and its TaskManagers where one of them is to blame."""
    shown: list[RenderableType] = []
    for job_id, group in groupby(data.vertices or (), key=lambda vertex: vertex.job_id):
        shown.append(_graph(list(group), page))
        mine = [m for m in data.taskmanagers or () if m.job_id == job_id]
        if mine and (page.verbose or any(m.culprit for m in mine)):
            shown.append(_managers(mine, page))
    return shown


def _graph(vertices: Sequence[QueueVertex], page: Page) -> RenderableType:
    first = vertices[0]
    name = printable(first.job_name or first.job_id or "job without a name")
    title = heading("Graph", f"{name} · {say.plural(len(vertices), 'task')}")
    if first.graph_from not in (None, "plan", "rest", "archive"):
        title.append(f" · order from {printable(first.graph_from or '')}", "dim")
    table = listing(
        vertices,
        Column("task", lambda v: line(_short(v.name), _root_style(v)), "wrap", most=_NAME),
        Column("", lambda v: Text(f"{'×' if page.unicode else 'x'}{v.parallelism}", "dim")),
        Column("busy/waits/idle", lambda vertex: _bar(_worst(vertex), page), "left"),
        Column("busy", lambda v: Text(_percent(v.busy), _root_style(v))),
        Column("waits", lambda v: Text(_percent(v.back_pressured), _heat_style(v.back_pressured))),
        Column("input queue", lambda vertex: _queue(vertex, page), "left"),
        Column("", lambda vertex: _role(vertex, page), "left"),
        heads="dim",
    )
    strips = [_strip(vertex, page) for vertex in vertices if _worth_a_strip(vertex)]
    legend = "numbers are those of the worst subtask; queue: buffers waiting, and what fits"
    return block(title, table, *strips, Text(legend, "dim"))


def _role(vertex: QueueVertex, page: Page) -> Text:
    word, style = _ROLE.get(vertex.role, ("", ""))
    return Text(word if page.unicode else word.replace("◀", "<"), style)


def _root_style(vertex: QueueVertex) -> str:
    return _ROLE["root"][1] if vertex.role == "root" else ""


def _short(name: str) -> str:
    return say.shorten(printable(name), 2 * _NAME)


def _percent(share: float | None) -> str:
    return "-" if share is None else say.share(min(share, 1.0), whole=True)


def _heat_style(share: float | None) -> str:
    return "yellow" if share is not None and share >= 0.5 else ""


def _worst(vertex: QueueVertex) -> QueueSubtask | None:
    """The subtask that does least of nothing."""
    known = [s for s in vertex.subtasks if s.busy is not None or s.back_pressured is not None]
    return max(
        known, key=lambda s: (s.culprit, max(s.busy or 0.0, s.back_pressured or 0.0)), default=None
    )


def _bar(subtask: QueueSubtask | None, page: Page) -> Text:
    if subtask is None:
        return Text("?".ljust(_BAR), "dim")
    busy = min(subtask.busy or 0.0, 1.0)
    waits = min(subtask.back_pressured or 0.0, 1.0 - busy)
    first = round(busy * _BAR)
    second = min(round(waits * _BAR), _BAR - first)
    full, half, rest = ("█", "▒", "·") if page.unicode else ("#", "=", ".")
    text = Text()
    text.append(full * first, "red" if busy >= 0.6 else "green")
    text.append(half * second, "yellow")
    text.append(rest * (_BAR - first - second), "dim")
    return text


def _queue(vertex: QueueVertex, page: Page) -> Text:
    """The fullest input of a vertex's subtasks: buffers waiting, what fits, usage where it is known."""
    known = [s for s in vertex.subtasks if s.queue_length is not None]
    if not known or (not vertex.inputs and not any(s.queue_length for s in known)):
        return Text("-", "dim")
    fullest = max(known, key=lambda s: (s.culprit, s.queue_length or 0.0))
    length, capacity = fullest.queue_length or 0.0, fullest.capacity
    text = Text()
    if capacity:
        cells = min(_FILL, round(length / capacity * _FILL))
        full, rest = ("■", "·") if page.unicode else ("#", ".")
        style = "red" if fullest.saturated_share and fullest.saturated_share >= 0.5 else ""
        text.append(full * cells, style)
        text.append(rest * (_FILL - cells) + " ", "dim")
    text.append(f"{length:.1f}" + (f"/{capacity}" if capacity else ""))
    if fullest.saturated_share:
        text.append(f", full {say.share(fullest.saturated_share, whole=True)}", "dim")
    return text


def _worth_a_strip(vertex: QueueVertex) -> bool:
    if len(vertex.subtasks) < 2:
        return False
    some = 0 < sum(s.culprit for s in vertex.subtasks) < len(vertex.subtasks)
    return some or (vertex.skew is not None and vertex.skew >= _SKEWED)


def _strip(vertex: QueueVertex, page: Page) -> Text:
    """One cell per subtask, or the worst of several: how busy each is, and how many records it gets."""
    subtasks = sorted(vertex.subtasks, key=lambda s: s.subtask_index)
    text = Text(f"{_short(vertex.name)[:_NAME]}  ")
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
    table = listing(
        managers if page.verbose else managers[:_MANAGERS_SHOWN],
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


def _named(manager: QueueTaskManager) -> str:
    return say.place(manager.taskmanager, manager.host)


def _free(manager: QueueTaskManager) -> str | None:
    if manager.segments_free is None or not manager.segments:
        return None
    return f"{manager.segments_free:.0f} of {manager.segments:.0f}"


def outlook(data: Data, page: Page, clock: Clock) -> list[RenderableType]:
    """What the credit model says of the usual remedies."""
    return [_remedies(job, page) for job in data.what_if or ()]


def _remedies(job: QueueWhatIf, page: Page) -> RenderableType:
    title = heading("What if", f"{printable(job.job_name or job.job_id)} · by the model of credits")
    if job.problem:
        return block(title, Text(printable(job.problem), "dim"))
    table = listing(
        job.forecasts,
        Column("change", lambda item: item.change, "wrap"),
        Column(
            "records/s",
            lambda i: None if i.problem is not None else say.number(round(i.records_per_s)),
        ),
        Column("queued buffers", lambda i: None if i.problem is not None else f"{i.queue:.1f}"),
        Column("checkpoint", _checkpoint),
        heads="dim",
    )
    told = ", ".join(
        f"{item.name} {say.number(item.modelled)} for {say.number(item.observed)}"
        for item in job.fit
    )
    fit = [Text(f"fit: {told}", "dim")] if told and page.verbose else []
    notes = job.notes[: None if page.verbose else 2]
    return block(title, table, *fit, *(line(note, "dim") for note in notes))


def _checkpoint(item: QueueForecast) -> str | Text | None:
    if item.problem is not None:
        return Text(printable(item.problem), "dim")
    if item.checkpoint_ms is not None:
        return say.duration(item.checkpoint_ms)
    return None if item.at_least_ms is None else f"over {say.duration(item.at_least_ms)}"
