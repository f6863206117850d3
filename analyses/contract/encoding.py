"""Encodes documents as JSON that is safe to print."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowdiag.analyses.contract.redact import printable, visible_json

_INDENTED_BYTES: Final = 1 << 20
"""Maximum size of indented documents. Usually only programs read larger documents, and indentation adds two thirds to
the size.
"""


def encode(document: msgspec.Struct) -> bytes:
    """Encode the document as JSON with a final newline, indented if it is small."""
    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a lone surrogate in a name from a log
        text = msgspec.json.encode(escape_invisible(msgspec.to_builtins(document)))
    if len(text) <= _INDENTED_BYTES:
        text = msgspec.json.format(text, indent=2)
    return visible_json(text.decode()).encode() + b"\n"


def escape_invisible(node: Any) -> Any:
    """Escape control characters and lone surrogates in a document."""
    if isinstance(node, dict):
        return {printable(str(key)): escape_invisible(value) for key, value in node.items()}
    if isinstance(node, list):
        return [escape_invisible(item) for item in node]
    return printable(node) if isinstance(node, str) else node
