"""Encodes documents as JSON that is safe to print."""

from __future__ import annotations

from typing import Any

import msgspec

from flowdiag.analyses.contract.redact import printable, visible_json


def encode(document: msgspec.Struct) -> bytes:
    """Encode the document as indented JSON with a final newline."""
    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a lone surrogate in a name from a log
        text = msgspec.json.encode(escape_invisible(msgspec.to_builtins(document)))
    return visible_json(msgspec.json.format(text, indent=2).decode()).encode() + b"\n"


def escape_invisible(node: Any) -> Any:
    """Escape control characters and lone surrogates in a document."""
    if isinstance(node, dict):
        return {printable(str(key)): escape_invisible(value) for key, value in node.items()}
    if isinstance(node, list):
        return [escape_invisible(item) for item in node]
    return printable(node) if isinstance(node, str) else node
