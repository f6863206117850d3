"""The state stores of a job (RocksDB or ForSt): how long writes wait, and how well the block cache works."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.neighbours.facts import StoreRecord
from flowdiag.analyses.queues.facts import JobQueues, MarkPoint, StoreMetric
from flowdiag.parsers.focus import Focus

SLOWED_FILES: Final = 20
"""Number of files in level 0 at which RocksDB slows writes down by default (level0_slowdown_writes_trigger)."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The metrics of one subtask's state store, by name."""

    key: SubtaskKey
    operator: str | None
    metrics: Mapping[str, StoreMetric]

    def latest(self, name: str) -> float | None:
        """Return the last value of a metric, or None without samples."""
        return self.metrics[name].points[-1].last if name in self.metrics else None

    def highest(self, name: str) -> float | None:
        points = self.metrics[name].points if name in self.metrics else ()
        return max((point.high for point in points if point.high is not None), default=None)

    def share_above(self, name: str, limit: float = 0.0) -> float | None:
        """Return the share of a metric's samples above a limit, or None if there are fewer than three samples."""
        points = self.metrics[name].points if name in self.metrics else ()
        if len(points) < FEWEST:
            return None
        return sum((point.last or 0.0) > limit for point in points) / len(points)

    def increase(self, name: str) -> tuple[float, float] | None:
        """Return the increase of a statistic and the seconds it took, or None with fewer than two samples.

        A statistic that decreases has restarted at zero, because its store was reopened.
        """
        points = self.metrics[name].points if name in self.metrics else ()
        grown, lasted = 0.0, 0.0
        for before, after in zip((None, *points), points, strict=False):
            grown += _rise(after.first, after.last)
            lasted += (after.until_us - after.time_us) / 1e6
            if before is not None:
                grown += _rise(before.last, after.first)
                lasted += max(0.0, (after.time_us - before.until_us) / 1e6)
        return (grown, lasted) if lasted > 0 else None

    @cached_property
    def stalled(self) -> float | None:
        """The share of the time that writes waited, or None if no metric shows it."""
        grown = self.increase("stall_micros")
        if grown is not None:
            return min(1.0, grown[0] / 1e6 / grown[1])
        shares = [
            self.share_above(name) for name in ("is-write-stopped", "actual-delayed-write-rate")
        ]
        known = [share for share in shares if share is not None]
        return max(known, default=None)

    @property
    def bytes_on_disk(self) -> float | None:
        """Size of the state files, including overwritten and deleted entries."""
        return self.latest("total-sst-files-size") or self.latest("live-sst-files-size")

    @property
    def points(self) -> Sequence[MarkPoint]:
        """The samples of the metric with the most samples."""
        return max((metric.points for metric in self.metrics.values()), key=len)


FEWEST: Final = 3
LEVELS: Final = tuple(f"num-files-at-level{level}" for level in range(7))
"""The metrics with the number of files, from the newest files to the oldest."""
LIVE: Final = "estimate-live-data-size"


def by_operator(job: JobQueues, metric: str) -> dict[tuple[str, str | None], list[Store]]:
    """Return the stores that have a metric, by task and operator."""
    found: dict[tuple[str, str | None], list[Store]] = defaultdict(list)
    for store in stores_of_job(job):
        if metric in store.metrics:
            found[store.key.task, store.operator].append(store)
    return found


def files_and_live(stores: Sequence[Store]) -> tuple[float, float] | None:
    """Return the bytes of the files and of the entries still valid, or None if a store reports only one of them.

    The valid part is the largest of RocksDB's estimates, which are too low while files overlap.
    """
    sizes = [(store.bytes_on_disk, store.highest(LIVE)) for store in stores]
    if not sizes or any(size is None or live is None for size, live in sizes):
        return None
    return sum(size or 0.0 for size, _ in sizes), sum(live or 0.0 for _, live in sizes)


def _rise(first: float | None, last: float | None) -> float:
    if first is None or last is None:
        return 0.0
    return last - first if last >= first else last


@once
def stores_of_job(job: JobQueues) -> tuple[Store, ...]:
    """Return the stores of a job, by operator and subtask."""
    found: dict[tuple[SubtaskKey, str], dict[str, StoreMetric]] = defaultdict(dict)
    for metric in job.stores:
        found[metric.key, metric.operator or ""][metric.name] = metric
    return tuple(
        Store(key=key, operator=operator or None, metrics=metrics)
        for (key, operator), metrics in sorted(found.items(), key=lambda item: item[0])
    )


STALLS: Final = ("slowed", "stopped")
ERRORS: Final = ("error",)
FLUSHES: Final = ("flush",)
"""Kinds of lines in RocksDB's logs."""


def store_lines(job: JobQueues, kinds: Sequence[str]) -> dict[str, list[StoreRecord]]:
    """Return the lines of some kinds in RocksDB's logs, by task.

    If only one task has store metrics, lines of an unknown task belong to it.
    """
    tasks = {
        vertex.vertex_id: vertex.task
        for vertex in (job.job.graph.vertices if job.job.graph else ())
    }
    with_state = {metric.key.task for metric in job.stores}
    only = next(iter(with_state)) if len(with_state) == 1 else None
    found: dict[str, list[StoreRecord]] = defaultdict(list)
    for line in job.neighbours.stores:
        task = tasks.get(line.owner.operator_id, only) if line.owner is not None else only
        if task is not None and line.row.kind in kinds:
            found[task].append(line)
    return dict(found)


def store_evidence(store: Store, *names: str) -> Evidence | None:
    """Return the location of the last value of the first metric with samples."""
    metric = next((store.metrics[name] for name in names if name in store.metrics), None)
    if metric is None:
        return None
    point = metric.points[-1]
    full = metric.name if metric.family is None else f"*.{metric.name}"
    focus = Focus(
        metrics=((full, point.last),),
        task=store.operator or store.key.task,
        subtask_index=store.key.subtask_index,
        until_us=point.until_us,
    )
    return Evidence(*point.ref, point.time_us, focus)
