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

SERIES: Final = 3  # dumps in a series: each is a sample, and three that agree are evidence
PAUSE_S: Final = 2.0  # seconds between two dumps of a series
EVERY_TICKS: Final = (
    4  # ticks between the first two series of one process; each further pause is twice as long
)
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


JOBMANAGER: Final = "jobmanager"
"""Stands for the JobManager among the processes of a Flink cluster."""


def flink_path(process: str) -> str:
    """Return the path of the thread dump of a TaskManager, or of the `JOBMANAGER`."""
    if process == JOBMANAGER:
        return "/jobmanager/thread-dump"
    return f"/taskmanagers/{quote(process, safe='')}/thread-dump"


class ThreadDumps:
    """Selects the processes to dump, and limits how often each is dumped."""

    def __init__(
        self,
        watch: Watch,
        keep: Callable[[Answer], None],
        when: Stacks,
        pause_s: float,
        *,
        path: Callable[[str], str] = flink_path,
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
        self._next: dict[str, int] = {}  # tick of the next series by process
        self._pause: dict[str, int] = {}  # ticks before the series after the next one by process
        self._threads: dict[str, int] = {}

    def count_threads(self, path: str, body: object) -> None:
        """Remember how many threads a TaskManager has, from its metrics."""
        for item in body if isinstance(body, list) else ():
            if isinstance(item, Mapping) and item.get("id") == "Status.JVM.Threads.Count":
                manager = unquote(path.split("/")[2])
                self._threads[manager] = int(as_number(item.get("value")) or 0)

    async def take(self, tick: int, suspects: Iterable[str], processes: Iterable[str]) -> None:
        """Take a series of dumps of each suspect that has no recent dumps.

        The pause between two series of a process doubles, so that a long collection has dumps of its end, but few.

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
        ][:PROCESSES]
        for each in chosen:
            pause = self._pause.get(each, EVERY_TICKS)
            self._next[each], self._pause[each] = tick + pause, 2 * pause
        paths = [(self._path(each), self._query) for each in chosen]
        for number in range(SERIES if chosen else 0):
            if number:
                await asyncio.sleep(self._pause_s)
            for each, answer in zip(chosen, await self._watch.request_all(paths), strict=True):
                if answer is not None:
                    self._keep(replace(answer, path=self._path(each)))

    def _may_dump(self, process: str, tick: int) -> bool:
        """Return whether a process may be dumped now: few threads, and no recent dump."""
        if self._when is Stacks.AUTO and self._threads.get(process, 0) > MAX_THREADS:
            return False
        return self._next.get(process, 0) <= tick
