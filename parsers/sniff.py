"""What a file is, judged by its content: never by its name or extension."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sniffed:
    """The verdict on one file; the fields are those of `sources.Source`."""

    kind: str
    engine: str = "unknown"
    role: str = "unknown"
    encoding: str = "utf-8"
    url: str | None = None
    reason: str | None = None


def sniff(head: bytes) -> Sniffed:
    """Judge by the first bytes."""
    if not head:
        return Sniffed(kind="not-read", reason="empty file")
    if head.count(b"\0") > len(head) // 10:
        return Sniffed(kind="not-read", reason="binary file")
    engine = "flink" if re.search(rb"flink|o\.a\.f\.|checkpoint", head) else "unknown"
    return Sniffed(kind="log", engine=engine)
