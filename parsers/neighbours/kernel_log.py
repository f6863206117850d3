"""Reads the kernel's reports about processes that it killed because memory ran out (`dmesg`, `journalctl -k`, syslog)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.parsers.kubernetes.objects import EndedContainer
from flowdiag.parsers.neighbours.times import time_of_line

_KILLED: Final = re.compile(
    r"(?P<group>Memory cgroup )?out of memory: Kill(?:ed)? process (?P<pid>[0-9]{1,9}) \(java\)"
    r"(?:[^\n]{0,200}?\banon-rss:(?P<resident>[0-9]{1,12})kB)?",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(r"\bmemory: usage [0-9]{1,19}kB, limit (?P<limit>[0-9]{1,15})kB")
_BEGINS: Final = re.compile(r" invoked oom-killer: ")
# Lines of a report: each has the kernel's own time, that of the journal, or no time.
_REPORT: Final = re.compile(
    r"\binvoked oom-killer: |\boom-kill:constraint=|\bout of memory: Kill|\boom_reaper: reaped process ",
    re.IGNORECASE,
)
_UNLIMITED: Final = 1 << 50
_KIB: Final = 1024


def reports_kernel_kill(text: str) -> bool:
    """Return whether the kernel reports in a text that it killed a JVM because memory ran out.

    >>> reports_kernel_kill("[12.3] Memory cgroup out of memory: Killed process 47 (java) total-vm:9kB")
    True
    """
    return "ut of memory: " in text and _KILLED.search(text) is not None


def without_kernel_reports(text: str) -> str:
    """Return a text without the lines in which the kernel reports a kill, which look like failures of a job.

    >>> without_kernel_reports("a\\n[1.2] oom-kill:constraint=CONSTRAINT_MEMCG,task=java\\nb")
    'a\\nb'
    """
    return "\n".join(line for line in text.split("\n") if not _REPORT.search(line))


def kernel_kill(line: str, start: int, limit: int | None) -> EndedContainer | None:
    """Return the kill of a JVM that a line of the kernel reports, or None.

    Args:
        line: a line.
        start: offset of the line in the file.
        limit: the memory limit in bytes that the lines above show.
    """
    hit = _KILLED.search(line)
    if hit is None:
        return None
    text = f"the kernel killed process {hit['pid']} (java)"
    text += " at its memory limit" if hit["group"] else ", because the host ran out of memory"
    if hit["resident"]:
        text += f", with {int(hit['resident']) * _KIB}B of resident memory"
    return EndedContainer(
        "OOMKilled",
        offset=start,
        text=text,
        memory_limit=limit if hit["group"] else None,
        time_us=time_of_line(line[: hit.start()]),
    )


def kernel_kills(lines: Iterator[tuple[int, str]]) -> Iterator[EndedContainer]:
    """Yield the kills of JVMs, in order. Each report begins with the limit and ends with the killed process."""
    limit: int | None = None
    for start, line in lines:
        if _BEGINS.search(line):
            limit = None
        elif limit is None and (hit := _LIMIT.search(line)):
            size = int(hit["limit"]) * _KIB
            limit = size if size < _UNLIMITED else None
        elif (found := kernel_kill(line, start, limit)) is not None:
            yield found
