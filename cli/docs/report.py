"""Renders docs/report.md, the reference of the JSON documents, from their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowdiag.analyses.comparison import wire
from flowdiag.analyses.report.transform import schema_text

_HEAD: Final = """\
# The JSON report

Generated from the types of the report. The same as JSON Schema: [report](report.schema.json), [comparison](comparison.schema.json).
`flowdiag schema` prints them. Times are ISO 8601 in UTC. `_ms` are milliseconds, `_bytes` bytes, `_us` microseconds, `_per_s` rates.

New fields and new values of enumerations do not change the number in `schema`. Any other change does. Fields without a check mark may be missing.
"""


def report_document() -> str:
    """Return docs/report.md: every type of both documents, in the order in which a reader meets them."""
    report, comparison = json.loads(schema_text()), json.loads(wire.schema_text())
    shared = report["$defs"]
    for name in set(shared) & set(comparison["$defs"]):
        if comparison["$defs"][name] != shared[name]:
            comparison = _rename(comparison, name, f"{name} (comparison)")
    parts = [_HEAD]
    for schema, known in ((report, []), (comparison, list(shared))):
        types = schema["$defs"]
        parts += [
            "\n".join(_section(name, types[name]))
            for name in _reachable_types(_name(schema), types, known)
        ]
    return "\n".join(parts)


def _rename(schema: Any, old: str, new: str) -> dict[str, Any]:
    """Return a schema with another name for a type."""
    text = json.dumps(schema).replace(f'"#/$defs/{old}"', f'"#/$defs/{new}"')
    renamed: dict[str, Any] = json.loads(text)
    renamed["$defs"][new] = renamed["$defs"].pop(old)
    return renamed


def _reachable_types(top: str, types: Mapping[str, Any], known: list[str]) -> Iterator[str]:
    """Yield a type and the types that it contains, breadth first, each once, without known types."""
    pending, seen = [top], {*known, top}
    while pending:
        name = pending.pop(0)
        yield name
        for used in _names(types[name]):
            if used not in seen:
                seen.add(used)
                pending.append(used)


def _names(part: Any) -> Iterator[str]:
    """Yield the names of the types that a schema refers to."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield _name(part)
        for value in part.values():
            yield from _names(value)
    elif isinstance(part, list):
        for value in part:
            yield from _names(value)


def _name(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _section(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about a type: its description, and its fields or values."""
    yield from (f"## {name}", "")
    if description := part.get("description"):
        yield from ("\n".join(line.strip() for line in str(description).splitlines()), "")
    if "enum" in part:
        yield from (", ".join(f"`{value}`" for value in part["enum"]), "")
        return
    required = part.get("required", [])
    yield from ("| field | type | always |", "|---|---|---|")
    for field, kind in part.get("properties", {}).items():
        yield f"| `{field}` | {_type(kind)} | {'✓' if field in required else ''} |"
    yield ""


def _type(kind: Mapping[str, Any]) -> str:
    """Return a type in words, with links to other types.

    >>> _type({"items": {"$ref": "#/$defs/Culprit"}, "type": "array"})
    'list of [Culprit](#culprit)'
    >>> _type({"anyOf": [{"type": "integer"}, {"type": "null"}]})
    'integer or null'
    """
    if "$ref" in kind:
        anchor = re.sub(r"\W+", "-", _name(kind).lower()).strip("-")
        return f"[{_name(kind)}](#{anchor})"
    if "anyOf" in kind:
        return " or ".join(map(_type, kind["anyOf"]))
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if kind.get("type") == "array":
        items = kind.get("items") or kind.get("prefixItems", [{}])[0]
        return f"list of {_type(items)}"
    if kind.get("type") == "object":
        values = kind.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) else "object"
    return str(kind.get("type", "any value"))
