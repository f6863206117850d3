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
        text = msgspec.json.encode(speakable(msgspec.to_builtins(document)))
    return visible_json(msgspec.json.format(text, indent=2).decode()).encode() + b"\n"


def speakable(node: Any) -> Any:
    """Escape control characters and lone surrogates in a document."""
    if isinstance(node, dict):
        return {printable(str(key)): speakable(value) for key, value in node.items()}
    if isinstance(node, list):
        return [speakable(item) for item in node]
    return printable(node) if isinstance(node, str) else node
