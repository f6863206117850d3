"""Takes several thread dumps in a row of processes that run suspects, because each dump is only one sample."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

from flowdiag.parsers.json_values import as_number
from flowdiag.parsers.live.client import Answer
from flowdiag.parsers.live.watching import Watch

MOST: Final = 5  # maximum dumps of one process
SERIES: Final = 3  # dumps in a series: each is a sample, and three that agree are evidence
PAUSE_S: Final = 2.0  # seconds between two dumps of a series
EVERY_TICKS: Final = 4  # ticks between two series of one process
PROCESSES: Final = 3  # maximum processes dumped in one tick
MAX_THREADS: Final = 1000
"""Maximum number of threads of a process for `auto`. A dump stops the JVM, and killed a JVM with 10,000 threads
(FLINK-39984).
"""

LITE: Final = "mode=lite"
"""Query for a dump without held locks, which stops the JVM for less time. Flink up to 2.3 ignores it (FLINK-39984)."""


class Stacks(StrEnum):
    """When to take thread dumps."""

    AUTO = "auto"  # only processes with suspects and at most `MAX_THREADS` threads
    NEVER = "never"
    ALWAYS = "always"  # every process, those with suspects first


class ThreadDumps:
    """Selects the processes to dump, and limits how often each is dumped."""

    def __init__(
        self,
        watch: Watch,
        keep: Callable[[Answer], None],
        when: Stacks,
        pause_s: float,
        *,
        path: Callable[[str], str] = lambda name: (
            f"/taskmanagers/{quote(name, safe='')}/thread-dump"
        ),
        query: str = "",
    ) -> None:
        """Prepare to take dumps.

        Args:
            watch: sends the requests.
            keep: stores a response.
            when: see `Stacks`.
            pause_s: seconds between two dumps of a series.
            path: returns the path of a process's thread dump.
            query: query of each request.
        """
        self._watch, self._keep = watch, keep
        self._when, self._pause_s = when, pause_s
        self._path, self._query = path, query
        self._taken: dict[str, int] = {}  # number of dumps by process
        self._last: dict[str, int] = {}  # tick of the last series by process
        self._threads: dict[str, int] = {}

    def count_threads(self, path: str, body: object) -> None:
        """Remember how many threads a TaskManager has, from its metrics."""
        for item in body if isinstance(body, list) else ():
            if isinstance(item, Mapping) and item.get("id") == "Status.JVM.Threads.Count":
                manager = unquote(path.split("/")[2])
                self._threads[manager] = int(as_number(item.get("value")) or 0)

    async def take(self, tick: int, suspects: Iterable[str], processes: Iterable[str]) -> None:
        """Take a series of dumps of each suspect that has no recent dumps.

        Args:
            tick: number of the tick.
            suspects: processes with suspects, most suspicious first.
            processes: all processes.
        """
        if self._when is Stacks.NEVER:
            return
        others = sorted(processes) if self._when is Stacks.ALWAYS else ()
        chosen = [
            each for each in dict.fromkeys([*suspects, *others]) if self._may_dump(each, tick)
        ]
        for number in range(SERIES if chosen else 0):
            if number:
                await asyncio.sleep(self._pause_s)
            due = [each for each in chosen[:PROCESSES] if self._taken.get(each, 0) < MOST]
            paths = [(self._path(each), self._query) for each in due]
            for each, answer in zip(due, await self._watch.request_all(paths), strict=True):
                self._taken[each] = self._taken.get(each, 0) + 1
                self._last[each] = tick
                if answer is not None:
                    self._keep(replace(answer, path=self._path(each)))

    def _may_dump(self, process: str, tick: int) -> bool:
        """Return whether a process may be dumped now: few threads, no recent dump, and few dumps so far."""
        if self._when is Stacks.AUTO and self._threads.get(process, 0) > MAX_THREADS:
            return False
        recent = process in self._last and self._last[process] + EVERY_TICKS > tick
        return not recent and self._taken.get(process, 0) < MOST
