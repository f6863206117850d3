"""JSON around log lines: what loggers, container runtimes and log stores wrap them in."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(slots=True)
class Unwrapped:
    """The record inside one JSON line; null where the line does not say."""

    text: str
    timestamp_us: int | None = None  # the instant, UTC microseconds
    process: str | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    trace: str | None = None


def unwrap_json(line: bytes) -> Unwrapped | None:
    """Unwrap one JSON line of any known shape; None if it is none."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return None
    return Unwrapped(text=value["message"])
