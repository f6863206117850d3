"""Reduces an input that shows a fault to a small one that shows the same fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Part = TypeVar("Part")


def minimised(data: bytes, shows: Callable[[bytes], bool], seconds: float) -> bytes:
    """Remove lines, then bytes, while the fault remains.

    Args:
        data: an input that shows the fault.
        shows: returns whether an input shows the fault.
        seconds: approximate time limit.

    >>> minimised(b"one\\ntwo\\nthree\\n", lambda data: b"w" in data, 5)
    b'w'
    """
    until = time.monotonic() + seconds
    lines = data.splitlines(keepends=True)
    data = b"".join(without_needless(lines, lambda some: shows(b"".join(some)), until))
    if len(data) > 20_000:
        return data
    single = [bytes([byte]) for byte in data]
    return b"".join(without_needless(single, lambda some: shows(b"".join(some)), until))


def without_needless(
    parts: Sequence[Part], shows: Callable[[Sequence[Part]], bool], until: float = float("inf")
) -> list[Part]:
    """Remove ever smaller runs of parts while the rest shows the fault.

    Args:
        parts: a sequence that shows the fault as a whole.
        shows: returns whether a subsequence shows the fault.
        until: deadline (`time.monotonic`).

    >>> without_needless(range(100), lambda some: {3, 77} <= set(some))
    [3, 77]
    """
    kept, size = list(parts), len(parts) // 2
    while size:
        at = 0
        while at < len(kept):
            if time.monotonic() > until:
                return kept
            rest = kept[:at] + kept[at + size :]
            if shows(rest):
                kept = rest
            else:
                at += size
        size //= 2
    if len(kept) == 1 and shows([]):
        return []
    return kept
