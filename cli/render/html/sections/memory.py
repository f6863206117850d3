"""Where the memory of each process goes, and the network buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.memory.wire import MemoryBuffers, MemoryProcess
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts.memory import memory, processes_title
from flowdiag.cli.render.html.context import Context, Part, Section, figures
from flowdiag.cli.render.html.figures import Table, table
from flowdiag.cli.text.pools import group_by_size, sizes_of

_PICTURES: Final = 3
_REMARKS: Final = 6
_BUFFERS: Final = 12


def section(context: Context) -> Section | None:
    """The processes, those that something was found out about first; None where no size is known."""
    data = context.report.data
    groups = [
        group
        for group in group_by_size(data.processes or ())
        if sizes_of(group[0]) or group[0].error
    ]
    if not groups and not data.buffers:
        return None
    accused = {finding.subject.taskmanager for finding in context.report.findings} - {None}
    groups.sort(
        key=lambda group: (
            not group[0].error,
            not any(process.taskmanager in accused for process in group),
            group[0].role != "taskmanager",
            -len(group),
        )
    )
    hidden = len(groups) - _PICTURES
    return Section(
        title="Memory",
        count=fmt.plural(len(data.processes or ()), "process", "processes"),
        shown={
            "overview": None,
            "parts": [_part(group, context) for group in groups[:_PICTURES]],
            "tables": [("Network buffers", _buffers(data.buffers))] if data.buffers else [],
            "more": f"{hidden} more kinds of processes are in the report" if hidden > 0 else "",
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
        lines.append(f"Heap left after collections, over time: {floors}")
    return Part(
        title=processes_title(group).removeprefix("Memory of "),
        lines=lines,
        figures=figures(memory(group, context.renderer)),
        tables=[("What Flink remarks", _remarks(process.remarks))] if process.remarks else [],
    )


def _remarks(remarks: Sequence[str]) -> Table:
    return table(("remark",), ((remark,) for remark in remarks), _REMARKS)


def _buffers(buffers: Sequence[MemoryBuffers]) -> Table:
    return table(
        ("TaskManager", ">exist", ">required", ">desired", ">missing", ">smallest that is enough"),
        (
            (
                fmt.place(one.taskmanager, one.host),
                "-" if one.segments is None else str(one.segments),
                str(one.required),
                str(one.desired),
                str(one.missing) if one.missing else "-",
                fmt.size(one.smallest_bytes),
            )
            for one in sorted(buffers, key=lambda one: -one.missing)
        ),
        _BUFFERS,
    )
