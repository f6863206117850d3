"""The job graph from source to sink: how each task spends its time, and what waits before it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.queues.wire import (
    QueueForecast,
    QueueSubtask,
    QueueTaskManager,
    QueueVertex,
    QueueWhatIf,
)
from flowdiag.analyses.report.redact import printable
from flowdiag.cli.render.page import Page
from flowdiag.cli.words import plural

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


def queues(
    vertices: Sequence[QueueVertex], managers: Sequence[QueueTaskManager], page: Page
) -> list[RenderableType]:
    """The blocks of `flowdiag queues`."""
    blocks: list[RenderableType] = []
    for job_id, group in groupby(vertices, key=lambda vertex: vertex.job_id):
        members = list(group)
        blocks.append(_graph(members, page))
        mine = [m for m in managers if m.job_id == job_id]
        if mine and (page.verbose or any(m.culprit for m in mine)):
            blocks.append(_managers(mine, page))
    return blocks


def _graph(vertices: Sequence[QueueVertex], page: Page) -> RenderableType:
    first = vertices[0]
    title = Text("Graph", "bold")
    title.append(f"  {printable(first.job_name or first.job_id or 'job without a name')}")
    title.append(f" · {plural(len(vertices), 'task')}")
    if first.graph_from not in (None, "plan", "rest", "archive"):
        title.append(f" · order from {printable(first.graph_from or '')}", "dim")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("task", overflow="fold", max_width=_NAME)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("busy/waits/idle", no_wrap=True)
    table.add_column("busy", justify="right", no_wrap=True)
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("input queue", no_wrap=True)
    table.add_column("", no_wrap=True)
    for vertex in vertices:
        word, style = _ROLE.get(vertex.role, ("", ""))
        if not page.unicode:
            word = word.replace("◀", "<")
        table.add_row(
            Text(_short(vertex.name), style if vertex.role == "root" else "", overflow="fold"),
            Text(f"×{vertex.parallelism}" if page.unicode else f"x{vertex.parallelism}", "dim"),
            _bar(_worst(vertex), page),
            Text(_percent(vertex.busy), "bold red" if vertex.role == "root" else ""),
            Text(_percent(vertex.back_pressured), _heat_style(vertex.back_pressured)),
            _queue(vertex, page),
            Text(word, style),
        )
    lines: list[RenderableType] = [title, Padding(table, (0, 0, 0, 2))]
    strips = [vertex for vertex in vertices if _worth_a_strip(vertex)]
    for vertex in strips:
        lines.append(Padding(_strip(vertex, page), (0, 0, 0, 2)))
    legend = "numbers are those of the worst subtask; queue: buffers waiting, and what fits"
    return Group(*lines, Padding(Text(legend, "dim"), (0, 0, 0, 2)))


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= 2 * _NAME else text[: 2 * _NAME - 1] + "…"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * min(share, 1.0):.0f} %"


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
        text.append(f", full {100 * fullest.saturated_share:.0f} %", "dim")
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
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("TaskManager", overflow="fold")
    for name in ("subtasks", "busiest", "gc", "heap", "cpu", "segments free"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = managers if page.verbose else managers[:_MANAGERS_SHOWN]
    for manager in shown:
        name = printable(manager.taskmanager) + (
            f" @ {printable(manager.host)}" if manager.host else ""
        )
        free = "-"
        if manager.segments_free is not None and manager.segments:
            free = f"{manager.segments_free:.0f} of {manager.segments:.0f}"
        table.add_row(
            Text(name, "bold red" if manager.culprit else "", overflow="fold"),
            Text(str(manager.subtasks)),
            Text(_percent(manager.busy)),
            Text(_percent(manager.gc_share)),
            Text(_percent(manager.heap_used)),
            Text(_percent(manager.cpu)),
            Text(free),
        )
    return Group(Text("TaskManagers", "bold"), Padding(table, (0, 0, 0, 2)))


def what_if(jobs: Sequence[QueueWhatIf], page: Page) -> list[RenderableType]:
    """What the credit model says of the usual remedies."""
    return [_remedies(job, page) for job in jobs]


def _remedies(job: QueueWhatIf, page: Page) -> RenderableType:
    title = Text("What if", "bold")
    title.append(f"  {printable(job.job_name or job.job_id)} · by the model of credits")
    lines: list[RenderableType] = [title]
    if job.problem:
        lines.append(Padding(Text(printable(job.problem), "dim"), (0, 0, 0, 2)))
        return Group(*lines)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("change", overflow="fold")
    for name in ("records/s", "queued buffers", "checkpoint"):
        table.add_column(name, justify="right", no_wrap=True)
    for item in job.forecasts:
        table.add_row(Text(printable(item.change)), *_forecast(item))
    lines.append(Padding(table, (0, 0, 0, 2)))
    told = ", ".join(f"{item.name} {item.modelled:g} for {item.observed:g}" for item in job.fit)
    if told and page.verbose:
        lines.append(Padding(Text(f"fit: {told}", "dim"), (0, 0, 0, 2)))
    for note in job.notes[: None if page.verbose else 2]:
        lines.append(Padding(Text(printable(note), "dim", overflow="fold"), (0, 0, 0, 2)))
    return Group(*lines)


def _forecast(item: QueueForecast) -> tuple[Text, Text, Text]:
    if item.problem is not None:
        return Text("-"), Text("-"), Text(printable(item.problem), "dim")
    if item.checkpoint_ms is not None:
        took = duration_text(item.checkpoint_ms)
    elif item.at_least_ms is not None:
        took = f"over {duration_text(item.at_least_ms)}"
    else:
        took = "-"
    return Text(f"{item.records_per_s:.0f}"), Text(f"{item.queue:.1f}"), Text(took)
