"""The memory of processes as nested pools: a tree with a bar for each, and the network buffers below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowdiag.analyses.flink.judging import bytes_text as size
from flowdiag.analyses.memory.wire import MemoryBuffers, MemoryProcess
from flowdiag.analyses.report.redact import printable
from flowdiag.cli.render.page import Page
from flowdiag.cli.words import plural

_BAR: Final = 32
_BUFFERS_SHOWN: Final = 12
_TM: Final = "taskmanager.memory."
_JM: Final = "jobmanager.memory."

# (depth, label, name of the pool or of the sum, the option or JVM flag that it is)
_TASKMANAGER: Final = (
    (0, "process", f"{_TM}process.size", ""),
    (1, "Flink", f"{_TM}flink.size", ""),
    (2, "JVM heap", "heap", "-Xmx"),
    (3, "framework", f"{_TM}framework.heap.size", ""),
    (3, "task", f"{_TM}task.heap.size", ""),
    (2, "managed", f"{_TM}managed.size", ""),
    (2, "direct", "direct", "MaxDirectMemorySize"),
    (3, "framework", f"{_TM}framework.off-heap.size", ""),
    (3, "task", f"{_TM}task.off-heap.size", ""),
    (3, "network", f"{_TM}network", ""),
    (1, "metaspace", f"{_TM}jvm-metaspace.size", "MaxMetaspaceSize"),
    (1, "JVM overhead", f"{_TM}jvm-overhead", ""),
)
_JOBMANAGER: Final = (
    (0, "process", f"{_JM}process.size", ""),
    (1, "Flink", f"{_JM}flink.size", ""),
    (2, "JVM heap", f"{_JM}heap.size", "-Xmx"),
    (2, "off-heap", f"{_JM}off-heap.size", ""),
    (1, "metaspace", f"{_JM}jvm-metaspace.size", "MaxMetaspaceSize"),
    (1, "JVM overhead", f"{_JM}jvm-overhead", ""),
)
_LEGACY: Final = (
    (0, "total", "taskmanager.heap.size", ""),
    (1, "cut off for the container", "containerized.heap-cutoff", ""),
    (1, "JVM heap", "heap", "-Xmx"),
    (1, "network", "taskmanager.network.memory", ""),
    (1, "managed", "taskmanager.memory.size", ""),
)
_OPTIONS: Final = {
    f"{_TM}network": (f"{_TM}network.fraction", f"{_TM}network.min", f"{_TM}network.max"),
    f"{_TM}jvm-overhead": tuple(f"{_TM}jvm-overhead.{name}" for name in ("fraction", "min", "max")),
    f"{_JM}jvm-overhead": tuple(f"{_JM}jvm-overhead.{name}" for name in ("fraction", "min", "max")),
    f"{_TM}managed.size": (f"{_TM}managed.size", f"{_TM}managed.fraction"),
}


def memory(
    processes: Iterable[MemoryProcess], buffers: list[MemoryBuffers], page: Page
) -> list[RenderableType]:
    """The blocks of `flowdiag memory`: one picture for all processes of the same sizes."""
    blocks: list[RenderableType] = [
        _picture(group, page) for group in _alike(processes) if _sizes(group[0])
    ]
    if buffers:
        blocks.append(_buffers(buffers, page))
    return blocks


def _alike(processes: Iterable[MemoryProcess]) -> list[list[MemoryProcess]]:
    groups: dict[object, list[MemoryProcess]] = {}
    for process in processes:
        key = (
            process.role,
            process.version,
            tuple(sorted(process.derived.items())),
            tuple(sorted(process.observed.items())),
            process.segments,
        )
        groups.setdefault(key, []).append(process)
    return list(groups.values())


def _sizes(process: MemoryProcess) -> dict[str, int]:
    return _with_sums({**process.derived, **process.observed})


def _with_sums(pools: Mapping[str, int]) -> dict[str, int]:
    found = dict(pools)
    for name, parts in (
        ("heap", (f"{_TM}framework.heap.size", f"{_TM}task.heap.size")),
        (
            "direct",
            (f"{_TM}framework.off-heap.size", f"{_TM}task.off-heap.size", f"{_TM}network"),
        ),
    ):
        if all(part in pools for part in parts):
            found.setdefault(name, sum(pools[part] for part in parts))
    return found


def _picture(group: list[MemoryProcess], page: Page) -> RenderableType:
    process = group[0]
    derived, observed = _with_sums(process.derived), _with_sums(process.observed)
    shown = derived | observed
    rows = [row for row in _rows(process, shown) if row[2] in shown]
    total = max(shown.get(rows[0][2], 0) if rows else 0, 1)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("pool", "configured", "derived", *(["observed"] if observed else []), ""):
        right = name in ("derived", "observed")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    bars = _bars(rows, shown, total, unicode=page.unicode)
    for (depth, label, name, flag), branch, bar in zip(
        rows, _branches(rows, unicode=page.unicode), bars, strict=True
    ):
        differs = name in derived and name in observed and derived[name] != observed[name]
        style = "bold yellow" if differs else ""
        cells = [
            Text(f"{branch}{label}", "bold" if depth == 0 else ""),
            Text(printable(_configured(process, name)), "cyan"),
            Text(size(derived[name]) if name in derived else "-", style),
        ]
        if observed:
            cells.append(Text(size(observed[name]) if name in observed else "-", style))
        tail = f" {flag}" if flag and page.verbose else ""
        table.add_row(*cells, Text.assemble((bar, "blue"), (tail, "dim")))
    notes = [Text(printable(text), "dim", overflow="fold") for text in _notes(process, page)]
    return Group(_title(group), Padding(Group(table, *notes), (0, 0, 0, 2)))


def _rows(
    process: MemoryProcess, shown: Mapping[str, int]
) -> tuple[tuple[int, str, str, str], ...]:
    if process.role == "jobmanager":
        return _JOBMANAGER
    return (
        _LEGACY if "heap" in process.derived and f"{_TM}process.size" not in shown else _TASKMANAGER
    )


def _title(group: list[MemoryProcess]) -> Text:
    process = group[0]
    what = {"jobmanager": "JobManager", "taskmanager": "TaskManager"}.get(process.role, "process")
    title = Text("Memory", "bold")
    name = plural(len(group), what) if len(group) > 1 else what
    facts = [name]
    if len(group) == 1 and (process.taskmanager or process.host):
        facts.append(printable(process.taskmanager or process.host or ""))
    facts.append(f"Flink {process.version}" if process.version else "newest Flink")
    if process.container:
        facts.append("in a container")
    if process.observed_from:
        facts.append(f"observed: {process.observed_from}")
    title.append("  " + " · ".join(facts), "")
    return title


def _configured(process: MemoryProcess, name: str) -> str:
    options = process.configured
    told = []
    for key in _OPTIONS.get(name, (name,)):
        if key in options:
            short = key.rpartition(".")[2]
            told.append(options[key] if key == name else f"{short} {options[key]}")
    return ", ".join(told)


def _branches(rows: list[tuple[int, str, str, str]], *, unicode: bool) -> Iterator[str]:
    """The lines of the tree left of each label."""
    tee, end, down = ("├ ", "└ ", "│ ") if unicode else ("|-", "`-", "| ")
    for index, (depth, *_) in enumerate(rows):
        text = ""
        for level in range(1, depth + 1):
            later = next((d for d, *_ in rows[index + 1 :] if d <= level), -1)
            if level == depth:
                text += tee if later == level else end
            else:
                text += down if later == level else "  "
        yield text


def _bars(
    rows: list[tuple[int, str, str, str]], shown: Mapping[str, int], total: int, *, unicode: bool
) -> list[str]:
    """A bar for each pool, where it lies within the process."""
    full, start = ("█" if unicode else "#"), {0: 0}
    bars = []
    for depth, _, name, _ in rows:
        begin = start.get(depth, 0)
        left = round(begin * _BAR / total)
        right = round((begin + shown[name]) * _BAR / total)
        width = max(right - left, 1 if shown[name] else 0)
        bars.append(" " * min(left, _BAR - 1) + full * width)
        start[depth] = begin + shown[name]
        for deeper in range(depth + 1, 5):
            start[deeper] = begin
    return bars


def _notes(process: MemoryProcess, page: Page) -> Iterator[str]:
    if process.segments is not None:
        each = size(process.segment_bytes or 0)
        yield f"{process.segments} network buffers of {each}"
    if process.jvm_parameters:
        yield process.jvm_parameters
    if process.usage is not None and process.usage.floors_bytes:
        floors = " ".join(size(floor) for floor in process.usage.floors_bytes)
        yield f"heap left after collections, over time: {floors}"
    yield from process.error
    yield from process.remarks if page.verbose else ()


def _buffers(buffers: list[MemoryBuffers], page: Page) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("TaskManager", overflow="fold")
    for name in ("exist", "required", "desired", "missing", "any placement", "smallest"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = buffers if page.verbose else buffers[:_BUFFERS_SHOWN]
    for row in shown:
        style = "bold red" if row.missing else ""
        table.add_row(
            Text(printable(row.taskmanager), style, overflow="fold"),
            Text("-" if row.segments is None else str(row.segments), style),
            Text(str(row.required), style),
            Text(str(row.desired), style),
            Text(str(row.missing) if row.missing else "-", style),
            Text(str(row.any_placement), style),
            Text(size(row.smallest_bytes), style),
        )
    blocks: list[RenderableType] = [table]
    if len(shown) < len(buffers):
        blocks.append(Text(f"… and {len(buffers) - len(shown)} more (-v lists all)", "dim"))
    blocks.append(
        Text(
            "required: what the placed tasks cannot start without; smallest: enough wherever the "
            "scheduler puts them",
            "dim",
            overflow="fold",
        )
    )
    return Group(Text("Network buffers", "bold"), Padding(Group(*blocks), (0, 0, 0, 2)))
