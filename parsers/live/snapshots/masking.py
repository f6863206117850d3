"""Masks secrets in responses and logs before they are written to disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from flowdiag.parsers.live.client import RequestFailed
from flowdiag.parsers.live.watching import redact
from flowdiag.parsers.secrets import MASK, WITHHELD, is_secret_key, mask_secrets

_MASKED_AT_ONCE: Final = 8192
"""Number of characters searched for secrets at once, small enough for the search's timeout."""


def masked_values(value: Any) -> Any:
    """Mask the secrets in decoded JSON."""
    return _mask_value(redact(value))


def _mask_value(value: Any, key: str = "", depth: int = 40) -> Any:
    """Mask secrets: environment variables by name, all other text by pattern."""
    if depth == 0:
        return MASK
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str) and isinstance(value.get("value"), str) and is_secret_key(name):
            value = value | {"value": MASK}
        return {each: _mask_value(item, each, depth - 1) for each, item in value.items()}
    if isinstance(value, list):
        return [_mask_value(item, key, depth - 1) for item in value]
    if isinstance(value, str) and len(value) > 8:
        return masked_text(value)
    return value


def masked_text(text: str) -> str:
    """Mask the secrets in a text of any length. A part that takes too long to search is searched line by line."""
    return "".join(_masked_parts(text))


def _masked_parts(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + _MASKED_AT_ONCE
        if end < len(text):
            end = max(text.rfind("\n", at, end) + 1, 0) or end
        part, at = text[at:end], end
        masked = mask_secrets(part)
        if masked == WITHHELD and "\n" in part:
            masked = "".join(mask_secrets(line) for line in part.splitlines(keepends=True))
        yield masked


def masked_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Mask whole lines. If the chunks raise `RequestFailed`, the bytes before that are still masked and yielded."""
    left, failed = b"", None
    try:
        for chunk in chunks:
            data = left + chunk
            end = data.rfind(b"\n") + 1 or (len(data) if len(data) > 1 << 20 else 0)
            left = data[end:]
            if end:
                yield _masked_bytes(data[:end])
    except RequestFailed as error:
        failed = error
    if left:
        yield _masked_bytes(left)
    if failed is not None:
        raise failed


def _masked_bytes(data: bytes) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    return masked_text(text).encode("utf-8", "surrogateescape")
