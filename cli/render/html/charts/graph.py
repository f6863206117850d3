"""The job graph with back pressure, input queues and the culprit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from flowdiag.analyses.contract.queues import QueueVertex
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.drawing import Spec
from flowdiag.cli.render.html.figures import WIDE, ChartRenderer, Figure, Key

HOW: Final = (
    "Data flows along the arrows, from the sources to the sinks. A box is a task with its parallelism, the busy share of "
    "its busiest subtask, and the largest share of time that a subtask waits for downstream tasks (back pressure). The "
    "bar at the bottom is the fullest input queue of its subtasks. Back pressure runs against the arrows. Its root is "
    "the last task that delays others without waiting itself: it has a thick frame and a full queue."
)

_MOST: Final = 40  # maximum number of boxes
_ACROSS: Final = 5  # layers next to each other
_HEAD: Final = 24  # heights in a box, in pixels: its name, a line, its queue
_LINE: Final = 17
_BOTTOM: Final = 14
_GAP: Final = 34
_LINES: Final = 3  # maximum number of lines below the name
_CHARACTER: Final = 6.6  # width of a character, in pixels
_ROLES: Final = {
    "root": ("root", "root of the back pressure"),
    "back-pressured": ("waits", "waits for downstream tasks"),
    "fed-by-root": ("fed", "idle downstream of the root"),
    "ok": ("calm", "no back pressure"),
    "unknown": ("dark", "not measured"),
}


def graph(vertices: Sequence[QueueVertex], renderer: ChartRenderer) -> Figure | None:
    """Return the graph of a job, or None if its edges are unknown or it has a single task."""
    shown = _most_relevant(vertices)
    names = {vertex.name for vertex in shown}
    edges = [(e.upstream, v.name) for v in shown for e in v.inputs if e.upstream in names]
    if not edges:
        return None
    layers = _layers([vertex.name for vertex in shown], edges)
    used = dict.fromkeys(map(_role, shown))
    legend = [Key(color=f"box-{color}", means=means) for color, means in used]
    if any(_queue_share(vertex) for vertex in shown):
        legend.append(Key(color="queue", means="fill level of the input queue"))
    left = len(vertices) - len(shown)
    note = f"{left} tasks without problems are omitted" if left else ""
    roots = [f"{v.name}: root of the back pressure" for v in shown if v.role == "root"]
    label = f"Job graph of {len(vertices)} tasks. " + "; ".join(roots)

    def spec(width: int) -> Spec:
        return _spec(shown, edges, layers, width)

    return renderer.figure(
        "Job graph", label, spec, how=HOW, legend=legend, note=note, whole=len(layers) <= _ACROSS
    )


def _role(vertex: QueueVertex) -> tuple[str, str]:
    """Return the color of a box and its meaning."""
    if vertex.role == "ok" and vertex.busy is None and vertex.back_pressured is None:
        return _ROLES["unknown"]
    return _ROLES.get(vertex.role, _ROLES["unknown"])


def _most_relevant(vertices: Sequence[QueueVertex]) -> list[QueueVertex]:
    if len(vertices) <= _MOST:
        return list(vertices)
    order = list(_ROLES)
    ranked = sorted(
        range(len(vertices)),
        key=lambda n: order.index(vertices[n].role) if vertices[n].role in order else len(order),
    )
    return [vertices[n] for n in sorted(ranked[:_MOST])]


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Group tasks by the longest path to them, and place each task next to its upstream tasks.

    The names are in graph order; edges that lead back are ignored, which cuts loops.

    >>> _layers(["a", "b", "c"], [("a", "c"), ("a", "b"), ("b", "c"), ("c", "a")])
    [['a'], ['b'], ['c']]
    """
    place = {name: number for number, name in enumerate(names)}
    before = defaultdict(list)
    for up, down in edges:
        if place[up] < place[down]:
            before[down].append(up)
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[up] + 1 for up in before[name]), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        layers[depth[name]].append(name)
    for above, layer in pairwise(layers):
        at = {name: number for number, name in enumerate(above)}

        def middle(name: str, at: Mapping[str, int] = at) -> float:
            known = [at[up] for up in before[name] if up in at]
            return sum(known) / len(known) if known else math.inf

        layer.sort(key=lambda name: (middle(name), place[name]))
    return layers


def _spec(
    vertices: Sequence[QueueVertex],
    edges: Sequence[tuple[str, str]],
    layers: Sequence[Sequence[str]],
    width: int,
) -> Spec:
    across = width == WIDE and len(layers) <= _ACROSS
    most = max(map(len, layers))
    width -= 8
    gap = _GAP if across else 10
    if across:
        box = min(190.0, (width - gap * (len(layers) - 1)) / len(layers))
    else:
        box = min(260.0, (width - gap * (most - 1)) / most)
    facts = {vertex.name: _lines(_facts(vertex), _characters_per_line(box)) for vertex in vertices}
    tall = _HEAD + _LINE * max(map(len, facts.values())) + _BOTTOM
    height = most * (tall + 14) if across else len(layers) * (tall + _GAP) - _GAP + 4
    corner: dict[str, tuple[float, float]] = {}
    for depth, layer in enumerate(layers):
        for number, name in enumerate(layer):
            if across:
                x = depth * (box + gap)
                y = (number + 0.5) * height / len(layer) - tall / 2
            else:
                x = (number + 0.5) * width / len(layer) - box / 2
                y = depth * (tall + _GAP)
            corner[name] = x, y
    boxes = [
        _box(vertex, facts[vertex.name], corner[vertex.name], (box, tall)) for vertex in vertices
    ]
    lines = list(_arrows(edges, corner, (box, tall), across=across))
    return _layers_spec(boxes, lines, width, height)


def _characters_per_line(box: float) -> int:
    """Return how many characters fit on one line of a box."""
    return max(4, int((box - 14) / _CHARACTER))


def _facts(vertex: QueueVertex) -> list[str]:
    full = _queue_share(vertex)
    facts = [f"busy {fmt.share(vertex.busy, whole=True)}"] if vertex.busy is not None else []
    if vertex.back_pressured is not None:
        facts.append(f"waits {fmt.share(vertex.back_pressured, whole=True)}")
    if full is not None:
        facts.append(f"queue {fmt.share(min(full, 1.0), whole=True)}")
    culprits = sorted(subtask.subtask_index for subtask in vertex.subtasks if subtask.culprit)
    if culprits:
        first = fmt.subtask(culprits[0], vertex.parallelism)
        facts.append(f"culprit {first}" + (f" +{len(culprits) - 1}" if len(culprits) > 1 else ""))
    return facts or ["not measured"]


def _box(
    vertex: QueueVertex,
    lines: Sequence[str],
    corner: tuple[float, float],
    size: tuple[float, float],
) -> dict[str, Any]:
    (x, y), (box, tall) = corner, size
    name = printable(vertex.name)
    parallelism = f" ×{vertex.parallelism}"
    return {
        "x": x,
        "y": y,
        "x2": x + box,
        "y2": y + tall,
        "left": x + 7,
        "name": fmt.abbreviate(name, max(7, _characters_per_line(box) - len(parallelism) - 1))
        + parallelism,
        **{f"line{n}": line for n, line in enumerate(lines)},
        **{f"y_{n}": y + _LINE * (n + 1) for n in range(_LINES + 1)},
        "queue_x": x + 1 + (box - 2) * min(_queue_share(vertex) or 0.0, 1.0),
        "queue_y": y + tall - 6,
        "role": _role(vertex)[0],
        "tooltip": f"{name}, parallelism {vertex.parallelism}: {', '.join(_facts(vertex))}",
    }


def _lines(facts: Sequence[str], room: int) -> list[str]:
    """Join facts into at most `_LINES` lines.

    >>> _lines(["busy 93%", "waits 11%", "queue 71%"], 22)
    ['busy 93% · waits 11%', 'queue 71%']
    """
    lines = [""]
    for fact in facts:
        longer = f"{lines[-1]} · {fact}" if lines[-1] else fact
        if len(longer) <= room or not lines[-1] or len(lines) == _LINES:
            lines[-1] = longer
        else:
            lines.append(fact)
    return [fmt.shorten(line, room) for line in lines]


def _queue_share(vertex: QueueVertex) -> float | None:
    """Return the fill level of the fullest input queue whose capacity is known."""
    shares = [
        subtask.queue_length / subtask.capacity
        for subtask in vertex.subtasks
        if subtask.queue_length is not None and subtask.capacity
    ]
    return max(shares, default=None)


def _arrows(
    edges: Sequence[tuple[str, str]],
    corner: Mapping[str, tuple[float, float]],
    size: tuple[float, float],
    *,
    across: bool,
) -> Iterator[dict[str, Any]]:
    box, tall = size
    for up, down in edges:
        (x, y), (x2, y2) = corner[up], corner[down]
        if across:
            begin, end = (x + box, y + tall / 2), (x2 - 3, y2 + tall / 2)
        else:
            begin, end = (x + box / 2, y + tall), (x2 + box / 2, y2 - 3)
        # Vega rotates its triangle, which points up, clockwise.
        angle = math.degrees(math.atan2(end[0] - begin[0], -(end[1] - begin[1])))
        yield {"x": begin[0], "y": begin[1], "x2": end[0], "y2": end[1], "angle": round(angle)}


def _layers_spec(
    boxes: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]], width: float, height: float
) -> Spec:
    def at(field: str, size: float) -> Spec:
        scale = {"domain": [0, size], "nice": False, "zero": False}
        return {"field": field, "type": "quantitative", "axis": None, "scale": scale}

    x, y = at("x", width), {**at("y", height)}
    y["scale"] = {**y["scale"], "reverse": True}
    roles = list(dict.fromkeys(color for color, _ in _ROLES.values()))

    def by_role(what: str) -> Spec:
        return {
            "field": "role",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": roles, "range": [f"var(--{what}-{role})" for role in roles]},
        }

    def text(field: str, line: str, **look: Any) -> Spec:
        return {
            "data": {"values": [box for box in boxes if field in box]},
            "mark": {"type": "text", "align": "left", "aria": False, **look},
            "encoding": {
                "x": {**x, "field": "left"},
                "y": {**y, "field": line},
                "text": {"field": field},
            },
        }

    return {
        "width": width,
        "height": height,
        "resolve": {"scale": {"color": "independent", "fill": "independent"}},
        "layer": [
            *_arrow_marks(lines, x, y),
            {
                "data": {"values": list(boxes)},
                "mark": {"type": "rect", "cornerRadius": 4},
                "encoding": {
                    "x": x,
                    "y": y,
                    **_ENDS,
                    "fill": by_role("fill"),
                    "stroke": by_role("rim"),
                    "strokeWidth": {
                        "condition": {"test": "datum.role === 'root'", "value": 3},
                        "value": 1.2,
                    },
                    "description": {"field": "tooltip"},
                },
            },
            _queue_mark(boxes, x, y),
            text("name", "y_0", fontWeight="bold"),
            *(text(f"line{n}", f"y_{n + 1}") for n in range(_LINES)),
        ],
    }


_ENDS: Final[Spec] = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}


def _queue_mark(boxes: Sequence[dict[str, Any]], x: Spec, y: Spec) -> Spec:
    """Return the marks for the queue bars, only for boxes with queued data."""
    return {
        "data": {"values": [box for box in boxes if box["queue_x"] > box["x"] + 1]},
        "mark": {"type": "rect", "fill": "var(--queue)", "aria": False},
        "encoding": {
            "x": x,
            "x2": {"field": "queue_x"},
            "y": {**y, "field": "queue_y"},
            "y2": {"field": "y2"},
        },
    }


def _arrow_marks(lines: Sequence[dict[str, Any]], x: Spec, y: Spec) -> list[Spec]:
    head = {
        "type": "point",
        "shape": "triangle",
        "filled": True,
        "color": "var(--edge)",
        "size": 60,
        "opacity": 1,
        "aria": False,
    }
    return [
        {
            "data": {"values": list(lines)},
            "mark": {"type": "rule", "color": "var(--edge)", "strokeWidth": 1.5, "aria": False},
            "encoding": {"x": x, "y": y, **_ENDS},
        },
        {
            "data": {"values": list(lines)},
            "mark": head,
            "encoding": {
                "x": {**x, "field": "x2"},
                "y": {**y, "field": "y2"},
                "angle": {"field": "angle", "type": "quantitative", "scale": None},
            },
        },
    ]
