"""Input and output of the sniffers: a sample of a file, and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 256 * 1024
"""Number of bytes at the start of a file that a sample contains."""


GC_LOG: Final = "looks like a GC log"
"""Reason not to scan a garbage collection log. Topics that need it read it separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sniffed:
    """The verdict on a file; the fields are those of `source.Source`."""

    kind: str
    engine: str = "unknown"
    role: str = "unknown"
    encoding: str = "utf-8"
    url: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The decompressed parts of a file that `sniff` may examine.

    Attributes:
        name: path and name, used only to find IDs in the names of saved REST responses.
        head: the first `HEAD_BYTES`, or the whole file if it is shorter.
        complete: whether `head` is the whole file.
        elsewhere: some lines from the middle and the end, if they are cheap to read.
        read: returns the given number of first bytes.
    """

    name: str
    head: bytes
    complete: bool
    elsewhere: bytes
    read: Callable[[int], bytes]


def not_read(reason: str, engine: str = "unknown") -> Sniffed:
    """Return the verdict on a file that flowdiag does not read; `reason` is one clause for the user."""
    return Sniffed(kind="not-read", reason=reason, engine=engine)
