"""What is looked at of a file, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 256 * 1024
"""So many first bytes are looked at."""


GC_LOG: Final = "looks like a GC log"
"""Why a log of the garbage collector is not scanned; topics that ask for it read it by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sniffed:
    """The verdict on one file; the fields are those of `sources.Source`."""

    kind: str
    engine: str = "unknown"
    role: str = "unknown"
    encoding: str = "utf-8"
    url: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What `sniff` may look at of a file, decompressed.

    Attributes:
        name: path and name; only ids in names of REST answers are taken from it.
        head: the first `HEAD_BYTES`, or all there is.
        complete: `head` is all there is.
        elsewhere: some lines from the middle and the end, if they are cheap to get.
        read: gives the first n bytes.
    """

    name: str
    head: bytes
    complete: bool
    elsewhere: bytes
    read: Callable[[int], bytes]


def not_read(reason: str, engine: str = "unknown") -> Sniffed:
    """The verdict on what is put aside; `reason` is one clause for the user."""
    return Sniffed(kind="not-read", reason=reason, engine=engine)
