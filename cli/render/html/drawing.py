"""Converts Vega-Lite specifications to small SVG elements without scripts, in the colors of the page.

Vega writes stand-alone images. A page has several, and its colors change with light and dark mode. Colors are
therefore variables of `style.css`, ids get a prefix, and attributes without effect are removed. The
description of a mark becomes a `<title>`, which browsers show as a tooltip.
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
# Attributes without effect in the page.
_UNUSED: Final = {
    "class": None,
    "pointer-events": None,
    "role": None,
    "aria-roledescription": None,
    "aria-hidden": None,
    "aria-label": None,
    "font-family": None,  # style.css sets it
    "opacity": "1",
    "stroke-width": "1",
    "fill-opacity": "1",
    "font-size": "12px",
    "transform": "translate(0,0)",
}
FIT: Final[Spec] = {"autosize": {"type": "fit", "contains": "padding"}}
"""Includes axes and labels in the width of a chart."""

_DIGITS: Final = re.compile(r"-?\d+\.\d{2,}")
_UNDRAWABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that Vega cannot draw. Those that XML 1.0 forbids abort its process when it measures text. It cuts long
labels between the surrogates of characters beyond the first Unicode plane, and then rejects the label."""
_REFERENCE: Final = re.compile(r"url\(#([\w-]+)\)")
_MEASURED: Final = ("d", "transform", "x", "y", "x2", "y2", "width", "height")
_HOVERED: Final = "graphics-symbol"

Xml.register_namespace("", SVG)


def draw(spec: Mapping[str, Any], name: str, label: str) -> Markup:
    """Return a chart as an `<svg>` element.

    Args:
        spec: Vega-Lite with its data. Text from logs must be printable; this function replaces characters that Vega
            cannot draw.
        name: a unique name in the page of letters, digits and dashes.
        label: a description for screen readers.

    Raises:
        RefusedError, SlowError, NoConverterError: as `Converter.svg`.
    """
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": _CONFIG,
        **spec,
    }
    root = Xml.fromstring(CONVERTER.svg(json.dumps(_replace_undrawable(whole))))
    _simplify(root, name)
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


def _replace_undrawable(value: Any) -> Any:
    """Replace the characters that Vega cannot draw."""
    if isinstance(value, str):
        return _UNDRAWABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_replace_undrawable(key): _replace_undrawable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_undrawable(item) for item in value]
    return value


def _simplify(node: Xml.Element, name: str) -> None:
    tooltip = node.get("aria-label") if node.get("role") == _HOVERED else None
    for key, unused in _UNUSED.items():
        if node.get(key) is not None and (unused is None or node.get(key) == unused):
            del node.attrib[key]
    for key, value in list(node.attrib.items()):
        if key in _MEASURED:
            value = _DIGITS.sub(_round, value)
        elif key == "id":
            value = f"{name}-{value}"
        node.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
    node[:] = [child for child in node if not _is_invisible(child)]
    for child in node:
        _simplify(child, name)
    node[:] = list(_unwrap(node))
    if tooltip:
        title = Xml.Element(f"{{{SVG}}}title")
        title.text = tooltip
        node.insert(0, title)


def _round(hit: re.Match[str]) -> str:
    return f"{float(hit.group()):.1f}".removesuffix(".0")


def _is_invisible(node: Xml.Element) -> bool:
    """Return whether an element is invisible: the outlines of groups, and the white background."""
    if node.tag == f"{{{SVG}}}path":
        return node.get("class") in ("background", "foreground") and not node.get("stroke")
    return node.tag == f"{{{SVG}}}rect" and node.get("fill") == "white"


def _unwrap(node: Xml.Element) -> Iterator[Xml.Element]:
    """Yield the children, with groups without attributes replaced by their children."""
    for child in node:
        if child.tag == f"{{{SVG}}}g" and (not len(child) or not child.attrib):
            yield from child
        else:
            yield child
