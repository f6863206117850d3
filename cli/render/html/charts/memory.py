"""The memory pools of a process at their positions, as derived and as observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowdiag.analyses.contract.memory import MemoryProcess
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import FIT, Spec
from flowdiag.cli.render.html.figures import WIDE, ChartRenderer, Figure, Key, table
from flowdiag.cli.render.html.scales import unit_of_sizes
from flowdiag.cli.text.grid import Column
from flowdiag.cli.text.pools import Pool, configured_value, pools_of, with_sums

HOW: Final = (
    "Each row is a memory pool, with a dot for each pool that contains it. The bar shows the "
    "pool's position within the process, so the parts of a pool line up below it. Derived sizes "
    "are calculated from the options. Observed sizes are the sizes that the process printed at "
    "startup. If the two differ, an option did not reach the process, or its environment "
    "overrides the option. The table below lists the configured values."
)

_ROWS: Final = 40
_OPTION: Final = 24
_LABEL: Final = 132  # pixels
_AXIS: Final[Spec] = {
    "title": None,
    "labelColor": "var(--ink)",
    "labelAlign": "left",
    "labelPadding": _LABEL,
    "ticks": False,
    "labelLimit": _LABEL,
    "labelOverlap": False,
}


def memory(group: Sequence[MemoryProcess], renderer: ChartRenderer) -> Figure | None:
    """Return one figure for processes with equal sizes, or None if no size is known."""
    process = group[0]
    derived, observed = with_sums(process.derived), with_sums(process.observed)
    shown = derived | observed
    pools = [pool for pool in pools_of(process, shown) if pool.name in shown]
    if not pools:
        return None
    size, unit = unit_of_sizes(shown[pool.name] for pool in pools)
    names = [pool.name for pool in pools]
    same = bool(observed) and [*map(derived.get, names)] == [*map(observed.get, names)]
    options = {name: configured_value(process, name) for name in names}
    rows = [] if same else list(_rows(pools, derived, "derived", size, options))
    rows += _rows(pools, observed, "observed", size, options if same else {})
    kinds = list(dict.fromkeys(row["of"] for row in rows))
    means = {
        "derived": "derived from the options",
        "observed": "derived from the options and observed" if same else "observed",
    }
    legend = [Key(color=kind, means=means[kind]) for kind in kinds]
    columns = (
        Column("pool", lambda pool: "  " * pool.depth + pool.label, "left"),
        Column("configured", lambda pool: options[pool.name] or None, "left"),
        _size_column("derived", derived),
        _size_column("observed", observed),
    )
    title = processes_title(group)
    order = [_label(pool) for pool in pools]

    def spec(width: int) -> Spec:
        return _spec(rows, order, kinds, unit, width)

    whole = fmt.size(shown[pools[0].name])
    label = f"{title}: {whole} in {len(pools)} pools"
    return renderer.figure(
        title, label, spec, how=HOW, legend=legend, numbers=table(columns, pools, _ROWS)
    )


def _size_column(title: str, sizes: Mapping[str, int]) -> Column:
    return Column(title, lambda pool: fmt.size(sizes[pool.name]) if pool.name in sizes else None)


def processes_title(group: Sequence[MemoryProcess]) -> str:
    """Return a title for processes of equal sizes: their number, role, version and container."""
    process = group[0]
    what = {"jobmanager": "JobManager", "taskmanager": "TaskManager"}.get(process.role, "process")
    facts = [
        f"Memory of {fmt.plural(len(group), what)}" if len(group) > 1 else f"Memory of a {what}"
    ]
    if len(group) == 1 and (process.taskmanager or process.host):
        facts.append(process.taskmanager or process.host or "")
    facts.append(
        f"Flink {process.version}" if process.version else "unknown Flink version, newest assumed"
    )
    if process.container:
        facts.append("in a container")
    return printable(" · ".join(facts))


def _label(pool: Pool) -> str:
    """Return a unique name for a pool: the framework and task pools exist both on and off the heap."""
    part = pool.label in ("framework", "task")
    off = "" if not part else " off-heap" if "off-heap" in pool.name else " heap"
    # Vega removes leading spaces.
    dots = "·" * max(0, pool.depth - 1)
    return f"{dots} {pool.label}{off}".strip()


def _rows(
    pools: Sequence[Pool],
    sizes: Mapping[str, int],
    of: str,
    size: int,
    options: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return a bar per pool. Each starts where the previous pool of its level ends."""
    start: dict[int, int] = {0: 0}
    rows = []
    for pool in pools:
        begin = start.get(pool.depth, 0)
        length = sizes.get(pool.name)
        if length is None:
            continue
        start[pool.depth] = begin + length
        for deeper in range(pool.depth + 1, 5):
            start[deeper] = begin
        option = options.get(pool.name)
        set_to = printable(fmt.shorten(option, _OPTION)) if option else ""
        rows.append(
            {
                "pool": _label(pool),
                "of": of,
                "x": begin / size,
                "x2": (begin + length) / size,
                "text": fmt.size(length),
                "whole": f"{fmt.size(length)}, set: {set_to}" if set_to else fmt.size(length),
                "tooltip": f"{pool.label}, {of}: {fmt.size(length)}",
            }
        )
    return rows


def _spec(
    rows: Sequence[dict[str, Any]],
    order: Sequence[str],
    kinds: Sequence[str],
    unit: str,
    width: int,
) -> Spec:
    longest = max(row["x2"] for row in rows)
    y = {"field": "pool", "type": "nominal", "sort": list(order), "axis": _AXIS}
    within = {
        "field": "of",
        "type": "nominal",
        "scale": {"domain": list(kinds), "paddingInner": 0.1},
    }
    # Space for the size next to the longest bar.
    room = 1.3 if width == WIDE else 1.4
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, longest * room], "nice": False},
        "axis": {"title": unit, "tickCount": 5},
    }
    color = {
        "field": "of",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(kinds), "range": [f"var(--{kind})" for kind in kinds]},
    }
    return {
        **FIT,
        "width": width,
        "height": 40 + len(order) * (15 * len(kinds) + 5),
        "data": {"values": list(rows)},
        "layer": [
            {
                "mark": {"type": "bar", "minBandSize": 2},
                "encoding": {
                    "y": y,
                    "yOffset": within,
                    "x": x,
                    "x2": {"field": "x2"},
                    "color": color,
                    "description": {"field": "tooltip"},
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 11, "aria": False},
                "encoding": {
                    "y": y,
                    "yOffset": within,
                    "x": {**x, "field": "x2"},
                    "text": {"field": "whole" if width == WIDE else "text"},
                },
            },
        ],
    }
