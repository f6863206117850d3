"""When a collection takes thread dumps of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from flowdiag.parsers.live.client import Answer
from flowdiag.parsers.live.thread_dumps import JOBMANAGER, SERIES, Stacks, ThreadDumps
from flowdiag.parsers.live.watching import Watch


class _Watch:
    """Answers every request with an empty dump."""

    async def request_all(self, requests: Iterable[tuple[str, str]]) -> list[Answer | None]:
        return [
            Answer(path=path, body={"threadInfos": []}, time_ms=0, bytes=0) for path, _ in requests
        ]


def _dumped(suspects: list[list[str]]) -> list[tuple[int, str]]:
    """Return the tick and path of each dump, with the given suspects of each tick."""
    kept: list[str] = []
    dumped: list[tuple[int, str]] = []

    async def collect() -> None:
        watch = cast(Watch, _Watch())
        dumps = ThreadDumps(watch, lambda each: kept.append(each.path), Stacks.AUTO, pause_s=0)
        for tick, processes in enumerate(suspects):
            await dumps.take(tick, processes, ["taskmanager-1", "taskmanager-2"])
            dumped.extend((tick, path) for path in kept)
            kept.clear()

    asyncio.run(collect())
    return dumped


def test_a_long_collection_has_few_dumps_but_some_of_its_end() -> None:
    dumped = _dumped([["taskmanager-1"]] * 500)
    assert sorted({tick for tick, _ in dumped}) == [0, 4, 12, 28, 60, 124, 252]
    assert len(dumped) == 7 * SERIES


def test_the_jobmanager_has_its_own_path() -> None:
    assert _dumped([[JOBMANAGER]]) == [(0, "/jobmanager/thread-dump")] * SERIES


def test_a_late_suspect_is_dumped_at_once() -> None:
    dumped = _dumped([["taskmanager-1"]] * 5 + [["taskmanager-2", "taskmanager-1"]] * 3)
    assert [tick for tick, path in dumped if "taskmanager-2" in path] == [5] * SERIES
