"""Processors and memory available to this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_UNKNOWN: Final = 4 << 30


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the host's, or the lowest limit of its control groups.

    Args:
        root: where `proc` and `sys` are mounted; tests use another folder.
    """
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # Windows
        found = []
    for path in _limits(root):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text):  # otherwise "max": no limit
            found.append(int(text))
    return min(found, default=_UNKNOWN)


def free_memory_share(root: Path = Path("/")) -> float:
    """Return the share of the host's memory that is available; 1 if the system does not report it.

    Args:
        root: where `proc` is mounted; tests use another folder.
    """
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        return sizes["MemAvailable"] / sizes["MemTotal"]
    except (OSError, LookupError, ValueError, ZeroDivisionError):
        return 1.0


def _limits(root: Path) -> Iterator[Path]:
    """Yield the files that may limit the memory of this process's control groups and their parents (v1 and v2)."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if controllers in ("", "memory"):
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            top = root / "sys/fs/cgroup" / controllers
            inside = PurePosixPath(group.lstrip("/"))
            for parent in (inside, *inside.parents):
                yield top / parent / name
