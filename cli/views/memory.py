"""The view of `flowdiag memory`: the memory pools of each process as a tree with bars, and the network buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from flowdiag.analyses.contract.memory import MemoryBuffers, MemoryProcess
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model import fmt
from flowdiag.cli.text.grid import Bar, Column, Listing, and_more, block, heading, line
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.pools import (
    Pool,
    configured_value,
    group_by_size,
    pools_of,
    sizes_of,
    with_sums,
)
from flowdiag.cli.text.words import Clock

_BAR: Final = 32
# By `Page.terse`: processes as a tree, processes in one line, and rows of network buffers.
_TREES: Final = (4, 3, 2, 1, 1)
_IN_LINES: Final = (3, 3, 2, 1, 0)
_BUFFERS: Final = (12, 8, 5, 3, 2)

BUFFER_COLUMNS: Final = (
    Column("TaskManager", lambda row: fmt.place(row.taskmanager, row.host), "wrap"),
    Column("exist", lambda row: None if row.segments is None else str(row.segments)),
    Column("required", lambda row: str(row.required)),
    Column("desired", lambda row: str(row.desired)),
    Column("missing", lambda row: str(row.missing) if row.missing else None),
    Column("any placement", lambda row: str(row.any_placement)),
    Column("smallest", lambda row: fmt.size(row.smallest_bytes)),
)

Row = tuple[Pool, str, Bar]  # the pool, the tree lines left of its label, its bar


def blocks(report: Report, page: Page, clock: Clock) -> list[RenderableType]:
    """Return a tree for each group of processes with the same sizes, then the network buffers."""
    data = report.data
    groups = [group for group in group_by_size(data.processes or ()) if sizes_of(group[0])]
    drawn = groups
    if not page.verbose and len(groups) > _TREES[page.terse]:
        # Processes with findings come first, then TaskManagers, because they run the jobs.
        culprits = {finding.subject.taskmanager for finding in report.findings} - {None}
        drawn = sorted(groups, key=lambda group: _rank(group, culprits))[: _TREES[page.terse]]
    shown: list[RenderableType] = [_tree(group, page) for group in drawn]
    left = [group for group in groups if group not in drawn]
    most = _IN_LINES[page.terse]
    if left and most:
        named = [_summary_line(group) for group in left[:most]]
        shown.append(Group(*named, *and_more(len(left) - most, "processes")))
    if data.buffers:
        shown.append(_buffers(data.buffers, page))
    return shown


def _rank(group: list[MemoryProcess], culprits: set[str | None]) -> tuple[bool, bool, int]:
    named = any(process.taskmanager in culprits for process in group)
    return not named, group[0].role != "taskmanager", -len(group)


def _summary_line(group: list[MemoryProcess]) -> Text:
    sizes = sizes_of(group[0])
    total = next(
        (sizes[pool.name] for pool in pools_of(group[0], sizes) if pool.name in sizes), None
    )
    text = _title(group)
    text.append(f" · {fmt.size(total)}" if total else "")
    return text


def _tree(group: list[MemoryProcess], page: Page) -> RenderableType:
    process = group[0]
    derived, observed = with_sums(process.derived), with_sums(process.observed)
    shown = derived | observed
    pools = [pool for pool in pools_of(process, shown) if pool.name in shown]
    total = max(shown.get(pools[0].name, 0) if pools else 0, 1)
    branches = _branches(pools, unicode=page.unicode)
    bars = _bars(pools, shown, total, unicode=page.unicode)

    def size_cell(sizes: Mapping[str, int]) -> Callable[[Row], Text]:
        def cell(row: Row) -> Text:
            name = row[0].name
            differs = name in derived and name in observed and derived[name] != observed[name]
            return Text(
                fmt.size(sizes[name]) if name in sizes else "-", "bold yellow" if differs else ""
            )

        return cell

    table = Listing(
        zip(pools, branches, bars, strict=True),
        Column("pool", lambda r: Text(f"{r[1]}{r[0].label}", "" if r[0].depth else "bold"), "left"),
        Column(
            "configured",
            lambda row: Text(printable(configured_value(process, row[0].name)), "cyan"),
            "left",
        ),
        Column("derived", size_cell(derived)),
        *([Column("observed", size_cell(observed))] if observed else []),
        Column("", lambda row: row[2], "left"),
        *([Column("", lambda row: Text(row[0].flag, "dim"), "left")] if page.verbose else []),
    )
    return block(_title(group), table, *(line(text, "dim") for text in _notes(process, page)))


def _title(group: list[MemoryProcess]) -> Text:
    process = group[0]
    what = {"jobmanager": "JobManager", "taskmanager": "TaskManager"}.get(process.role, "process")
    name = fmt.plural(len(group), what) if len(group) > 1 else what
    facts = [name]
    if len(group) == 1 and (process.taskmanager or process.host):
        facts.append(printable(process.taskmanager or process.host or ""))
    facts.append(
        f"Flink {process.version}" if process.version else "unknown Flink version, newest assumed"
    )
    if process.container:
        facts.append("in a container")
    if process.observed_from:
        facts.append(f"observed: {process.observed_from}")
    return heading("Memory", " · ".join(facts))


def _branches(pools: Sequence[Pool], *, unicode: bool) -> Iterator[str]:
    """Yield the lines of the tree, drawn to the left of each label."""
    tee, end, down = ("├ ", "└ ", "│ ") if unicode else ("|-", "`-", "| ")
    for index, pool in enumerate(pools):
        text = ""
        for level in range(1, pool.depth + 1):
            later = next((p.depth for p in pools[index + 1 :] if p.depth <= level), -1)
            if level == pool.depth:
                text += tee if later == level else end
            else:
                text += down if later == level else "  "
        yield text


def _bars(
    pools: Sequence[Pool], shown: Mapping[str, int], total: int, *, unicode: bool
) -> Iterator[Bar]:
    """Yield a bar per pool, at the pool's position in the process."""
    full, start = ("█" if unicode else "#"), {0: 0}
    for pool in pools:
        begin = start.get(pool.depth, 0)
        end = begin + shown[pool.name]
        yield Bar(partial(_bar, begin / total, end / total, full), most=_BAR, least=8)
        start[pool.depth] = end
        for deeper in range(pool.depth + 1, 5):
            start[deeper] = begin


def _bar(begin: float, end: float, full: str, cells: int) -> Text:
    """Draw the part of a process between two positions, each a share of its size."""
    left = round(begin * cells)
    width = max(round(end * cells) - left, 1 if end > begin else 0)
    return Text(" " * min(left, cells - 1) + full * width, "blue")


def _notes(process: MemoryProcess, page: Page) -> Iterator[str]:
    if process.segments is not None:
        each = fmt.size(process.segment_bytes or 0)
        yield f"{process.segments} network buffers of {each}"
    if process.jvm_parameters and page.terse < 1:
        yield process.jvm_parameters
    if process.usage is not None and process.usage.floors_bytes:
        floors = " ".join(fmt.size(floor) for floor in process.usage.floors_bytes)
        yield f"heap in use after collections, over time: {floors}"
    yield from process.error
    yield from process.remarks if page.verbose else ()


def _buffers(buffers: Sequence[MemoryBuffers], page: Page) -> RenderableType:
    # TaskManagers with too few buffers come first.
    ranked = buffers if page.verbose else sorted(buffers, key=lambda row: -(row.missing or 0))
    shown = ranked if page.verbose else ranked[: _BUFFERS[page.terse]]
    table = Listing(shown, *BUFFER_COLUMNS, style=lambda row: "bold red" if row.missing else "")
    note = (
        "required: the minimum for the current placement of the tasks; smallest: enough for any "
        "placement"
    )
    notes = [line(note, "dim")] if page.terse < 3 else []
    return block("Network buffers", table, *and_more(len(buffers) - len(shown)), *notes)
