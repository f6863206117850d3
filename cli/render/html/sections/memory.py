"""The section about memory: the pools of each process, and the network buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.contract.memory import MemoryProcess
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts.memory import memory, processes_title
from flowdiag.cli.render.html.context import Context, Part, Section, figures
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text.grid import Column
from flowdiag.cli.text.pools import group_by_size, sizes_of
from flowdiag.cli.views.memory import BUFFER_COLUMNS

_PROCESSES: Final = 3
_REMARKS: Final = 6
_BUFFERS: Final = 12
_REMARK_COLUMNS: Final = (Column("note", lambda remark: remark, "left"),)


def section(context: Context) -> Section | None:
    """Return the processes, processes with findings first, or None if no size is known."""
    data = context.report.data
    groups = [
        group
        for group in group_by_size(data.processes or ())
        if sizes_of(group[0]) or group[0].error
    ]
    if not groups and not data.buffers:
        return None
    culprits = {finding.subject.taskmanager for finding in context.report.findings} - {None}
    groups.sort(
        key=lambda group: (
            not group[0].error,
            not any(process.taskmanager in culprits for process in group),
            group[0].role != "taskmanager",
            -len(group),
        )
    )
    hidden = len(groups) - _PROCESSES
    buffers = sorted(data.buffers or (), key=lambda row: -row.missing)
    tables = [("Network buffers", table(BUFFER_COLUMNS, buffers, _BUFFERS))] if buffers else []
    return Section(
        title="Memory",
        count=fmt.plural(len(data.processes or ()), "process", "processes"),
        shown={
            "overview": None,
            "parts": [_part(group, context) for group in groups[:_PROCESSES]],
            "tables": tables,
            "more": f"{hidden} more groups of processes are in the report" if hidden > 0 else "",
        },
    )


def _part(group: Sequence[MemoryProcess], context: Context) -> Part:
    process = group[0]
    lines = list(process.error)
    if process.segments is not None:
        lines.append(
            f"{process.segments} network buffers of {fmt.size(process.segment_bytes or 0)}"
        )
    if process.usage is not None and process.usage.floors_bytes:
        floors = ", ".join(fmt.size(floor) for floor in process.usage.floors_bytes)
        lines.append(f"Heap in use after collections, over time: {floors}")
    remarks = table(_REMARK_COLUMNS, process.remarks, _REMARKS)
    return Part(
        title=processes_title(group).removeprefix("Memory of "),
        lines=lines,
        figures=figures(memory(group, context.renderer)),
        tables=[("Messages from Flink", remarks)] if remarks.rows else [],
    )
