"""Measures the time that triggers spend in their state stores, from `customMetrics` in progress reports.

Spark adds up the metrics over all partitions, but one partition per core runs at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from flowdiag.analyses.rate.facts import ApplicationFacts, Trigger
from flowdiag.parsers.spark import LAST_SNAPSHOT

COMMIT_PARTS: Final[Mapping[str, tuple[str, str | None]]] = {
    "rocksdbCommitFileSyncLatencyMs": ("uploading files", "changelog"),
    "rocksdbSaveZipFilesLatencyMs": ("uploading files", "changelog"),
    "rocksdbChangeLogWriterCommitLatencyMs": ("uploading changes", None),
    "rocksdbCommitCompactLatency": ("compaction", "compaction"),
    "rocksdbCommitFlushLatency": ("flushing memtables", "changelog"),
    "rocksdbCommitCheckpointLatency": ("a local checkpoint of RocksDB", "changelog"),
    "rocksdbCommitPauseLatency": ("waiting for background work of RocksDB", "changelog"),
    "rocksdbCommitWriteBatchLatency": ("writing the changes to RocksDB", None),
}
"""Metrics of the parts of a commit in milliseconds, with a phrase and the remedy in `slow-state-commits`."""

ACCESS: Final = ("rocksdbGetLatency", "rocksdbPutLatency")
LOAD: Final = "rocksdbLoadLatencyMs"
BOUNDED: Final = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
_LOADED: Final = ("rocksdbNumLoadedFromDfs",)  # per trigger
_MISSED: Final = ("loadedMapCacheMissCount",)  # counts since the start of the executors


def total(triggers: Iterable[Trigger], names: Sequence[str]) -> int:
    """Return the sum of the metrics over all operators of the triggers."""
    return sum(
        operator.get("custom", {}).get(name, 0)
        for trigger in triggers
        for operator in trigger.state
        for name in names
    )


def spent_ms(trigger: Trigger, names: Sequence[str], cores: int | None) -> float:
    """Return the minimum time that these metrics account for in a trigger, if one partition per core runs at a time."""
    spent = 0.0
    for operator in trigger.state:
        partitions = operator.get("partitions") or 1
        value = sum(operator.get("custom", {}).get(name, 0) for name in names)
        spent += value / max(1, min(partitions, cores) if cores else partitions)
    return spent


def largest_commit_part(triggers: Sequence[Trigger]) -> tuple[str, str | None, float] | None:
    """Return the largest part of the commits as a phrase, its remedy and its share, or None without such metrics."""
    parts: dict[tuple[str, str | None], int] = {}
    for name, part in COMMIT_PARTS.items():
        parts[part] = parts.get(part, 0) + total(triggers, (name,))
    (text, remedy), most = max(parts.items(), key=lambda one: one[1])
    return (text, remedy, most / sum(parts.values())) if most else None


def reloads(triggers: Sequence[Trigger]) -> Iterator[tuple[Trigger, int]]:
    """Yield the triggers whose tasks had to load state that was not in memory, with the number of partitions."""
    for before, trigger in pairwise(triggers):
        count = total([trigger], _LOADED)
        missed = total([trigger], _MISSED) - total([before], _MISSED)
        if before.run_id == trigger.run_id and (loaded := max(count, missed)) > 0:
            yield trigger, loaded


def oldest_snapshot(trigger: Trigger) -> int | None:
    """Return the oldest of the partitions' last snapshots, as a version. -1 without a snapshot, None if unknown."""
    known = (operator.get("custom", {}).get(LAST_SNAPSHOT) for operator in trigger.state)
    return min((version for version in known if version is not None), default=None)


def has_bounded_memory(app: ApplicationFacts) -> bool:
    """Return whether all state stores of an executor share one limited block cache."""
    return app.settings.get(BOUNDED, "false").strip().lower() == "true"


def has_unlimited_rocksdb(app: ApplicationFacts) -> bool:
    """Return whether a query keeps its state in RocksDB without a memory limit."""
    used = any(
        operator.get("rocksdb")
        for query in app.queries
        for trigger in query.triggers[-1:]
        for operator in trigger.state
    )
    return used and not has_bounded_memory(app)


def rows_per_partition(operators: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the smallest number of rows per partition among the operators, or None without counts."""
    known = (
        one["rows"] / one["partitions"]
        for one in operators
        if one.get("partitions") and one.get("rows") is not None
    )
    return min(known, default=None)
