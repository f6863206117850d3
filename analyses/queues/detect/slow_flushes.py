"""Stores of RocksDB whose flushes take long, from their logs and from metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.facts import MarkPoint

RUNNING: Final = "num-running-flushes"
_SIZES: Final = ("total-sst-files-size", "live-sst-files-size")
"""Sizes of the state files, of which each finished flush adds one."""


@dataclass(frozen=True, kw_only=True)
class LongFlush:
    """A flush that metrics show: it runs in every sample, and no file is added.

    Attributes:
        size: the size of all write buffers, so at most this is written; None if unknown.
    """

    store: h.Store
    first_us: int
    last_us: int
    size: float | None

    @property
    def ms(self) -> float:
        return (self.last_us - self.first_us) / 1000


@dataclass(frozen=True, kw_only=True)
class SlowFlushes:
    """The slow flushes of one task: lines of its logs, slowest first, and the longest flush of each of its stores."""

    task: str
    lines: list[h.StoreRecord]
    flushes: list[LongFlush]

    @property
    def worst(self) -> tuple[float, float | None]:
        """The duration of the longest flush in milliseconds, and how many bytes it wrote, if known."""
        shown: list[tuple[float, float | None]] = [
            (_ms(line), line.row.amount) for line in self.lines
        ]
        known = shown or [(each.ms, each.size) for each in self.flushes]
        return max(known, key=lambda each: each[0])

    @property
    def times_us(self) -> list[int]:
        """The times of all lines and samples."""
        times = [line.row.time_us for line in self.lines if line.row.time_us is not None]
        return [*times, *(us for each in self.flushes for us in (each.first_us, each.last_us))]

    @property
    def subtasks(self) -> frozenset[int]:
        owners = (line.owner for line in self.lines)
        known = {owner.subtask_index for owner in owners if owner is not None}
        return frozenset(known | {each.store.key.subtask_index for each in self.flushes})


def slow_flushes(
    job: h.JobQueues, *, seconds: float, flushes: float, rate: float
) -> h.Iterator[SlowFlushes]:
    """Yield the tasks whose stores write slowly.

    Args:
        job: the job.
        seconds: duration from which a single flush counts.
        flushes: number from which shorter flushes in RocksDB's logs count.
        rate: maximum bytes per second of a slow flush.
    """
    lines = {
        task: sorted((line for line in found if _is_slow(line, rate)), key=lambda line: -_ms(line))
        for task, found in h.store_lines(job, h.FLUSHES).items()
    }
    shown: dict[str, list[LongFlush]] = {}
    for store in h.stores_of_job(job):
        found = _longest(store)
        if found is None or found.ms < 1000 * seconds:
            continue
        if found.size is None or 1000 * found.size < rate * found.ms:
            shown.setdefault(store.key.task, []).append(found)
    for task in sorted({*lines, *shown}):
        known = lines.get(task, [])
        if len(known) < flushes and not any(_ms(line) >= 1000 * seconds for line in known):
            known = []
        if known or task in shown:
            yield SlowFlushes(task=task, lines=known, flushes=shown.get(task, []))


def _ms(line: h.StoreRecord) -> float:
    return line.row.ms or 0.0


def _is_slow(line: h.StoreRecord, rate: float) -> bool:
    return line.row.amount is None or 1000 * line.row.amount < rate * _ms(line)


def _longest(store: h.Store) -> LongFlush | None:
    """Return the longest period in which one flush runs, or None."""
    sizes = next((store.metrics[name].points for name in _SIZES if name in store.metrics), ())
    running = store.metrics[RUNNING].points if RUNNING in store.metrics else ()
    longest: tuple[int, int] | None = None
    begun: MarkPoint | None = None
    for point in running:
        if not point.low:
            begun = None
            continue
        begun = begun if begun and _is_constant(sizes, begun.time_us, point.until_us) else point
        period = (begun.time_us, point.until_us)
        if longest is None or period[1] - period[0] > longest[1] - longest[0]:
            longest = period
    if longest is None or not _is_constant(sizes, *longest):
        return None
    return LongFlush(
        store=store,
        first_us=longest[0],
        last_us=longest[1],
        size=store.highest("cur-size-all-mem-tables"),
    )


def _is_constant(sizes: Sequence[MarkPoint], first_us: int, last_us: int) -> bool:
    """Return whether the samples in a period show one size, and there are some."""
    inside = [p for p in sizes if first_us <= p.time_us and p.until_us <= last_us and p.n]
    return bool(inside) and len({size for p in inside for size in (p.low, p.high)}) == 1
