"""Flame graphs of the threads behind a finding, as plain SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from markupsafe import Markup

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.model.finding import StackPath
from flowdiag.parsers.components import component_named
from flowdiag.parsers.lines.traces import is_library

HOW: Final = (
    "Each box is a stack frame. Its width is the share of samples with that frame. Boxes rest on the frames that called "
    "them, so the topmost boxes show what the threads do. Colored boxes are user code. Hover over a box to see its full name."
)
_WIDTH, _ROW = 1000, 19  # units of the view box
_CHARACTER: Final = 6.6  # width of a character, in the same units
_NARROWEST: Final = 2.0


@dataclass(slots=True)
class _Node:
    name: str
    samples: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def flame_graph(stacks: Sequence[StackPath]) -> Markup:
    """Return the flame graph of these stacks, or empty markup without stacks."""
    root = _Node("all samples", sum(stack.samples for stack in stacks))
    for stack in stacks:
        node = root
        for frame in stack.frames:
            node = node.children.setdefault(frame, _Node(frame))
            node.samples += stack.samples
    if not root.samples:
        return Markup("")
    depth = max(len(stack.frames) for stack in stacks) + 1
    height = depth * _ROW
    boxes = "".join(_boxes(root, root.samples, 0.0, 0, height))
    label = escape(f"Flame graph of {root.samples} samples")
    return Markup(
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}"><svg class="flame" role="img" '
        f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"><title>{label}</title>{boxes}</svg></div>'
    )


def _boxes(node: _Node, whole: int, left: float, level: int, height: int) -> list[str]:
    width = node.samples / whole * _WIDTH
    if width < _NARROWEST:
        return []
    top = height - (level + 1) * _ROW
    method = node.name.partition("(")[0]
    mine = level > 0 and not is_library(method) and component_named(method) is None
    marked = ' class="mine"' if mine else ""
    share = f"{node.samples / whole:.0%}"
    title = f"{escape(printable(node.name))}: {node.samples} samples, {share}"
    box = f'x="{left:.1f}" y="{top}" width="{max(1.0, width - 1):.1f}" height="{_ROW - 1}"'
    text = (
        f'<text x="{left + 4:.1f}" y="{top + 13}">{escape(_shorten_frame(node.name, width))}</text>'
    )
    found = [f"<g{marked}><title>{title}</title><rect {box}/>{text}</g>"]
    for child in sorted(node.children.values(), key=lambda each: -each.samples):
        found += _boxes(child, whole, left, level + 1, height)
        left += child.samples / whole * _WIDTH
    return found


def _shorten_frame(name: str, width: float) -> str:
    """Shorten a frame's name to fit a width in pixels. The method and its class take precedence over the package.

    >>> _shorten_frame("com.shop.Price.map(Price.java:31)", 200)
    'Price.map(Price.java:31)'
    """
    most = int((width - 8) / _CHARACTER)
    method, bracket, place = printable(name).partition("(")
    short = ".".join(method.split(".")[-2:])
    for text in (f"{method}{bracket}{place}", f"{short}{bracket}{place}", short):
        if len(text) <= most:
            return text
    return short[: most - 1] + "…" if most > 5 else ""
