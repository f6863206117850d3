"""Stores of RocksDB that delay writes, from metrics and from their logs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from flowdiag.analyses.queues import helpers as h


@dataclass(frozen=True)
class Stall:
    """The stalled stores of one task, worst first, and the lines of their logs."""

    task: str
    stores: list[h.Store]
    lines: list[h.StoreRecord]

    @property
    def share(self) -> float | None:
        return self.stores[0].stalled if self.stores else None

    @property
    def times_us(self) -> list[int]:
        """The times of all lines and samples."""
        times = [line.row.time_us for line in self.lines if line.row.time_us is not None]
        points = [point for store in self.stores for point in store.points]
        return [*times, *(point.time_us for point in points), *(point.until_us for point in points)]

    def reason(self, immutable: float) -> str | None:
        """Return which limit of RocksDB was reached, according to its logs or else its metrics."""
        counts = Counter(line.row.reason for line in self.lines)
        if counts:
            return counts.most_common(1)[0][0]
        for store in self.stores:
            if (store.latest("num-files-at-level0") or 0.0) >= h.SLOWED_FILES:
                return "level-0"
            if (store.share_above("num-immutable-mem-table", immutable) or 0.0) >= 0.5:
                return "memtables"
        return None


def stalls_of(job: h.JobQueues, *, share: float, records: float) -> h.Iterator[Stall]:
    """Yield each task whose stores stall for `share` of the time or log `records` lines about stalls."""
    lines = h.store_lines(job, h.STALLS)
    stores = [s for s in h.stores_of_job(job) if (s.stalled or 0.0) >= share]
    tasks = {store.key.task for store in stores}
    tasks |= {task for task, found in lines.items() if len(found) >= records}
    for task in sorted(tasks):
        mine = [store for store in stores if store.key.task == task]
        mine.sort(key=lambda store: -(store.stalled or 0.0))
        yield Stall(task, mine, lines.get(task, []))
