"""Reads values from JSON that may come from any version, from a fork or from an untrusted source.

The accessors never raise. They treat a value of the wrong type as absent, and return None or an empty collection.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from flowdiag.parsers.errors import Unreadable
from flowdiag.parsers.messages import MOMENT_MAX

FIELD_CHARACTERS: Final = 2000
"""Maximum length of a text; longer texts are truncated, because columns hold values, not documents."""


def objects_at(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = body.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def object_at(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:

    value = body.get(key)
    return value if isinstance(value, Mapping) else {}


def as_string(value: object) -> str | None:
    """Return a non-empty string, or None for any other value."""
    return value if isinstance(value, str) and value else None


def as_integer(value: object, largest: int = 2**63 - 1) -> int | None:
    """Return an integer within bounds; also accepts strings and floats."""
    if type(value) is int:
        return value if -largest - 1 <= value <= largest else None
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value)
    elif isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,19}", value):
            return None
        value = int(value)
    if isinstance(value, int) and -largest - 1 <= value <= largest:
        return value
    return None


def as_count(value: object) -> int | None:
    """Return a non-negative 32-bit integer, or None for any other value."""
    number = as_integer(value, 2**31 - 1)
    return number if number is not None and number >= 0 else None


def as_amount(value: object) -> int | None:
    """Return a number of milliseconds or bytes, or None for -1, which Flink writes for "unknown"."""
    number = as_integer(value)
    return number if number is not None and number >= 0 else None


def as_moment(value: object) -> int | None:
    """Return epoch milliseconds, or None for -1 and 0, which mean "unknown"."""
    number = as_integer(value, MOMENT_MAX)
    return number if number is not None and number > 0 else None


def microseconds(moment_ms: int | None) -> int | None:

    return None if moment_ms is None else moment_ms * 1000


def as_text(value: object) -> str | None:
    """Return a scalar as text for an entry of `fields`, or None if the text is empty."""
    if type(value) is int:
        return str(value)
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return value[:FIELD_CHARACTERS]
    return None


def flatten(body: Mapping[str, Any], prefix: str = "", depth: int = 3) -> dict[str, object]:
    """Flatten nested objects, with their keys joined by dots; drop lists."""
    flat: dict[str, object] = {}
    for key, value in body.items():
        if isinstance(value, Mapping):
            if depth:
                flat |= flatten(value, f"{prefix}{key}.", depth - 1)
        elif not isinstance(value, list):
            flat[f"{prefix}{key}"] = value
    return flat


def as_number(value: object) -> float | None:
    """Return a finite number, or None for any other value, including `"NaN"`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def decode_leniently(text: bytes | str) -> object:
    """Decode JSON that may contain NaN, Infinity, huge integers, lone surrogates or control characters.

    Raises:
        Unreadable: the JSON is damaged.
    """
    known = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
    try:
        return json.loads(_SURROGATE.sub(r"\\ufffd", known), strict=False)
    except RecursionError:
        raise Unreadable("JSON that is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def decode_json(text: Any) -> Any:
    """Decode JSON, leniently if necessary. The only exception raised is `Unreadable`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return decode_leniently(text)
    except RecursionError:
        raise Unreadable("JSON that is nested too deeply") from None


def close_truncated_json(head: bytes) -> bytes:
    """Close the open brackets of a truncated JSON text after its last complete value.

    >>> close_truncated_json(b'{"a": [1, {"b": "x, y", "c": tr')
    b'{"a": [1, {"b": "x, y"}]}'
    """
    stack = bytearray()
    best: tuple[int, bytes] = (0, b"")
    position = 0
    for token in _JSON_TOKENS.finditer(head):
        position = token.end()
        kind = head[token.start()]
        if kind in b"{[":
            stack.append(kind + 2)  # ASCII: the code of the closing bracket is two higher
            best = (position, bytes(stack))
        elif kind in b"}]":
            if stack:
                stack.pop()
            best = (position, bytes(stack))
        elif kind == 0x2C:  # a comma: the value before it is complete
            best = (token.start(), bytes(stack))
    end, closing = best
    return head[:end] + closing[::-1]


_JSON_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
