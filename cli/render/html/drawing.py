"""From a Vega-Lite specification to an SVG that stands in a page: small, without scripts, in the page's colours.

What Vega writes is meant for a picture of its own. Here several stand in one page, whose colours change with
light and dark: so colours are the page's variables (`style.css`), identifiers get a prefix, what says
nothing is left out, and the description of a mark becomes a `<title>`, which browsers show under the mouse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as Xml

from markupsafe import Markup

from flowdiag.cli.render.html.converter import CONVERTER

SVG: Final = "http://www.w3.org/2000/svg"
Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CONFIG: Final[Spec] = {
    "background": None,
    "font": _FONT,
    "padding": 2,
    "view": {"stroke": None},
    "legend": {"aria": False},
    "axis": {
        "aria": False,
        "labelColor": "var(--soft)",
        "titleColor": "var(--soft)",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelOverlap": "greedy",
    },
    "text": {"fill": "var(--ink)", "fontSize": 12},
}
# Attributes that change nothing where they stand, or that nothing in the page asks for.
_IDLE: Final = {
    "class": None,
    "pointer-events": None,
    "role": None,
    "aria-roledescription": None,
    "aria-hidden": None,
    "aria-label": None,
    "font-family": None,  # of style.css
    "opacity": "1",
    "stroke-width": "1",
    "fill-opacity": "1",
    "font-size": "12px",
    "transform": "translate(0,0)",
}
FIT: Final[Spec] = {"autosize": {"type": "fit", "contains": "padding"}}
"""Lets the width of a chart be that of everything in it."""

_DIGITS: Final = re.compile(r"-?\d+\.\d{2,}")
_UNDRAWABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""What aborts Vega's process (its measuring of texts reads XML 1.0, and panics at what that forbids), and what
lies beyond the first plane: Vega cuts long labels between its halves, and refuses a half."""
_REFERENCE: Final = re.compile(r"url\(#([\w-]+)\)")
_MEASURED: Final = ("d", "transform", "x", "y", "x2", "y2", "width", "height")
_HOVERED: Final = "graphics-symbol"

Xml.register_namespace("", SVG)


def draw(spec: Mapping[str, Any], name: str, label: str) -> Markup:
    """A chart as an `<svg>` element.

    Args:
        spec: Vega-Lite, with its data. Texts from logs must be printable already; what cannot be drawn of
            them is replaced here.
        name: unlike that of all other charts of the page: letters, digits, dashes.
        label: what it shows, for those who do not see it.

    Raises:
        RefusedError, SlowError, NoConverterError: as `Converter.svg`.
    """
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": _CONFIG,
        **spec,
    }
    root = Xml.fromstring(CONVERTER.svg(json.dumps(_drawable(whole))))
    _tidy(root, name)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    root.attrib.clear()
    root.attrib.update(
        {
            "class": "chart",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "role": "img",
            "aria-label": label,
        }
    )
    return Markup(Xml.tostring(root, encoding="unicode").replace(f' xmlns="{SVG}"', ""))


def _drawable(value: Any) -> Any:
    """A part of a specification with a mark in the place of each character that cannot be drawn."""
    if isinstance(value, str):
        return _UNDRAWABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_drawable(key): _drawable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_drawable(one) for one in value]
    return value


def _tidy(node: Xml.Element, name: str) -> None:
    told = node.get("aria-label") if node.get("role") == _HOVERED else None
    for key, idle in _IDLE.items():
        if node.get(key) is not None and (idle is None or node.get(key) == idle):
            del node.attrib[key]
    for key, value in list(node.attrib.items()):
        if key in _MEASURED:
            value = _DIGITS.sub(_rounded, value)
        elif key == "id":
            value = f"{name}-{value}"
        node.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
    node[:] = [child for child in node if not _is_nothing(child)]
    for child in node:
        _tidy(child, name)
    node[:] = list(_unwrapped(node))
    if told:
        title = Xml.Element(f"{{{SVG}}}title")
        title.text = told
        node.insert(0, title)


def _rounded(hit: re.Match[str]) -> str:
    return f"{float(hit.group()):.1f}".removesuffix(".0")


def _is_nothing(node: Xml.Element) -> bool:
    """Whether it leaves no trace: paths of Vega's own groups, and the white paper."""
    if node.tag == f"{{{SVG}}}path":
        return node.get("class") in ("background", "foreground") and not node.get("stroke")
    return node.tag == f"{{{SVG}}}rect" and node.get("fill") == "white"


def _unwrapped(node: Xml.Element) -> Iterator[Xml.Element]:
    """The children, those of groups that say nothing in the group's place; empty ones are gone."""
    for child in node:
        if child.tag == f"{{{SVG}}}g" and (not len(child) or not child.attrib):
            yield from child
        else:
            yield child
